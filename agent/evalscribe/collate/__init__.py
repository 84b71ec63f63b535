"""Findings into what they share: recurrence, patterns, recommendations. Pure."""

from collections.abc import Mapping, Sequence

from evalscribe.collate.patterns import patterns
from evalscribe.collate.recommendations import recommendations
from evalscribe.collate.recurrence import recurrence
from evalscribe.finding import Finding, Precedent
from evalscribe.pattern import Collation
from evalscribe.run import Run

__all__ = ["collate"]


def collate(
    run: Run, findings: Sequence[Finding], history: Mapping[str, Sequence[Precedent]], newest: str | None = None
) -> Collation:
    """`history` maps an eval's path to what earlier reports say of it, newest first; `newest` names the last report."""
    seen = tuple(_with_recurrence(finding, history) for finding in findings)
    return Collation(
        findings=seen,
        patterns=patterns(seen),
        resolved=resolved(run, history, newest),
        recommendations=recommendations(seen),
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
