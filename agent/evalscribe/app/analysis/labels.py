"""What people said of earlier failures, as far as it bears on the failures of a run."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from posixpath import relpath

from evalscribe.app.sightings import sightings
from evalscribe.failures.human_labels import CurrentFailure, FailureRecords, add_labels, examples_from_labels
from evalscribe.ids import model_folder
from evalscribe.judging.rules.engine import RulesJudge
from evalscribe.model.evidence import FailureFingerprint
from evalscribe.model.finding import Failure, HumanLabel
from evalscribe.model.run import Run
from evalscribe.model.storage import Store
from evalscribe.reports.history import ReportHistory


@dataclass(frozen=True)
class Labels:
    """Labels of other runs, beside the failures that they are about where those are in the store."""

    labels: tuple[HumanLabel, ...]
    sighted: FailureRecords
    names: Mapping[str, str]
    """What the run's report would call each report, by its name below the reports folder."""
    runs: Mapping[str, str]
    """The run of each earlier report of the model, by what the run's report would call it."""
    _looks: dict[str, CurrentFailure] = field(default_factory=dict)

    def recalled(self, case: Failure, sighting: FailureFingerprint) -> Failure:
        """The case with the precedents and examples that people's labels are."""
        if not (self.labels or case.precedents):
            return case
        now = self._looks.get(sighting.eval_id)
        if now is None:
            # Only examples are found by their cause, and without labels there are none.
            now = self._looks[sighting.eval_id] = _look(case, sighting, cause=_cause(case) if self.labels else None)
        return case.model_copy(
            update={
                "precedents": add_labels(case.precedents, self.labels, now, self.sighted, self.names, self.runs),
                "examples": examples_from_labels(self.labels, now, self.sighted),
            }
        )


def labels_for(store: Store, run: Run, past: ReportHistory) -> Labels:
    """What the store knows; a run's own labels are never its history."""
    labels = tuple(label for label in store.labels() if label.run != run.id)
    folder = "/" + (past.folder or "/".join(model_folder(run.provider, run.model)))
    names = {label.report: relpath(f"/{label.report}", folder) for label in labels}
    runs = {report.name: report.run for report in past.reports}
    return Labels(labels, _sighted(store, {*runs.values(), *(label.run for label in labels)}), names, runs)


def _sighted(store: Store, run_ids: Iterable[str]) -> dict[tuple[str, str], FailureFingerprint]:
    found: dict[tuple[str, str], FailureFingerprint] = {}
    for run_id in sorted({*run_ids}.intersection(store.run_ids())):
        if run := store.get_run(run_id):
            found |= {(run_id, eval.path): seen for eval, seen in zip(run.failures, sightings(store, run), strict=True)}
    return found


def _look(case: Failure, sighting: FailureFingerprint, *, cause: str | None) -> CurrentFailure:
    located = case.diagnosis.located if case.diagnosis else None
    return CurrentFailure(
        sighting=sighting,
        path=case.evidence.eval.path,
        error=located.error if located else None,
        code=located.code if located else None,
        cause=cause,
    )


def _cause(case: Failure) -> str | None:
    """As rules name it, where they are sure."""
    found = RulesJudge().decide(case)
    return None if found.uncertain else found.cause
