"""Findings into what they share: recurrence, patterns, recommendations. Pure."""

from collections.abc import Mapping, Sequence

from evalscribe.collate.patterns import patterns
from evalscribe.collate.recommendations import recommendations
from evalscribe.collate.recurrence import recurrence
from evalscribe.model.finding import Collation, Correction, Finding, Precedent
from evalscribe.model.run import Run

__all__ = ["collate"]


def collate(
    run: Run,
    findings: Sequence[Finding],
    history: Mapping[str, Sequence[Precedent]],
    newest: str | None = None,
    corrections: Mapping[str, Correction] | None = None,
) -> Collation:
    """`history` maps an eval's path to what earlier reports say of it, newest first; `newest` names the last report.

    Patterns and recommendations follow the labels in force: a person's correction, by path, before the judge's.
    """
    seen = tuple(_with_recurrence(finding, history) for finding in findings)
    in_force = [_corrected(finding, corrections or {}) for finding in seen]
    return Collation(
        findings=seen,
        patterns=patterns(in_force),
        resolved=resolved(run, history, newest),
        recommendations=recommendations(in_force),
    )


def resolved(run: Run, history: Mapping[str, Sequence[Precedent]], newest: str | None) -> tuple[str, ...]:
    """Evals that failed in the newest earlier report and not here.

    Where the source names all evals, only those that ran; where its list is short, nothing can be said.
    """
    if len(run.failures) < run.failed:
        return ()
    failing = {eval.path for eval in run.failures}
    ran = set(run.evals) if run.evals is not None else None
    last_time = (path for path, earlier in history.items() if any(p.report == newest for p in earlier))
    return tuple(sorted(path for path in last_time if path not in failing and (ran is None or path in ran)))


def _with_recurrence(finding: Finding, history: Mapping[str, Sequence[Precedent]]) -> Finding:
    """A group's members share one verdict; its history is that of the first member that has any."""
    earlier = next((history[path] for path in finding.paths if history.get(path)), ())
    found = recurrence(finding.judged, finding.step, earlier)
    return finding.model_copy(update={"recurrence": found})


def _corrected(finding: Finding, corrections: Mapping[str, Correction]) -> Finding:
    """The finding as people see it; what the judge would change is not proposed where they blame the model."""
    said = next((corrections[path] for path in finding.paths if path in corrections), None)
    if said is None or finding.judged is None:
        return finding
    change: dict[str, object] = {"classification": said.classification, "uncertain": False}
    if said.cause_kind:
        change["cause_kind"] = said.cause_kind
    if said.classification == "MODEL_FAULT":
        change |= {"cause_kind": "model", "fix": None, "would_pass": False}
    return finding.model_copy(update={"verdict": finding.judged.model_copy(update=change)})
