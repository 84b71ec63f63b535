"""A report of three failures and a group, as a judge would write it."""

from collections.abc import Callable

import pytest

from evalscribe.model.finding import CauseKind, Classification, Pattern, Recommendation
from evalscribe.model.report import EvalRef, JudgeLabel, Report, ReportEntry, RunHeader, Snippet

MakeEntry = Callable[..., ReportEntry]


def entry(
    *paths: str,
    label: Classification | None = "MODEL_FAULT",
    kind: CauseKind | None = "model",
    confidence: float = 0.8,
    **more: object,
) -> ReportEntry:
    judge = JudgeLabel(id="rules@1", classification=label, confidence=confidence) if label else None
    fields: dict[str, object] = {
        "evals": tuple(EvalRef(path=path) for path in paths),
        "step": "tests",
        "classification": label,
        "cause": f"cause-of-{paths[0].replace('/', '-')}" if label else None,
        "cause_kind": kind if label else None,
        "judge": judge,
        "why": f"why {paths[0]}",
        "error": f"Error in {paths[0]}",
        "reasoning": f"Reasoning about {paths[0]}.",
        "snippets": (Snippet(role="output", path="a.py", first=3, text=f"call({paths[0]!r})"),),
    }
    return ReportEntry.model_validate(fields | more)


def make_report(*entries: ReportEntry, **more: object) -> Report:
    failed = sum(len(entry.evals) for entry in entries)
    fields: dict[str, object] = {
        "run": RunHeader(
            id="runrunrun1", provider="example", model="m-1", passed=5, failed=failed, total=5 + failed, listed=failed
        ),
        "date": "2026-11-02",
        "judges": ("rules@1",),
        "evidence": "sha256:00000001",
        "entries": entries,
        "patterns": (Pattern(name="Lint decides", kind="rule", evals=("b/2",), text="all tests pass."),),
        "recommendations": (
            Recommendation(id="R1", group="eval", text="mend b", evals=("b/2",), would_pass=True),
            Recommendation(id="R2", group="lint", text="mend c", evals=("c/3",)),
            Recommendation(group="none", text="the model's own", evals=("a/1",)),
        ),
    }
    return Report.model_validate(fields | more)


@pytest.fixture
def make() -> Callable[..., Report]:
    return make_report


@pytest.fixture
def make_entry() -> MakeEntry:
    return entry


@pytest.fixture
def report() -> Report:
    return make_report(
        entry("a/1"),
        entry("b/2", label="OVERLY_STRICT", kind="harness"),
        entry("c/3", label="AMBIGUOUS_TASK", kind="task", uncertain=True, confidence=0.4),
        entry("g/1", "g/2", "h/1", label="KNOWN_GAP", kind="infrastructure", snippets=()),
        entry("u/9", label=None, snippets=()),
    )
