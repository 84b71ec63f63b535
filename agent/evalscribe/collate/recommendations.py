"""What to change, in the four groups of the report."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from evalscribe.model.finding import CauseKind, Finding, Recommendation, RecommendationGroup, Verdict
from evalscribe.signature.locate import NAMES_ONLY

GROUP_OF_KIND: dict[CauseKind, RecommendationGroup] = {
    "task": "eval",
    "grader": "eval",
    "harness": "eval",
    "lint": "lint",
    "model": "model",
    "infrastructure": "none",
}


def recommendations(findings: Sequence[Finding]) -> tuple[Recommendation, ...]:
    """Proposals first, numbered over all groups; then notes on the model and what needs no action, unnumbered."""
    numbered = tuple(r.model_copy(update={"id": f"R{n}"}) for n, r in enumerate(_proposals(findings), 1))
    return (*numbered, *_model_notes(findings), *_no_action(findings))


def proposes(verdict: Verdict) -> bool:
    """Whether a verdict asks the maintainers to change something of theirs."""
    return verdict.fix is not None and GROUP_OF_KIND[verdict.cause_kind] in ("eval", "lint")


def _proposals(findings: Sequence[Finding]) -> list[Recommendation]:
    """One for each change that a verdict asks for; equal changes are one."""
    by_fix: dict[tuple[RecommendationGroup, str, bool], list[str]] = defaultdict(list)
    for finding in findings:
        verdict = finding.judged
        if verdict and verdict.fix and proposes(verdict):
            by_fix[GROUP_OF_KIND[verdict.cause_kind], verdict.fix, verdict.would_pass].extend(finding.paths)
    made = [
        Recommendation(group=group, text=fix, evals=tuple(evals), would_pass=would_pass)
        for (group, fix, would_pass), evals in by_fix.items()
    ]
    made += _better_records(findings)
    return sorted(made, key=lambda r: (r.group != "eval", not r.would_pass, -len(r.evals)))


def _better_records(findings: Sequence[Finding]) -> Iterable[Recommendation]:
    """Recommend recording test messages, once per run, if the log names failed tests but has no message."""
    silent = [f for f in findings if f.judged and f.judged.error.startswith(NAMES_ONLY)]
    if silent:
        yield Recommendation(group="eval", text=RECORD, evals=_paths(silent))


def _model_notes(findings: Sequence[Finding]) -> Iterable[Recommendation]:
    """What the model surely gets wrong again: within the run, or in an earlier report too."""
    by_cause: dict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        verdict = finding.judged
        if verdict and verdict.classification == "MODEL_FAULT" and not verdict.uncertain:
            by_cause[verdict.cause].append(finding)
    for hit in by_cause.values():
        first = hit[0].judged
        again = any(finding.recurrence.kind in ("repeat", "fix-in-doubt") for finding in hit)
        if first and (len(hit) > 1 or again):
            alike = len({finding.judged.why for finding in hit if finding.judged}) == 1
            said = first.why.rstrip(" .…") if alike else f"{first.cause}, first: {first.why.rstrip(' .…')}"
            text = f"{said}{' (in an earlier run too)' if again else ''}."
            yield Recommendation(group="model", text=text, evals=_paths(hit))


def _no_action(findings: Sequence[Finding]) -> Iterable[Recommendation]:
    said: dict[str, list[str]] = defaultdict(list)
    for finding in findings:
        if (text := _why_nothing(finding.judged)) is not None:
            said[text].extend(finding.paths)
    return [Recommendation(group="none", text=text, evals=tuple(said[text])) for text in NOTHING if said[text]]


RECORD = "record why tests fail: keep `failureMessages` of the test runner's JSON report, or its stderr, with the eval"
OWN, DOCUMENTED, RERUN = "the model's own.", "known gap, documented.", "run it again; not counted in the estimate."
UNSURE = "uncertain: settle the label first."
NOTHING = (OWN, DOCUMENTED, RERUN, UNSURE)


def _why_nothing(verdict: Verdict | None) -> str | None:
    """Why no change is proposed for a failure, or None where one is."""
    if verdict is None or proposes(verdict):
        return None
    if verdict.cause_kind == "infrastructure":
        return RERUN
    if verdict.uncertain:
        return UNSURE
    return {"KNOWN_GAP": DOCUMENTED, "MODEL_FAULT": OWN}.get(verdict.classification)


def _paths(findings: Iterable[Finding]) -> tuple[str, ...]:
    return tuple(path for finding in findings for path in finding.paths)
