"""List evals that fail repeatedly with one model, and evals that fail in the same way with several models."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from evalscribe.errors import NotFoundError, UsageError
from evalscribe.evidence.same_failure import CompactFailure, CompleteRun, OtherRuns, compact_failure, complete_runs
from evalscribe.git.report_folder import ReportsFolder
from evalscribe.ids import Frozen, model_key, same_experiment
from evalscribe.model.analysis import FindingSummary
from evalscribe.model.finding import CauseKind, Classification, CrossModelFailures, FollowUpOutcome, HumanLabel
from evalscribe.model.repository import ReportFile
from evalscribe.reports.freeform.lines import bare_name
from evalscribe.reports.history import (
    SHORTEST_PREFIX,
    FindRecord,
    LaterRun,
    PastReport,
    StoredRecords,
    action_outcome,
    actions_done,
    combine_outcomes,
    describe_finding,
    has_cause,
    is_complete_run,
    order_reports,
    past_reports,
    stored_records,
    stored_runs,
)
from evalscribe.sample import is_shipped
from evalscribe.text import join_first, pluralise

if TYPE_CHECKING:
    from evalscribe.store.analyses import AnalysisStore

MOST_NAMED = 10


class ReportReference(Frozen):
    """A report in which an eval is listed as a failure."""

    report: str
    """File name of the report."""
    date: str | None = None


class RecordedAction(Frozen):
    """An action taken on an eval's failure, and the outcome of this action."""

    model: str
    """Model whose report records the action, as its folder in the reports folder: `provider/model`."""
    report: ReportReference
    text: str
    outcome: FollowUpOutcome
    """Outcome of the action, as shown by later runs of the same experiment with any model."""


class RecurringRow(Frozen):
    """All known failures of one eval with one model."""

    model: str
    """The model's folder in the reports folder: `provider/model`."""
    eval: str
    first: ReportReference
    last: ReportReference
    times: int
    """Number of runs in which the eval failed."""
    labels: tuple[Classification, ...] = ()
    """Labels of the failures, newest first, without duplicates."""
    causes: tuple[str, ...] = ()
    kinds: tuple[CauseKind, ...] = ()
    """Kinds of cause of the failures, newest first, without duplicates."""
    proved: bool = False
    """True if replays proved the newest label to be right."""
    actions: tuple[RecordedAction, ...] = ()

    @property
    def is_outage(self) -> bool:
        """True if every failure is an outage and no action is recorded."""
        return self.kinds == ("infrastructure",) and not self.actions


class RecurringEvals(Frozen):
    rows: tuple[RecurringRow, ...] = ()
    """Rows sorted by model. Within each model, the eval with the most failures comes first. Evals with equally many
    failures are sorted by path.
    """
    notes: tuple[str, ...] = ()
    """Notes on files that could not be read."""


@dataclass(frozen=True)
class ModelReport:
    """A report and its rank among the reports on its model."""

    model: str
    place: int
    """Rank among the reports on the same model. The newest report has rank 0."""
    report: PastReport
    failures: Mapping[str, FindingSummary]
    """Findings of the report, keyed by eval path. If the report names an eval without its category, the path is taken
    from other reports on the model.
    """

    @property
    def reference(self) -> ReportReference:
        return ReportReference(report=self.report.name, date=self.report.date)

    @cached_property
    def actions_by_eval(self) -> Mapping[str, Sequence[tuple[str, FindingSummary]]]:
        """Actions on the failures of this report, keyed by eval path."""
        paths = {finding.eval: path for path, finding in self.failures.items()}
        by_eval: dict[str, list[tuple[str, FindingSummary]]] = {}
        for text, finding in actions_done(self.report):
            by_eval.setdefault(paths.get(finding.eval, finding.eval), []).append((text, finding))
        return by_eval

    def follows(self, other: "ModelReport") -> bool:
        """Return whether this report's run is later than the run of another report.

        If runs of two different models have the same date, neither counts as later. For runs of different experiments,
        the result is False.
        """
        same = same_experiment(self.report.analysis.run.experiment, other.report.analysis.run.experiment)
        if self.report.run == other.report.run or not same:
            return False
        if self.model == other.model:
            return self.place < other.place
        return bool(self.report.date and other.report.date) and (self.report.date or "") > (other.report.date or "")

    def now(self, eval: str, find_record: FindRecord) -> LaterRun:
        """Return the result that the report shows for an eval."""
        finding = self.failures.get(eval)
        run, failures = self.report.analysis.run, self.report.analysis.findings
        if finding is None:
            return LaterRun(self.report.date, None, ran=is_complete_run(run, len(failures)))
        fingerprint = find_record(self.report, finding.eval)
        return LaterRun(self.report.date, describe_finding(finding), judged=has_cause(finding), fingerprint=fingerprint)


def load_model_reports(files: Sequence[ReportFile]) -> tuple[tuple[ModelReport, ...], tuple[str, ...]]:
    """Load reports and group them by model, newest first. Also return notes about files that cannot be read."""
    reports: list[tuple[str, PastReport]] = []
    notes: list[str] = []
    for file in files:
        read, unread = past_reports([file])
        reports.extend((str(PurePosixPath(file.name).parent), report) for report in read)
        notes.extend(unread)
    return group_by_model(reports), tuple(notes)


def group_by_model(reports: Iterable[tuple[str, PastReport]]) -> tuple[ModelReport, ...]:
    """Group reports by model, newest first within each model.

    Each report is given with its folder, relative to the reports folder.
    """
    folders: dict[tuple[str, ...], dict[str, list[PastReport]]] = {}
    for folder, report in reports:
        folders.setdefault(_key(folder), {}).setdefault(folder, []).append(report)
    models = sorted((min(by_folder, key=_plainest), list(by_folder.values())) for by_folder in folders.values())
    return tuple(
        report
        for model, by_folder in models
        for report in _model_reports(model, order_reports([report for in_folder in by_folder for report in in_folder]))
    )


def _key(folder: str) -> tuple[str, ...]:
    """Return a key that is the same for all folders of a model.

    A model has several folders if its vendor and other providers serve it.
    """
    provider, slash, model = folder.partition("/")
    return model_key(provider, model) if slash else (folder,)


def _plainest(folder: str) -> tuple[int, str]:
    return folder.count("/"), folder


def recurring_in_reports(
    files: Sequence[ReportFile], models: Sequence[str] = (), find_record: FindRecord = lambda *_: None
) -> RecurringEvals:
    """Return the recurring evals of the models in the given folders. If no folder is given, return those of all models.

    `files` must have the reports on all models, because a later report on any model can show the outcome of an action.
    For each file that cannot be read, a note is returned.
    """
    reports, notes = load_model_reports(files)
    keys = set(map(_key, models))
    selected = sorted({report.model for report in reports if not models or _key(report.model) in keys})
    rows = [row for model in selected for row in _rows(model, reports, find_record)]
    return RecurringEvals(rows=tuple(rows), notes=notes)


def actions(
    eval: str, mine: Iterable[ModelReport], everywhere: Sequence[ModelReport], find_record: FindRecord
) -> Iterator[RecordedAction]:
    """Yield the actions that the reports in `mine` record for an eval.

    The outcomes are taken from later reports in `everywhere`.
    """
    for report in mine:
        for text, finding in report.actions_by_eval.get(eval, ()):
            later = [other.now(eval, find_record) for other in everywhere if other.follows(report)]
            acted_on = find_record(report.report, finding.eval) if later else None
            outcome = combine_outcomes(action_outcome(text, describe_finding(finding), acted_on, now) for now in later)
            yield RecordedAction(model=report.model, report=report.reference, text=text, outcome=outcome)


def actions_by_eval(
    reports: Sequence[ModelReport], find_record: FindRecord = lambda *_: None
) -> Mapping[str, Sequence[RecordedAction]]:
    """Return all actions that the given reports record, keyed by eval path.

    The outcome of each action is taken from later reports.
    """
    recorded: dict[str, list[RecordedAction]] = defaultdict(list)
    for report in reports:
        for eval in report.actions_by_eval:
            recorded[eval].extend(actions(eval, [report], reports, find_record))
    return recorded


def _model_reports(model: str, reports: Sequence[PastReport]) -> Iterator[ModelReport]:
    """Convert the reports on one model. `reports` must be sorted, with the newest report first."""
    paths = _paths_by_bare_name(finding.eval for report in reports for finding in report.analysis.findings)
    for place, report in enumerate(map(_outline, reports)):
        failures = {paths.get(finding.eval, finding.eval): finding for finding in report.analysis.findings}
        yield ModelReport(model, place, report, failures)


def _outline(report: PastReport) -> PastReport:
    """Drop those parts of a report that this module does not need, to save memory."""
    unsaid = {"reasoning": None, "output_snippet": None, "expected_snippet": None, "citations": ()}
    findings = tuple(finding.model_copy(update=unsaid) for finding in report.analysis.findings)
    analysis = report.analysis.model_copy(update={"findings": findings, "patterns": (), "recommendations": ()})
    return report.model_copy(update={"analysis": analysis})


def _paths_by_bare_name(evals: Iterable[str]) -> dict[str, str]:
    """Map each bare name, which has no category, to its path. A bare name that several paths share is left out."""
    paths: dict[str, set[str]] = {}
    for path in evals:
        if "/" in path:
            paths.setdefault(bare_name(path), set()).add(path)
    return {name: next(iter(matches)) for name, matches in paths.items() if len(matches) == 1}


def _rows(model: str, reports: Sequence[ModelReport], find_record: FindRecord) -> list[RecurringRow]:
    mine = [report for report in reports if report.model == model]
    evals = dict.fromkeys(eval for report in mine for eval in report.failures)
    rows = [_row(eval, [report for report in mine if eval in report.failures], reports, find_record) for eval in evals]
    return sorted(rows, key=lambda row: (-row.times, row.eval))


def _row(
    eval: str, failed_in: Sequence[ModelReport], reports: Sequence[ModelReport], find_record: FindRecord
) -> RecurringRow:
    findings = [report.failures[eval] for report in failed_in]
    return RecurringRow(
        model=failed_in[0].model,
        eval=eval,
        first=failed_in[-1].reference,
        last=failed_in[0].reference,
        times=len({report.report.run for report in failed_in}),
        labels=tuple(dict.fromkeys(finding.classification for finding in findings if finding.classification)),
        causes=tuple(dict.fromkeys(finding.cause for finding in findings if finding.cause and not finding.overruled)),
        kinds=tuple(dict.fromkeys(finding.cause_kind for finding in findings if finding.cause_kind)),
        proved=findings[0].basis == "proved" and not findings[0].reviewer,
        actions=tuple(actions(eval, failed_in, reports, find_record)),
    )


class AffectedModel(Frozen):
    """A model with which an eval fails in the same way as with other models."""

    model: str
    """Name of the model: `provider/model`."""
    runs: tuple[str, ...]
    label: Classification | None = None
    """Label that a person gave this failure. If there is none, the label in the newest report on one of the runs."""
    by_person: bool = False
    """True if a person gave or confirmed the label."""
    proved: bool = False
    """True if replays proved the label to be right."""


class SharedFailure(Frozen):
    """A version of an eval that fails in the same way with several models in one experiment."""

    eval: str
    experiment: str
    step: str | None
    signature: str
    """Error signature that all of the failures share. The failed step is part of the signature."""
    failing: int
    models: int
    """Number of models whose results can be compared."""
    affected: tuple[AffectedModel, ...]
    """Models with which the eval fails in this way, sorted by name."""
    earlier: tuple[str, ...] = ()
    """Models with which an earlier version of the eval failed in the same way. `failing` and `models` do not count
    these models.
    """
    actions: tuple[RecordedAction, ...] = ()


class SharedFailures(Frozen):
    rows: tuple[SharedFailure, ...] = ()
    """Rows sorted by the number of models, with the highest number first. Rows with the same number are
    sorted by path.
    """
    notes: tuple[str, ...] = ()


def find_shared_failures(
    experiments: Sequence[tuple[Sequence[CompactFailure], Sequence[CompleteRun]]],
    files: Sequence[ReportFile],
    labels: Sequence[HumanLabel] = (),
    *,
    least: int = 2,
    find_record: FindRecord = lambda *_: None,
) -> SharedFailures:
    """Find the evals that fail in the same way with at least `least` models.

    Args:
        experiments: For each experiment, a pair: all failures in the stored runs, and the complete runs.
        files: Reports on all models.
        labels: Labels that people gave, as read from git.
        least: Minimum number of models with which an eval must fail in the same way.
        find_record: Function that looks up the fingerprint of an eval's failure in an earlier run.
    """
    groups = [
        (same, across)
        for failures, complete in experiments
        for same, across in _failure_groups(failures, complete)
        if across.failing >= least
    ]
    runs = {failure.run for same, _ in groups for failure in same}
    reports, notes = _reports(files, runs)
    reported_evals = {same[0].eval for same, _ in groups}
    notes = (*notes, *(note for failures, _ in experiments for note in _unmatched(failures, reported_evals, least)))
    of_run = {run: [report for report in reports if report.report.is_of(run)] for run in runs}
    label_by_eval = {(label.run, label.eval): label for label in labels if label.in_force}
    rows = [_shared_failure(same, across, reports, of_run, label_by_eval, find_record) for same, across in groups]
    return SharedFailures(
        rows=tuple(sorted(rows, key=lambda row: (-row.failing, row.eval, row.experiment))), notes=notes
    )


def _unmatched(failures: Sequence[CompactFailure], reported: Set[str], least: int) -> Iterator[str]:
    """Yield notes about the evals of an experiment that fail with several models, but not in the same way.

    One note names the evals whose failures differ, and another note names the evals whose failures could not be
    compared.
    """
    models: dict[str, dict[str, bool]] = defaultdict(dict)
    for failure in failures:
        if failure.eval not in reported:
            models[failure.eval][failure.key] = (
                models[failure.eval].get(failure.key, False) or failure.fingerprint is not None
            )
    several = {eval: sum(by_model.values()) for eval, by_model in models.items() if len(by_model) >= least}
    for compared, description in (
        (True, "in different ways"),
        (False, "with logs that end before the reason: not compared"),
    ):
        if names := sorted(eval for eval, count in several.items() if (count >= least) == compared):
            evals = pluralise(len(names), "more eval")
            yield (
                f"{evals} of experiment {failures[0].experiment} failed for several models, {description}: "
                f"{join_first(names, MOST_NAMED)}"
            )


def _reports(files: Sequence[ReportFile], runs: Set[str]) -> tuple[tuple[ModelReport, ...], tuple[str, ...]]:
    """Load the reports on the models of the given runs. If one of these reports records an action, load all reports."""
    # Parsing a report with a thousand failures takes a second, so all reports are only loaded if they are needed.
    words = {run[:SHORTEST_PREFIX] for run in runs}
    folders = {_folder(file) for file in files if any(word in file.name or word in file.text for word in words)}
    reports, notes = load_model_reports([file for file in files if _folder(file) in folders])
    if not any(report.report.analysis.actions_taken for report in reports):
        return reports, notes
    other_reports, more = load_model_reports([file for file in files if _folder(file) not in folders])
    return (*reports, *other_reports), (*notes, *more)


def _folder(file: ReportFile) -> str:
    return str(PurePosixPath(file.name).parent)


def _failure_groups(
    failures: Sequence[CompactFailure], complete: Sequence[CompleteRun]
) -> Iterator[tuple[list[CompactFailure], CrossModelFailures]]:
    """Yield each group of failures with the same eval version and the same signature, together with the results of all
    models.
    """
    by_eval: dict[str, list[CompactFailure]] = defaultdict(list)
    groups: dict[tuple[object, ...], list[CompactFailure]] = defaultdict(list)
    for failure in failures:
        by_eval[failure.eval].append(failure)
        if failure.version and failure.fingerprint:
            groups[failure.eval, failure.fingerprint, failure.version].append(failure)
    other_runs = OtherRuns(by_eval, complete)
    for same in groups.values():
        if len(same) > 1 and (across := other_runs.across(same[0])):
            yield same, across


def _shared_failure(
    failures: Sequence[CompactFailure],
    across: CrossModelFailures,
    all_reports: Sequence[ModelReport],
    of_run: Mapping[str, Sequence[ModelReport]],
    label_by_eval: Mapping[tuple[str, str], HumanLabel],
    find_record: FindRecord,
) -> SharedFailure:
    first = failures[0]
    models: dict[str, list[CompactFailure]] = defaultdict(list)
    for failure in failures:
        models[failure.key].append(failure)
    runs = dict.fromkeys(failure.run for failure in failures)
    reports = {(report.model, report.place): report for run in runs for report in of_run[run]}
    affected = (_model(mine, of_run, label_by_eval) for mine in models.values())
    return SharedFailure(
        eval=first.eval,
        experiment=first.experiment,
        step=first.step,
        signature=first.fingerprint[0] if first.fingerprint else "",
        failing=across.failing,
        models=across.models,
        affected=tuple(sorted(affected, key=lambda item: item.model)),
        earlier=across.earlier,
        actions=tuple(actions(first.eval, [reports[at] for at in sorted(reports)], all_reports, find_record)),
    )


def _model(
    mine: Sequence[CompactFailure],
    of_run: Mapping[str, Sequence[ModelReport]],
    label_by_eval: Mapping[tuple[str, str], HumanLabel],
) -> AffectedModel:
    runs = tuple(dict.fromkeys(failure.run for failure in mine))
    affected = AffectedModel(model=mine[0].model, runs=runs)
    person = next((label for run in runs if (label := label_by_eval.get((run, mine[0].eval)))), None)
    if person:
        return affected.model_copy(update={"label": person.label, "by_person": True})
    order_reports = sorted({(report.model, report.place): report for run in runs for report in of_run[run]}.items())
    findings = (report.failures.get(mine[0].eval) for _, report in order_reports)
    finding = next((item for item in findings if item), None)
    if finding is None:
        return affected
    proved = finding.basis == "proved" and not finding.by_person
    return affected.model_copy(
        update={"label": finding.classification, "by_person": finding.by_person, "proved": proved}
    )


Key = tuple[str, ...]
"""Type of a model's key. All spellings of the model's name give the same key."""


def recurring_evals(
    library: ReportsFolder, models: Sequence[str] = (), store: "AnalysisStore | None" = None
) -> RecurringEvals:
    """Return the recurring evals of all models, or only those of the named models.

    A model is named by `provider/model`, in any spelling. Models of the shipped sample are included only if they are
    named, or if there are no other models. The outcomes of actions are more precise if `store` is given. Raises
    `NotFoundError` if a named model has no report.
    """
    folders = []
    for provider, name in map(_split_model, models):
        files = library.of_model(provider, name)
        if not files:
            raise NotFoundError(f"there is no report of {provider}/{name}; see `evalscribe reports list`")
        folders += [str(PurePosixPath(file.name).parent) for file in files]
    everything = sorted(library.all(), key=lambda file: file.name)
    if not models and (unshipped := [file for file in everything if not is_shipped(file.name)]):
        everything = unshipped
    return recurring_in_reports(everything, folders, StoredRecords(store))


def load_shared_failures(
    library: ReportsFolder, store: "AnalysisStore", models: Sequence[str] = (), least: int = 2
) -> SharedFailures:
    """Return the evals that fail in the same way with at least `least` models.

    The stored runs of the named models are compared. If no model is named, all stored runs are compared. Raises
    `NotFoundError` if a named model has neither a stored run nor a report.
    """
    by_key = {model_key(*_split_model(model)): model for model in models}
    gathered = _Gathered(store, frozenset(by_key))
    for key, model in by_key.items():
        if key not in gathered.stored_keys and not library.of_model(*_split_model(model)):
            raise NotFoundError(f"there is no stored run and no report of {model}; see `evalscribe reports list`")
    files = sorted(library.all(), key=lambda file: file.name)
    shared = find_shared_failures(
        gathered.experiments, files, store.labels(), least=least, find_record=StoredRecords(store)
    )
    return shared.model_copy(update={"notes": (*shared.notes, *_uncounted(library, models, gathered.stored_keys))})


class _Gathered:
    """Failures and complete runs of each experiment in the store.

    The store is read run by run, so that only one whole run is in memory at a time.
    """

    def __init__(self, store: "AnalysisStore", keys: frozenset[Key]) -> None:
        self.stored_keys: set[Key] = set()
        """Keys of all models with a stored run."""
        self._experiments: list[tuple[str, list[CompactFailure], list[CompleteRun]]] = []
        for run in stored_runs(store):
            key = model_key(run.provider, run.model)
            self.stored_keys.add(key)
            if run.experiment and (not keys or key in keys):
                _, failures, clean = self._experiment(run.experiment)
                failures.extend(map(compact_failure, stored_records(store, run)))
                clean.extend(complete_runs(run))

    def _experiment(self, name: str) -> tuple[str, list[CompactFailure], list[CompleteRun]]:
        # Different spellings can name the same experiment.
        same = next((item for item in self._experiments if same_experiment(item[0], name)), None)
        if same is None:
            self._experiments.append(same := (name, [], []))
        return same

    @property
    def experiments(self) -> list[tuple[list[CompactFailure], list[CompleteRun]]]:
        return [(failures, clean) for _, failures, clean in self._experiments]


def _split_model(model: str) -> tuple[str, str]:
    provider, _, name = model.partition("/")
    if not name:
        raise UsageError(f"{model!r} is not a full model name: give PROVIDER/MODEL")
    return provider, name


def _uncounted(library: ReportsFolder, models: Sequence[str], stored_keys: Set[Key]) -> list[str]:
    """Return a note for each model that has a report but no stored run."""
    files = [file for model in models for file in library.of_model(*_split_model(model))] if models else library.all()
    folders = {str(PurePosixPath(file.name).parent) for file in files}
    missing = sorted(
        folder for folder in folders if "/" in folder and model_key(*_split_model(folder)) not in stored_keys
    )
    return [
        f"{folder} is not counted: no run of it is in the store; `evalscribe analyze RUN` stores one"
        for folder in missing
    ]
