"""List evals that keep failing for one model, or that fail in the same way for several models."""

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
    """An action that was taken on an eval's failure, and its outcome."""

    model: str
    """The model whose report names the action, as its folder in the reports folder."""
    seen: ReportReference
    text: str
    held: FollowUpOutcome
    """Outcome of the action in later runs of the same experiment with any model."""


class RecurringRow(Frozen):
    """The failures of one eval with one model."""

    model: str
    """The model's folder in the reports folder: `provider/model`."""
    eval: str
    first: ReportReference
    last: ReportReference
    times: int
    """Number of runs in which the eval failed."""
    labels: tuple[Classification, ...] = ()
    """The labels of the failures without duplicates, the newest first."""
    causes: tuple[str, ...] = ()
    kinds: tuple[CauseKind, ...] = ()
    """The kinds of cause without duplicates, the newest first."""
    proved: bool = False
    """Whether replays proved the newest label."""
    actions: tuple[RecordedAction, ...] = ()

    @property
    def is_outage(self) -> bool:
        """Whether all failures are outages on which no action was taken."""
        return self.kinds == ("infrastructure",) and not self.actions


class RecurringEvals(Frozen):
    rows: tuple[RecurringRow, ...] = ()
    """Rows sorted by model, then by number of failures (most first), then by path."""
    notes: tuple[str, ...] = ()
    """Notes on files that could not be read."""


@dataclass(frozen=True)
class ModelReport:
    """A report, with its position among the reports on its model."""

    model: str
    place: int
    """Position among the reports on the model, where 0 is the newest."""
    report: PastReport
    failures: Mapping[str, FindingSummary]
    """Findings by eval path. A bare name is completed to a path from the model's other reports."""

    @property
    def seen(self) -> ReportReference:
        return ReportReference(report=self.report.name, date=self.report.date)

    @cached_property
    def done(self) -> Mapping[str, Sequence[tuple[str, FindingSummary]]]:
        """Actions on the failures of this report, by eval path."""
        paths = {finding.eval: path for path, finding in self.failures.items()}
        found: dict[str, list[tuple[str, FindingSummary]]] = {}
        for text, finding in actions_done(self.report):
            found.setdefault(paths.get(finding.eval, finding.eval), []).append((text, finding))
        return found

    def follows(self, other: "ModelReport") -> bool:
        """Return whether its run is later than another report's. Reports on two models from one day have no order."""
        same = same_experiment(self.report.analysis.run.experiment, other.report.analysis.run.experiment)
        if self.report.run == other.report.run or not same:
            return False
        if self.model == other.model:
            return self.place < other.place
        return bool(self.report.date and other.report.date) and (self.report.date or "") > (other.report.date or "")

    def now(self, eval: str, seen_in: FindRecord) -> LaterRun:
        """Return the result of an eval in the report's run."""
        finding = self.failures.get(eval)
        run, failures = self.report.analysis.run, self.report.analysis.findings
        if finding is None:
            return LaterRun(self.report.date, None, ran=is_complete_run(run, len(failures)))
        sighting = seen_in(self.report, finding.eval)
        return LaterRun(self.report.date, describe_finding(finding), judged=has_cause(finding), sighting=sighting)


def load_model_reports(files: Sequence[ReportFile]) -> tuple[tuple[ModelReport, ...], tuple[str, ...]]:
    """Load reports, grouped by model, the newest first. Also returns notes on files that cannot be read."""
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
    """Return a key that is equal for all folders of a model: its vendor's, and those of providers that serve it."""
    provider, slash, model = folder.partition("/")
    return model_key(provider, model) if slash else (folder,)


def _plainest(folder: str) -> tuple[int, str]:
    return folder.count("/"), folder


def recurring_in_reports(
    files: Sequence[ReportFile], models: Sequence[str] = (), seen_in: FindRecord = lambda *_: None
) -> RecurringEvals:
    """Return the recurring evals of the models in the given folders, or of all models. Unreadable files become notes.

    `files` are the reports on all models, because a later report on any model can show the outcome of an action.
    """
    kept, notes = load_model_reports(files)
    keys = set(map(_key, models))
    wanted = sorted({one.model for one in kept if not models or _key(one.model) in keys})
    rows = [row for model in wanted for row in _rows(model, kept, seen_in)]
    return RecurringEvals(rows=tuple(rows), notes=notes)


def actions(
    eval: str, mine: Iterable[ModelReport], everywhere: Sequence[ModelReport], seen_in: FindRecord
) -> Iterator[RecordedAction]:
    """Yield the actions on an eval that the reports in `mine` record, with their outcome in later reports."""
    for one in mine:
        for text, finding in one.done.get(eval, ()):
            later = [other.now(eval, seen_in) for other in everywhere if other.follows(one)]
            acted_on = seen_in(one.report, finding.eval) if later else None
            held = combine_outcomes(action_outcome(text, describe_finding(finding), acted_on, now) for now in later)
            yield RecordedAction(model=one.model, seen=one.seen, text=text, held=held)


def _kept(model: str, reports: Sequence[PastReport]) -> Iterator[ModelReport]:
    """Convert the reports on one model, which are sorted, the newest first."""
    whole = _whole_names(finding.eval for report in reports for finding in report.analysis.findings)
    for place, report in enumerate(map(_outline, reports)):
        failures = {whole.get(finding.eval, finding.eval): finding for finding in report.analysis.findings}
        yield ModelReport(model, place, report, failures)


def _outline(report: PastReport) -> PastReport:
    """Drop the parts of a report that are not needed here, to save memory."""
    unsaid = {"reasoning": None, "output_snippet": None, "expected_snippet": None, "citations": ()}
    findings = tuple(finding.model_copy(update=unsaid) for finding in report.analysis.findings)
    told = report.analysis.model_copy(update={"findings": findings, "patterns": (), "recommendations": ()})
    return report.model_copy(update={"analysis": told})


def _whole_names(evals: Iterable[str]) -> dict[str, str]:
    """Map each bare name that only one path has to this path."""
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
    """A model for which an eval fails in the same way as for others."""

    model: str
    """`provider/model`."""
    runs: tuple[str, ...]
    label: Classification | None = None
    """Label in force in the newest report on a run with this failure."""
    by_person: bool = False
    """True if a person gave or confirmed the label."""
    proved: bool = False
    """True if replays proved the label."""


class SharedFailure(Frozen):
    """One version of an eval in one experiment that fails in the same way for several models."""

    eval: str
    experiment: str
    step: str | None
    signature: str
    """Error signature, which includes the failed step."""
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
    """Rows sorted by number of models (most first), then by path."""
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
        experiments: For each experiment, all failures of its stored runs, and its complete runs.
        files: Reports on all models.
        labels: Human labels from git.
        least: Minimum number of models in a row.
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
    """Yield notes on evals of an experiment that fail for several models, but not in the same way."""
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
    """Load the reports on the models of these runs. If one of them records an action, load all other reports, too.

    Not all are loaded at once, because parsing a report with a thousand failures takes a second.
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
    """Yield groups of failures of one eval version with one error signature, each with the results of all models."""
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
"""Key of a model. It is equal for all spellings of the model's name."""


def recurring_evals(
    library: ReportsFolder, models: Sequence[str] = (), store: "AnalysisStore | None" = None
) -> RecurringEvals:
    """Return the evals that fail in all reports, or in those on the named models (`provider/model`, in any spelling).

    Models of the shipped sample are left out, unless they are named or there are no others. A store makes the outcomes
    of actions more precise. Raises `NotFoundError` if a model has no report.
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
    """Return evals that fail in the same way for at least `least` models, in stored runs of all or the named models.

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
    """The failures and the complete runs of each experiment. Runs are loaded one at a time."""

    def __init__(self, store: "AnalysisStore", wanted: frozenset[Key]) -> None:
        self.known: set[Key] = set()
        """Keys of all models with a stored run."""
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
