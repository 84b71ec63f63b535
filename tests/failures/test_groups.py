"""Grouping failures that one verdict may answer."""

from pathlib import Path

import pytest

from evalscribe.failures.prepare import ended_before_output, group_failures, summarise_evidence
from evalscribe.model.evidence import Document, Evidence, UnreadableEvidence
from evalscribe.model.run import Eval, Step
from support.real_runs import gold, payloads, run_folders

LOG = "[ok] install\n[error] Deploying backend on port {port}: Error: Failed to deploy:\na.ts:1:1 - error TS1: bad\n"


def failed(eval_id: str, output: str | None = None, **more: object) -> Evidence:
    """Return a failure; with an output, it failed at the deploy step."""
    eval = Eval(
        id=eval_id,
        category="c",
        name=str(more.get("name", "same")),
        failed_step="deploy" if output is not None else None,
        reason=str(more.get("reason", "error: No endpoints found for a/b.")),
    )
    documents = [Document(role="task", path="TASK.txt", text=str(more.get("task", "Do it.")))]
    steps: tuple[Step, ...] = ()
    if output is not None:
        documents.append(Document(role="output", path="a.ts", text=output))
        documents.append(Document(role="log", path="run.log", text=LOG.format(port=more.get("port", 33229))))
        steps = (Step(name="install", status="passed"), Step(name="deploy", status="failed", error="deploy failed"))
    return Evidence(eval=eval, steps=steps, documents=tuple(documents))


def members(*failure_evidence: Evidence | UnreadableEvidence) -> list[tuple[str, ...]]:
    return [group.eval_ids for group in group_failures(summarise_evidence(one) for one in failure_evidence)]


def test_equal_errors_before_any_output_are_one_group() -> None:
    assert members(failed("e1", task="One."), failed("e2", task="Two.", name="other")) == [("e1", "e2")]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("error: No endpoints found for a/b.", "error: The key was refused."),
        ("error: request failed with status 429", "error: request failed with status 503"),
    ],
)
def test_different_reasons_are_different_groups(first: str, second: str) -> None:
    assert members(failed("e1", reason=first), failed("e2", reason=second)) == [("e1",), ("e2",)]


def test_failures_with_a_stock_reason_are_not_grouped() -> None:
    assert members(failed("e1", reason="eval failed", task="1"), failed("e2", reason="eval failed", task="2")) == [
        ("e1",),
        ("e2",),
    ]


def test_trials_with_equal_output_and_different_ports_are_one_group() -> None:
    assert members(failed("e1", "x = 1", port=33229), failed("e2", "x = 1  ", port=40001)) == [("e1", "e2")]


def test_equal_signatures_with_other_evidence_are_not_grouped() -> None:
    first, second = summarise_evidence(failed("e1", "x = 10")), summarise_evidence(failed("e2", "x = 20"))
    assert first.signature == second.signature is not None
    assert [group.eval_ids for group in group_failures([first, second])] == [("e1",), ("e2",)]


def test_unreadable_evals_are_not_grouped() -> None:
    evals = [failed(name).eval for name in ("e1", "e2")]
    assert members(*(UnreadableEvidence(eval=eval, reason="corrupt zip") for eval in evals)) == [("e1",), ("e2",)]


def test_failure_with_an_output_document_did_not_end_before_output() -> None:
    failure_evidence = failed("e1").model_copy(update={"documents": (Document(role="output", path="a.ts", text="x"),)})
    assert not ended_before_output(failure_evidence)
    assert ended_before_output(failed("e1"))


def test_group_id_does_not_depend_on_the_eval_id() -> None:
    (once,), (again,) = (
        group_failures([summarise_evidence(failed("e1"))]),
        group_failures([summarise_evidence(failed("e9"))]),
    )
    assert once.id == again.id
    assert once.id.startswith("sha256:")


def test_72_failures_of_one_real_run_are_one_group_and_the_others_stand_alone(real_data: Path) -> None:
    sizes = {}
    for folder in run_folders(real_data):
        groups = group_failures(summarise_evidence(evidence) for _, evidence in payloads(folder))
        sizes[folder.name] = sorted({len(group.eval_ids) for group in groups})
        assert sum(len(group.eval_ids) for group in groups) == len(gold(folder))
    assert sizes.pop("jn70vkj7") == [72]
    assert all(size == [1] for size in sizes.values())
