"""List evals that keep failing for one model, or fail the same way for several."""

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
    """A report in which an eval failed."""

    report: str
    """File name."""
    date: str | None = None


class RecordedAction(Frozen):
    """An action taken on an eval, and its outcome."""

    model: str
    """Folder, below the reports folder, of the model whose report names the action."""
    seen: ReportReference
    text: str
    held: FollowUpOutcome
    """Outcome in the later runs of the same experiment, of any model."""


class RecurringRow(Frozen):
    """One eval of one model."""

    model: str
    """The model's folder below the reports folder: `provider/model`."""
    eval: str
    first: ReportReference
    last: ReportReference
    times: int
    """Number of runs in which it failed."""
    labels: tuple[Classification, ...] = ()
    """Every label given, newest first."""
    causes: tuple[str, ...] = ()
    kinds: tuple[CauseKind, ...] = ()
    """Every kind of cause, newest first."""
    proved: bool = False
    """Whether a replay proved the newest label."""
    actions: tuple[RecordedAction, ...] = ()

    @property
    def is_outage(self) -> bool:
        """Whether only the infrastructure failed, and no action was taken on it."""
        return self.kinds == ("infrastructure",) and not self.actions


class RecurringEvals(Frozen):
    rows: tuple[RecurringRow, ...] = ()
    """Sorted by model, then most frequent failure, then path."""
    notes: tuple[str, ...] = ()
    """Notes on files that could not be read."""


@dataclass(frozen=True)
class ModelReport:
    """A report, with its position among those of its model."""

    model: str
    place: int
    """0 for the model's newest report."""
    report: PastReport
    failures: Mapping[str, FindingSummary]
    """Findings by eval path, in the fullest spelling found in the model's reports."""

    @property
    def seen(self) -> ReportReference:
        return ReportReference(report=self.report.name, date=self.report.date)

    @cached_property
    def done(self) -> Mapping[str, Sequence[tuple[str, FindingSummary]]]:
        """Actions on its failures, by eval path."""
        paths = {finding.eval: path for path, finding in self.failures.items()}
        found: dict[str, list[tuple[str, FindingSummary]]] = {}
        for text, finding in actions_done(self.report):
            found.setdefault(paths.get(finding.eval, finding.eval), []).append((text, finding))
        return found

    def follows(self, other: "ModelReport") -> bool:
        """Return True if its run is later than another report's. Reports of two models on one day have no order."""
        same = same_experiment(self.report.analysis.run.experiment, other.report.analysis.run.experiment)
        if self.report.run == other.report.run or not same:
            return False
        if self.model == other.model:
            return self.place < other.place
        return bool(self.report.date and other.report.date) and (self.report.date or "") > (other.report.date or "")

    def now(self, eval: str, seen_in: FindRecord) -> LaterRun:
        """Return the result of an eval in its run."""
        finding = self.failures.get(eval)
        run, failures = self.report.analysis.run, self.report.analysis.findings
        if finding is None:
            return LaterRun(self.report.date, None, ran=is_complete_run(run, len(failures)))
        sighting = seen_in(self.report, finding.eval)
        return LaterRun(self.report.date, describe_finding(finding), judged=has_cause(finding), sighting=sighting)


def load_model_reports(files: Sequence[ReportFile]) -> tuple[tuple[ModelReport, ...], tuple[str, ...]]:
    """Load reports of any number of models, by model and newest first, with notes on unreadable files."""
    folders: dict[tuple[str, ...], dict[str, list[ReportFile]]] = {}
    for file in files:
        folder = str(PurePosixPath(file.name).parent)
        folders.setdefault(_key(folder), {}).setdefault(folder, []).append(file)
    kept: list[ModelReport] = []
    notes: list[str] = []
    for model, of_model in sorted((min(found, key=_plainest), found) for found in folders.values()):
        reports, unread = past_reports([file for files in of_model.values() for file in files])
        kept.extend(_kept(model, reports))
        notes.extend(unread)
    return tuple(kept), tuple(notes)


def _key(folder: str) -> tuple[str, ...]:
    """Return a key shared by all folders of a model: that of its vendor and those of serving providers."""
    provider, slash, model = folder.partition("/")
    return model_key(provider, model) if slash else (folder,)


def _plainest(folder: str) -> tuple[int, str]:
    return folder.count("/"), folder


def recurring_in_reports(
    files: Sequence[ReportFile], models: Sequence[str] = (), seen_in: FindRecord = lambda *_: None
) -> RecurringEvals:
    """Return the rows of the models in the given folders, or of all; unreadable files become notes.

    `files` are the reports of all models, because every later one can show the outcome of an action.
    """
    kept, notes = load_model_reports(files)
    keys = set(map(_key, models))
    wanted = sorted({one.model for one in kept if not models or _key(one.model) in keys})
    rows = [row for model in wanted for row in _rows(model, kept, seen_in)]
    return RecurringEvals(rows=tuple(rows), notes=notes)


def actions(
    eval: str, mine: Iterable[ModelReport], everywhere: Sequence[ModelReport], seen_in: FindRecord
) -> Iterator[RecordedAction]:
    """Yield the actions on an eval that the reports `mine` record, with their outcome in all later reports."""
    for one in mine:
        for text, finding in one.done.get(eval, ()):
            later = [other.now(eval, seen_in) for other in everywhere if other.follows(one)]
            acted_on = seen_in(one.report, finding.eval) if later else None
            held = combine_outcomes(action_outcome(text, describe_finding(finding), acted_on, now) for now in later)
            yield RecordedAction(model=one.model, seen=one.seen, text=text, held=held)


def _kept(model: str, reports: Sequence[PastReport]) -> Iterator[ModelReport]:
    """Convert one model's `reports`, newest first."""
    whole = _whole_names(finding.eval for report in reports for finding in report.analysis.findings)
    for place, report in enumerate(map(_outline, reports)):
        failures = {whole.get(finding.eval, finding.eval): finding for finding in report.analysis.findings}
        yield ModelReport(model, place, report, failures)


def _outline(report: PastReport) -> PastReport:
    """Drop the parts that are not needed here, to save memory."""
    unsaid = {"reasoning": None, "output_snippet": None, "expected_snippet": None, "citations": ()}
    findings = tuple(finding.model_copy(update=unsaid) for finding in report.analysis.findings)
    told = report.analysis.model_copy(update={"findings": findings, "patterns": (), "recommendations": ()})
    return report.model_copy(update={"analysis": told})


def _whole_names(evals: Iterable[str]) -> dict[str, str]:
    """Map each unambiguous bare name to its path."""
    paths: dict[str, set[str]] = {}
    for path in evals:
        if "/" in path:
            paths.setdefault(bare_name(path), set()).add(path)
    return {name: next(iter(known)) for name, known in paths.items() if len(known) == 1}


def _rows(model: str, kept: Sequence[ModelReport], seen_in: FindRecord) -> list[RecurringRow]:
    mine = [one for one in kept if one.model == model]
    evals = dict.fromkeys(eval for one in mine for eval in one.failures)
    rows = [_row(eval, [one for one in mine if eval in one.failures], kept, seen_in) for eval in evals]
    return sorted(rows, key=lambda row: (-row.times, row.eval))


def _row(eval: str, failed_in: Sequence[ModelReport], kept: Sequence[ModelReport], seen_in: FindRecord) -> RecurringRow:
    findings = [one.failures[eval] for one in failed_in]
    return RecurringRow(
        model=failed_in[0].model,
        eval=eval,
        first=failed_in[-1].seen,
        last=failed_in[0].seen,
        times=len({one.report.run for one in failed_in}),
        labels=tuple(dict.fromkeys(one.classification for one in findings if one.classification)),
        causes=tuple(dict.fromkeys(one.cause for one in findings if one.cause and not one.overruled)),
        kinds=tuple(dict.fromkeys(one.cause_kind for one in findings if one.cause_kind)),
        proved=findings[0].basis == "proved" and not findings[0].reviewer,
        actions=tuple(actions(eval, failed_in, kept, seen_in)),
    )


class AffectedModel(Frozen):
    """A model that fails in the same way."""

    model: str
    """`provider/model`."""
    runs: tuple[str, ...]
    label: Classification | None = None
    """Label in force in its newest report of such a run."""
    by_person: bool = False
    """True if a person gave or confirmed the label."""
    proved: bool = False
    """True if a replay proved the label."""


class SharedFailure(Frozen):
    """One eval, in one experiment and one version, that fails in the same way for several models."""

    eval: str
    experiment: str
    step: str | None
    signature: str
    """Error signature with its step."""
    failing: int
    models: int
    """Number of models that can be compared."""
    seen: tuple[AffectedModel, ...]
    """Sorted by name."""
    earlier: tuple[str, ...] = ()
    """Models that failed in the same way in an earlier version of this eval; they are not counted."""
    actions: tuple[RecordedAction, ...] = ()


class SharedFailures(Frozen):
    rows: tuple[SharedFailure, ...] = ()
    """Sorted by number of models, descending, then by path."""
    notes: tuple[str, ...] = ()


def find_shared_failures(
    experiments: Sequence[tuple[Sequence[CompactFailure], Sequence[CompleteRun]]],
    files: Sequence[ReportFile],
    labels: Sequence[HumanLabel] = (),
    *,
    least: int = 2,
    seen_in: FindRecord = lambda *_: None,
) -> SharedFailures:
    """Find evals that fail in the same way for at least `least` models.

    Args:
        experiments: Per experiment, every failure of its stored runs and the complete runs.
        files: Reports of all models.
        labels: Human labels from git, if available.
        least: Fewest models of a row.
        seen_in: Looks up the failure of an eval in an earlier run.
    """
    alike = [
        (same, found)
        for failures, passing in experiments
        for same, found in _alike(failures, passing)
        if found.failing >= least
    ]
    runs = {one.run for same, _ in alike for one in same}
    kept, notes = _reports(files, runs)
    told = {same[0].eval for same, _ in alike}
    notes = (*notes, *(note for failures, _ in experiments for note in _unmatched(failures, told, least)))
    of_run = {run: [one for one in kept if one.report.is_of(run)] for run in runs}
    given = {(label.run, label.eval): label for label in labels if label.in_force}
    rows = [_alike_row(same, found, kept, of_run, given, seen_in) for same, found in alike]
    return SharedFailures(
        rows=tuple(sorted(rows, key=lambda row: (-row.failing, row.eval, row.experiment))), notes=notes
    )


def _unmatched(failures: Sequence[CompactFailure], told: Set[str], least: int) -> Iterator[str]:
    """Yield notes on evals that several models of an experiment fail, but not in the same way."""
    models: dict[str, dict[str, bool]] = defaultdict(dict)
    for one in failures:
        if one.eval not in told:
            models[one.eval][one.key] = models[one.eval].get(one.key, False) or one.look is not None
    several = {eval: sum(known.values()) for eval, known in models.items() if len(known) >= least}
    for compared, why in ((True, "in different ways"), (False, "with logs that end before the reason: not compared")):
        if names := sorted(eval for eval, known in several.items() if (known >= least) == compared):
            evals = pluralise(len(names), "more eval")
            yield (
                f"{evals} of experiment {failures[0].experiment} failed for several models, {why}: "
                f"{join_first(names, MOST_NAMED)}"
            )


def _reports(files: Sequence[ReportFile], runs: Set[str]) -> tuple[tuple[ModelReport, ...], tuple[str, ...]]:
    """Load the reports of these runs' models, and all others if an action was taken after one of them.

    Parsing a report with a thousand failures takes a second.
    """
    words = {run[:SHORTEST_PREFIX] for run in runs}
    named = {_folder(file) for file in files if any(word in file.name or word in file.text for word in words)}
    kept, notes = load_model_reports([file for file in files if _folder(file) in named])
    if not any(one.report.analysis.actions_taken for one in kept):
        return kept, notes
    others, more = load_model_reports([file for file in files if _folder(file) not in named])
    return (*kept, *others), (*notes, *more)


def _folder(file: ReportFile) -> str:
    return str(PurePosixPath(file.name).parent)


def _alike(
    failures: Sequence[CompactFailure], passing: Sequence[CompleteRun]
) -> Iterator[tuple[list[CompactFailure], CrossModelFailures]]:
    """Yield failures of one version of an eval with the same error signature, with the results of all models."""
    by_eval: dict[str, list[CompactFailure]] = defaultdict(list)
    alike: dict[tuple[object, ...], list[CompactFailure]] = defaultdict(list)
    for one in failures:
        by_eval[one.eval].append(one)
        if one.version and one.look:
            alike[one.eval, one.look, one.version].append(one)
    elsewhere = OtherRuns(by_eval, passing)
    for same in alike.values():
        if len(same) > 1 and (found := elsewhere.across(same[0])):
            yield same, found


def _alike_row(
    alike: Sequence[CompactFailure],
    found: CrossModelFailures,
    kept: Sequence[ModelReport],
    of_run: Mapping[str, Sequence[ModelReport]],
    given: Mapping[tuple[str, str], HumanLabel],
    seen_in: FindRecord,
) -> SharedFailure:
    first = alike[0]
    models: dict[str, list[CompactFailure]] = defaultdict(list)
    for one in alike:
        models[one.key].append(one)
    runs = dict.fromkeys(one.run for one in alike)
    reports = {(one.model, one.place): one for run in runs for one in of_run[run]}
    seen = (_model(mine, of_run, given) for mine in models.values())
    return SharedFailure(
        eval=first.eval,
        experiment=first.experiment,
        step=first.step,
        signature=first.look[0] if first.look else "",
        failing=found.failing,
        models=found.models,
        seen=tuple(sorted(seen, key=lambda one: one.model)),
        earlier=found.earlier,
        actions=tuple(actions(first.eval, [reports[at] for at in sorted(reports)], kept, seen_in)),
    )


def _model(
    mine: Sequence[CompactFailure],
    of_run: Mapping[str, Sequence[ModelReport]],
    given: Mapping[tuple[str, str], HumanLabel],
) -> AffectedModel:
    runs = tuple(dict.fromkeys(one.run for one in mine))
    named = AffectedModel(model=mine[0].model, runs=runs)
    person = next((label for run in runs if (label := given.get((run, mine[0].eval)))), None)
    if person:
        return named.model_copy(update={"label": person.label, "by_person": True})
    newest_first = sorted({(one.model, one.place): one for run in runs for one in of_run[run]}.items())
    told = (one.failures.get(mine[0].eval) for _, one in newest_first)
    finding = next((one for one in told if one), None)
    if finding is None:
        return named
    proved = finding.basis == "proved" and not finding.by_person
    return named.model_copy(update={"label": finding.classification, "by_person": finding.by_person, "proved": proved})


Key = tuple[str, ...]
"""Key of a model, equal for all spellings."""


def recurring_evals(
    library: ReportsFolder, models: Sequence[str] = (), store: "AnalysisStore | None" = None
) -> RecurringEvals:
    """Return each failing eval over all reports, or over those of the named models (`provider/model`, in any spelling).

    Models of the shipped sample are left out, unless they are named or there are no others. With a store,
    outcomes of actions are more precise. Raises `NotFoundError` if a model has no report.
    """
    folders = []
    for provider, name in map(_named, models):
        files = library.of_model(provider, name)
        if not files:
            raise NotFoundError(f"there is no report of {provider}/{name}; see `evalscribe reports list`")
        folders += [str(PurePosixPath(file.name).parent) for file in files]
    everything = sorted(library.all(), key=lambda file: file.name)
    if not models and (own := [file for file in everything if not is_shipped(file.name)]):
        everything = own
    return recurring_in_reports(everything, folders, StoredRecords(store))


def alike_evals(
    library: ReportsFolder, store: "AnalysisStore", models: Sequence[str] = (), least: int = 2
) -> SharedFailures:
    """Return evals that at least `least` models fail in the same way, over stored runs of all or the named models.

    Raises `NotFoundError` if a named model has neither a stored run nor a report.
    """
    wanted = {model_key(*_named(model)): model for model in models}
    gathered = _Gathered(store, frozenset(wanted))
    for key, model in wanted.items():
        if key not in gathered.known and not library.of_model(*_named(model)):
            raise NotFoundError(f"there is no stored run and no report of {model}; see `evalscribe reports list`")
    files = sorted(library.all(), key=lambda file: file.name)
    told = find_shared_failures(gathered.experiments, files, store.labels(), least=least, seen_in=StoredRecords(store))
    return told.model_copy(update={"notes": (*told.notes, *_uncounted(library, models, gathered.known))})


class _Gathered:
    """Failures and failure-free runs by experiment; runs are loaded one at a time."""

    def __init__(self, store: "AnalysisStore", wanted: frozenset[Key]) -> None:
        self.known: set[Key] = set()
        """Every model with a stored run."""
        self._found: list[tuple[str, list[CompactFailure], list[CompleteRun]]] = []
        for run in stored_runs(store):
            key = model_key(run.provider, run.model)
            self.known.add(key)
            if run.experiment and (not wanted or key in wanted):
                _, failures, clean = self._experiment(run.experiment)
                failures.extend(map(compact_failure, stored_records(store, run)))
                clean.extend(complete_runs(run))

    def _experiment(self, name: str) -> tuple[str, list[CompactFailure], list[CompleteRun]]:
        same = next((one for one in self._found if same_experiment(one[0], name)), None)
        if same is None:
            self._found.append(same := (name, [], []))
        return same

    @property
    def experiments(self) -> list[tuple[list[CompactFailure], list[CompleteRun]]]:
        return [(failures, clean) for _, failures, clean in self._found]


def _named(model: str) -> tuple[str, str]:
    provider, _, name = model.partition("/")
    if not name:
        raise UsageError(f"{model!r} names no model: give provider/model")
    return provider, name


def _uncounted(library: ReportsFolder, models: Sequence[str], known: Set[Key]) -> list[str]:
    """Return a note on each model that has reports but no stored run."""
    files = [file for model in models for file in library.of_model(*_named(model))] if models else library.all()
    folders = {str(PurePosixPath(file.name).parent) for file in files}
    missing = sorted(folder for folder in folders if "/" in folder and model_key(*_named(folder)) not in known)
    return [
        f"{folder} is not counted: no run of it is in the store; `evalscribe analyze RUN` stores one"
        for folder in missing
    ]
