"""Collate findings into recurrence, patterns and recommendations."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from evalscribe.evidence.locate import NAMES_ONLY
from evalscribe.evidence.same_failure import FailureDescription, same_failure
from evalscribe.failures.patterns import find_patterns
from evalscribe.model.finding import (
    CauseKind,
    Collation,
    Correction,
    Finding,
    Precedent,
    Recommendation,
    RecommendationGroup,
    Recurrence,
    Verdict,
)
from evalscribe.model.run import Run


def find_recurrence(verdict: Verdict | None, step: str | None, precedents: Sequence[Precedent]) -> Recurrence:
    """Compare a verdict with `precedents`: those of this eval in comparable runs, newest first."""
    if not precedents:
        return Recurrence()
    reports = tuple(dict.fromkeys(precedent.report for precedent in precedents))
    newest = precedents[0]
    if verdict is not None and not same_failure(_now(verdict, step), _then(newest)):
        return Recurrence(kind="changed", reports=reports)
    action = next((precedent.action for precedent in precedents if precedent.action), None)
    return Recurrence(kind="fix-in-doubt" if action else "repeat", reports=reports, action=action)


def _now(verdict: Verdict, step: str | None) -> FailureDescription:
    return FailureDescription(step, verdict.classification, verdict.cause, verdict.error)


def _then(earlier: Precedent) -> FailureDescription:
    return FailureDescription(earlier.step, earlier.classification, earlier.cause, earlier.error)


GROUP_OF_KIND: dict[CauseKind, RecommendationGroup] = {
    "task": "eval",
    "grader": "eval",
    "harness": "eval",
    "lint": "lint",
    "model": "model",
    "infrastructure": "none",
}


def make_recommendations(findings: Sequence[Finding]) -> tuple[Recommendation, ...]:
    """Return proposals first, numbered over all groups; then unnumbered notes on the model and on what needs no
    action."""
    numbered = tuple(r.model_copy(update={"id": f"R{n}"}) for n, r in enumerate(_proposals(findings), 1))
    return (*numbered, *_model_notes(findings), *_no_action(findings))


def proposes(verdict: Verdict) -> bool:
    """Return whether a verdict proposes a change to the suite."""
    return verdict.fix is not None and GROUP_OF_KIND[verdict.cause_kind] in ("eval", "lint")


def _proposals(findings: Sequence[Finding]) -> list[Recommendation]:
    """Return one proposal for each distinct change that the verdicts ask for."""
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
    """Yield notes on repeated model faults: several in this run, or also in an earlier report."""
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
    """Return why no change is proposed for a failure; None if one is."""
    if verdict is None or proposes(verdict):
        return None
    if verdict.cause_kind == "infrastructure":
        return RERUN
    if verdict.uncertain:
        return UNSURE
    return {"KNOWN_GAP": DOCUMENTED, "MODEL_FAULT": OWN}.get(verdict.classification)


def _paths(findings: Iterable[Finding]) -> tuple[str, ...]:
    return tuple(path for finding in findings for path in finding.paths)


def collate(
    run: Run,
    findings: Sequence[Finding],
    history: Mapping[str, Sequence[Precedent]],
    newest: str | None = None,
    corrections: Mapping[str, Correction] | None = None,
) -> Collation:
    """Collate the findings of a run.

    Patterns and recommendations use people's corrections before the judge's labels.

    Args:
        run: The run.
        findings: Its findings.
        history: Entries of earlier reports by the eval's path, newest first.
        newest: Name of the last report.
        corrections: People's corrections by path.
    """
    seen = tuple(_with_recurrence(finding, history) for finding in findings)
    in_force = [_corrected(finding, corrections or {}) for finding in seen]
    return Collation(
        findings=seen,
        patterns=find_patterns(in_force),
        resolved=resolved_evals(run, history, newest),
        recommendations=make_recommendations(in_force),
    )


def resolved_evals(run: Run, history: Mapping[str, Sequence[Precedent]], newest: str | None) -> tuple[str, ...]:
    """Return evals that failed in the newest earlier report and not in this run.

    Only evals that ran are included, if the source lists them all; if its list is incomplete, the result is empty.
    """
    if len(run.failures) < run.failed:
        return ()
    failing = {eval.path for eval in run.failures}
    ran = set(run.evals) if run.evals is not None else None
    last_time = (path for path, earlier in history.items() if any(p.report == newest for p in earlier))
    return tuple(sorted(path for path in last_time if path not in failing and (ran is None or path in ran)))


def _with_recurrence(finding: Finding, history: Mapping[str, Sequence[Precedent]]) -> Finding:
    """Add recurrence to a finding. Its group shares the history of the first member that has any."""
    earlier = next((history[path] for path in finding.paths if history.get(path)), ())
    found = find_recurrence(finding.judged, finding.step, earlier)
    return finding if found == finding.recurrence else finding.model_copy(update={"recurrence": found})


def _corrected(finding: Finding, corrections: Mapping[str, Correction]) -> Finding:
    """Apply people's corrections to a finding; where they blame the model, the judge's proposed change is dropped."""
    said = next((corrections[path] for path in finding.paths if path in corrections), None)
    if said is None or finding.judged is None:
        return finding
    change: dict[str, object] = {"classification": said.classification, "uncertain": False}
    if said.cause_kind:
        change["cause_kind"] = said.cause_kind
    if said.classification == "MODEL_FAULT":
        change |= {"cause_kind": "model", "fix": None, "would_pass": False}
    return finding.model_copy(update={"verdict": finding.judged.model_copy(update=change)})
