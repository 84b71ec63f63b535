"""Results of every task in every run, read from the reports and, if it exists, from the store."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from evalscribe.errors import EvalscribeError
from evalscribe.ids import same_experiment
from evalscribe.model.analysis import FindingSummary
from evalscribe.model.finding import NOT_THE_MODEL
from evalscribe.model.record import GradedEval
from evalscribe.model.run import TRIAL, UNKNOWN, Eval, Run
from evalscribe.reports.freeform.lines import bare_name
from evalscribe.reports.history import SHORTEST_PREFIX, is_complete_run
from evalscribe.text import path as printed_path
from evalscribe.web.report_index import Entry, LoadedReport, ReportIndex, Scope
from evalscribe.workspace import DATABASE, Workspace

MOST_STORED = 200
"""Maximum number of runs without a report that are read from the store. The newest of them are read."""
MOST_CELLS = 12
"""Maximum number of runs in the strip of results on a card. The newest runs are shown."""
WORDS = {
    "MODEL_FAULT": "model",
    "OVERLY_STRICT": "strict",
    "AMBIGUOUS_TASK": "unclear",
    "KNOWN_GAP": "gap",
    "infrastructure": "infra",
    "harness": "harness",
    "user": "user",
}
"""Short words for labels, and for kinds of cause that do not blame the model."""


@dataclass(frozen=True, slots=True)
class TaskFailure:
    """One failed trial of a task in one run."""

    eval: str
    """Path of the eval, including its trial."""
    label: str | None = None
    cause: str | None = None
    kind: str | None = None
    reported: bool = False
    """True if the run's report has a finding on the failure. The finding has a page."""

    @property
    def word(self) -> str:
        """The label as one short word, or the kind of cause if that kind does not blame the model."""
        return WORDS.get((self.kind if self.kind in NOT_THE_MODEL else self.label) or "", "failed")

    @property
    def trial(self) -> str:
        """The number of the trial, such as `#2`; empty if there is only one trial."""
        match = TRIAL.search(self.eval)
        return match[0] if match else ""


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The result of one task in one run: a cell of the matrix."""

    passed: int = 0
    incomplete: int = 0
    """Number of trials that never completed."""
    failures: tuple[TaskFailure, ...] = ()
    listed: bool = True
    """False if the run names only its failures and this task is not among them."""

    @property
    def trials(self) -> int:
        """Number of trials that passed or failed."""
        return self.passed + len(self.failures)

    @property
    def state(self) -> Literal["passed", "failed", "mixed", "incomplete", "unlisted"]:
        if not self.listed:
            return "unlisted"
        if self.failures:
            return "mixed" if self.passed else "failed"
        return "passed" if self.passed else "incomplete"

    @property
    def label(self) -> str | None:
        """The most frequent label of the failures; None if no failure has a label."""
        return next(iter(Counter(failure.label for failure in self.failures if failure.label).most_common(1)), (None,))[
            0
        ]

    @property
    def first(self) -> TaskFailure | None:
        """The first failure that the report explains, or else the first failure; None if no trial failed."""
        return next((failure for failure in self.failures if failure.reported), None) or next(iter(self.failures), None)

    @property
    def text(self) -> str:
        """The result as one word or symbol. For several trials, the share that passed, such as `2/3`."""
        if self.trials > 1:
            return f"{self.passed}/{self.trials}"
        return {"passed": "✓", "unlisted": "·", "incomplete": "–"}.get(self.state) or self.word

    @property
    def word(self) -> str:
        """The label of the first failure as one word; empty if no trial failed."""
        return self.first.word if self.first else ""

    @property
    def description(self) -> str:
        """The result in words, shown as a tooltip."""
        if not self.listed:
            return "not among the failures; passed evals are not named"
        if self.trials > 1:
            words = Counter(failure.word for failure in self.failures)
            labels = f": {', '.join(f'{n} × {word}' for word, n in words.items())}" if words else ""
            return f"{self.passed} of {self.trials} trials passed{labels}"
        if self.first:
            cause = f", {self.first.cause.replace('-', ' ')}" if self.first.cause else ""
            return f"{self.first.label or 'failed'}{cause}"
        return "never completed" if self.state == "incomplete" else self.state


UNLISTED = TaskResult(listed=False)


@dataclass(frozen=True)
class RunResults:
    """One run, with everything that is known about its evals."""

    run: Run
    """The run from the store, without its failures, or else the run that its report describes."""
    graded: tuple[GradedEval, ...]
    """The evals whose results are in the store or in the report."""
    evals: tuple[str, ...] | None
    """Paths of all evals of the run; None if only the failures are known by name."""
    report: LoadedReport | None = None
    stored: bool = True
    """True if the store has the run."""
    unfinished: tuple[str, ...] = ()
    """Paths of evals that never completed."""

    @property
    def key(self) -> str:
        """Id of the run in the addresses of pages. If the run has a report, it is the id that the report gives."""
        return self.report.run if self.report else self.run.id

    @property
    def model(self) -> str:
        if self.report:
            return self.report.model
        return "/".join(name for name in (self.run.provider, self.run.model) if name != UNKNOWN) or UNKNOWN

    @property
    def experiment(self) -> str:
        return self.run.experiment

    @property
    def started(self) -> str:
        """Start time of the run, or the date of its report if the start is unknown. Runs are sorted by this value."""
        return self.run.started_at or (self.report.date if self.report else "")

    @property
    def date(self) -> str:
        return self.started[:10]

    @property
    def scorable(self) -> tuple[int, int]:
        """Number of passed evals, and number of all evals.

        Failures that say nothing about the model are not counted.
        """
        # With such failures, a run in an outage would be drawn at 0 %, as if the model had failed every task.
        impact = self.report.analysis.net_impact if self.report else None
        return (impact.scorable_passed, impact.scorable_total) if impact else (self.run.passed, self.run.total)

    @cached_property
    def findings(self) -> Mapping[str, FindingSummary]:
        """The findings of the run's report, keyed by eval."""
        return {finding.eval: finding for finding in self.report.analysis.findings} if self.report else {}

    @cached_property
    def lists_failures(self) -> bool:
        """True if all failures of the run are known. In this case, an eval that is not listed did not fail."""
        run = self.report.analysis.run if self.report else None
        if run is not None:
            return run.failed is not None and is_complete_run(run, len(self.findings))
        return self.run.status == "completed" and self.failed <= sum(
            graded.eval.status != "passed" for graded in self.graded
        )

    @property
    def failed(self) -> int:
        return self.run.failed

    @cached_property
    def results(self) -> Mapping[str, TaskResult]:
        """The result of each task, keyed by task. Tasks that the run does not name are missing."""
        counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        failures: dict[str, list[TaskFailure]] = defaultdict(list)
        paths: set[str] = set()
        for graded in self.graded:
            path = printed_path(graded.eval.path)
            paths.add(path)
            task = TRIAL.sub("", path)
            if graded.eval.status in ("failed", "error"):
                failures[task].append(self._failure(path))
            else:
                # Index 0 counts passed trials, and index 1 incomplete ones.
                counts[task][graded.eval.status == "incomplete"] += 1
        for path, finding in self.findings.items():
            task = TRIAL.sub("", path)
            if path not in paths:
                paths.add(path)
                failures[task].append(self._failure(path))
            # A report names only failed trials, but states how many trials of the task passed.
            if finding.trials and not counts[task][0]:
                counts[task][0] = finding.trials.passed
        for path in map(printed_path, self.unfinished):
            if path not in paths:
                paths.add(path)
                counts[TRIAL.sub("", path)][1] += 1
        # All failures are known by now, so an eval that is named nowhere above has passed.
        if self.lists_failures:
            for path in map(printed_path, self.evals or ()):
                if path not in paths:
                    counts[TRIAL.sub("", path)][0] += 1
        return {
            task: TaskResult(passed=counts[task][0], incomplete=counts[task][1], failures=tuple(failures[task]))
            for task in dict.fromkeys([*counts, *failures])
            if any(counts[task]) or failures[task]
        }

    def _failure(self, path: str) -> TaskFailure:
        finding = self.findings.get(path)
        if finding is None:
            return TaskFailure(path)
        cause = None if finding.overruled else finding.cause
        return TaskFailure(path, finding.classification, cause, finding.cause_kind, reported=True)


@dataclass(frozen=True)
class TaskHistory:
    """One task in all runs: a row of the matrix."""

    task: str
    results: Mapping[int, TaskResult]
    """The results, keyed by the index of the run in `TaskTable.runs`."""

    @cached_property
    def failed(self) -> int:
        """Number of failed trials."""
        return sum(len(result.failures) for result in self.results.values())

    @cached_property
    def trials(self) -> int:
        return sum(result.trials for result in self.results.values())

    @property
    def never_passed(self) -> bool:
        """True if every known trial of this task failed."""
        return bool(self.failed) and all(result.state in ("failed", "incomplete") for result in self.results.values())

    @cached_property
    def causes(self) -> Sequence[tuple[str, int]]:
        """The causes of the task's failures, each with its number of runs. The most frequent come first."""
        runs = Counter(
            cause
            for result in self.results.values()
            for cause in dict.fromkeys(failure.cause for failure in result.failures if failure.cause)
        )
        return runs.most_common()

    @cached_property
    def labels(self) -> Sequence[str]:
        """The labels of the task's failures, without duplicates."""
        labels = (failure.label or "UNCLASSIFIED" for result in self.results.values() for failure in result.failures)
        return tuple(dict.fromkeys(labels))

    def among(self, indices: Iterable[int]) -> "TaskHistory":
        """Return the history limited to the runs with these indices."""
        return TaskHistory(self.task, {at: self.results[at] for at in indices if at in self.results})


@dataclass(frozen=True)
class TaskTable:
    """All tasks in all runs."""

    runs: tuple[RunResults, ...] = ()
    """The runs, grouped by model.

    The model with the newest run comes first; within each model, the oldest run comes first.
    """
    problem: str | None = None
    """Reason why the store could not be read; None if it was read."""

    @cached_property
    def tasks(self) -> Mapping[str, TaskHistory]:
        """The history of each task, keyed by the task's path.

        A report that a person wrote can name a task without its category. The category is added if only one task has
        that name.
        """
        paths: dict[str, set[str]] = defaultdict(set)
        for run in self.runs:
            for task in run.results:
                if "/" in task:
                    paths[bare_name(task)].add(task)
        by_task: dict[str, dict[int, TaskResult]] = defaultdict(dict)
        for at, run in enumerate(self.runs):
            for task, result in run.results.items():
                same = paths.get(task, set()) if "/" not in task else set()
                by_task[next(iter(same)) if len(same) == 1 else task].setdefault(at, result)
        for task, results in by_task.items():
            for at in self._complete:
                if at not in results and any(at in self._comparable[other] for other in results):
                    results[at] = UNLISTED
            by_task[task] = dict(sorted(results.items()))
        return {task: TaskHistory(task, results) for task, results in by_task.items()}

    @cached_property
    def _complete(self) -> Sequence[int]:
        """Indices of the runs that list every failure but do not name the evals that passed."""
        return [at for at, run in enumerate(self.runs) if run.evals is None and run.lists_failures]

    @cached_property
    def _comparable(self) -> Sequence[frozenset[int]]:
        """For each run, the indices of the runs of the same experiment."""
        return [
            frozenset(at for at, other in enumerate(self.runs) if same_experiment(run.experiment, other.experiment))
            for run in self.runs
        ]

    @cached_property
    def _order(self) -> Sequence[int]:
        """The indices of the runs, sorted by start."""
        return sorted(range(len(self.runs)), key=lambda at: (self.runs[at].started, self.runs[at].key))

    def history(self, task: str) -> Sequence[tuple[RunResults, TaskResult]]:
        """Return the results of a task in its `MOST_CELLS` most recent runs, in chronological order."""
        row = self.tasks.get(task)
        results = [(self.runs[at], row.results[at]) for at in self._order if at in row.results] if row else []
        return results[-MOST_CELLS:]


@dataclass(frozen=True)
class _Cached:
    """The results of one run, and the report and the run from which they were computed."""

    report: LoadedReport | None
    run: Run | None
    results: RunResults


class TaskIndex:
    """The results of all runs. They are computed again only when reports or the store have changed."""

    def __init__(self, workspace: Workspace, reports: ReportIndex, *, is_static: bool) -> None:
        """Store the arguments. Nothing is read yet.

        Args:
            workspace: Workspace whose store is read, if it exists.
            reports: The parsed reports.
            is_static: True for a bundle, which has pages only for the reports of the scope.
        """
        self._workspace = workspace
        self._reports = reports
        self._is_static = is_static
        self._version = -1
        self._stamp: object = None
        self._table_reports: tuple[LoadedReport, ...] = ()
        self._stored: tuple[Run, ...] = ()
        self._problem: str | None = None
        self._runs: dict[str, _Cached] = {}
        self._table = TaskTable()

    @property
    def table(self) -> TaskTable:
        """All tasks in all runs, in their current state."""
        if self._version == self._reports.version:
            return self._table
        reports, stamp = tuple(self._reports.all), self._store_stamp()
        if stamp != self._stamp:
            self._stored, self._problem = self._stored_runs()
        if stamp != self._stamp or not _same(reports, self._table_reports):
            runs = self._all_runs(reports)
            if not _same(runs, self._table.runs) or self._problem != self._table.problem:
                self._table = TaskTable(runs, self._problem)
        self._version, self._table_reports, self._stamp = self._reports.version, reports, stamp
        return self._table

    def has_page(self, run: RunResults) -> bool:
        """Return whether the site has pages about this run."""
        if run.report is None:
            return False
        return not self._is_static or self._reports.scope.includes(run.report.name)

    def in_scope(self, run: RunResults) -> bool:
        """Return whether the run is in the site's scope.

        A run without a report is in scope only if the scope includes all reports.
        """
        scope = self._reports.scope
        return scope.includes(run.report.name) if run.report else scope == Scope()

    def strip(self, entry: Entry) -> Sequence[tuple[RunResults, TaskResult, bool]]:
        """Return the results of a finding's task in its most recent runs, in chronological order.

        Each item contains the run, the result, and whether the site has pages about the run. The sequence is empty if
        no result has several trials and there is at most one result.
        """
        history = self.table.history(self.task_of(entry))
        if len(history) < 2 and not any(result.trials > 1 for _, result in history):
            return ()
        return [(run, result, self.has_page(run)) for run, result in history]

    def task_of(self, entry: Entry) -> str:
        """Return the task of a finding. If the finding concerns several tasks, return the first."""
        return TRIAL.sub("", entry.first.eval)

    def _store_stamp(self) -> object:
        """Return a value that changes whenever the store changes.

        For a store on a server, every call returns a new value.
        """
        if not self._workspace.has_store:
            return None
        place = self._workspace.settings.store_place
        if not isinstance(place, Path):
            return object()
        # SQLite writes to the `-wal` file first, so the database file alone can be unchanged.
        return tuple(map(_state, (place / DATABASE, place / f"{DATABASE}-wal")))

    def _stored_runs(self) -> tuple[tuple[Run, ...], str | None]:
        """Return the runs of the store without their failures, newest first.

        If the store cannot be read, return no runs and the error's message.
        """
        if not self._workspace.has_store:
            return (), None
        try:
            store = self._workspace.store
            runs = [run for run_id in store.analyses.run_ids() if (run := store.runs.run(run_id))]
        except EvalscribeError as error:
            return (), str(error)
        return tuple(sorted(runs, key=lambda run: run.started_at or "", reverse=True)), None

    def _all_runs(self, reports: Sequence[LoadedReport]) -> tuple[RunResults, ...]:
        """Return the results of all runs with a report, and of the newest stored runs without a report."""
        current: dict[str, _Cached] = {}
        for report, run in self._matched(reports):
            key = report.run if report else run.id if run else ""
            if key in current:
                continue
            cached = self._runs.get(key)
            if cached is None or cached.report is not report or cached.run != run:
                cached = _Cached(report, run, self._load(report, run))
            current[key] = cached
        self._runs = current
        return tuple(_by_model([cached.results for cached in current.values()]))

    def _matched(self, reports: Sequence[LoadedReport]) -> Iterator[tuple[LoadedReport | None, Run | None]]:
        """Yield each report with its run in the store, then the newest runs without a report."""
        by_id = {run.id: run for run in self._stored}
        reported: set[str] = set()
        for report in reports:
            run = by_id.get(report.run)
            # A report without a run id gives only the first characters of the id, in its file name.
            if run is None and len(report.run) >= SHORTEST_PREFIX and report.analysis.run.id is None:
                begins = [run for run in self._stored if run.id.startswith(report.run)]
                run = begins[0] if len(begins) == 1 else None
            # The newest report comes first, so older reports on the same run are skipped.
            if run is None or run.id not in reported:
                yield report, run
            if run is not None:
                reported.add(run.id)
        unreported = [run for run in self._stored if run.id not in reported]
        yield from ((None, run) for run in unreported[:MOST_STORED])

    def _load(self, report: LoadedReport | None, run: Run | None) -> RunResults:
        if run is not None:
            try:
                full_run = self._workspace.store.analyses.get_run(run.id)
                graded = self._workspace.store.runs.graded(run.id)
            except EvalscribeError as error:
                self._problem = str(error)
            else:
                evals = full_run.evals if full_run else None
                # The store has a result of every eval, so these are the names of all evals.
                if evals is None and graded and len(graded) >= run.total:
                    evals = tuple(item.eval.path for item in graded)
                unfinished = full_run.incomplete_evals if full_run else ()
                return RunResults(run, graded, evals, report, unfinished=unfinished)
        if report is None:
            return RunResults(run or Run(id="", provider=UNKNOWN, model=UNKNOWN), (), None)
        described = run_of_report(report)
        graded = tuple(GradedEval(run_id=described.id, eval=eval) for eval in described.failures)
        evals = tuple(eval.path for eval in described.failures) if described.failed == described.total else None
        return RunResults(described, graded, evals, report, stored=False, unfinished=report.analysis.incomplete_evals)


def run_of_report(report: LoadedReport) -> Run:
    """Build the run that a report describes."""
    run = report.analysis.run
    folder = report.name.split("/")
    failures = tuple(map(_eval_of_finding, report.analysis.findings))
    return Run(
        id=report.run,
        provider=run.provider or (folder[0] if len(folder) > 1 else UNKNOWN),
        model=run.model or (folder[-2] if len(folder) > 1 else UNKNOWN),
        experiment=run.experiment or "default",
        passed=run.passed or 0,
        failed=len(failures) if run.failed is None else run.failed,
        total=run.total or 0,
        failures=failures,
        started_at=run.started_at,
    )


def _eval_of_finding(finding: FindingSummary) -> Eval:
    match = TRIAL.search(finding.eval)
    category, _, name = TRIAL.sub("", finding.eval).rpartition("/")
    return Eval(
        id=finding.eval_id or finding.eval,
        category=category,
        name=name,
        trial=int(match[0][1:]) if match else 1,
        trials=(finding.trials.total if finding.trials else 2) if match else 1,
        failed_step=finding.step,
        reason=finding.error,
    )


def _by_model(runs: Sequence[RunResults]) -> Iterator[RunResults]:
    """Yield the runs grouped by model.

    The model with the newest run comes first; within each model, the oldest run comes first.
    """
    of_model: dict[str, list[RunResults]] = defaultdict(list)
    for run in runs:
        of_model[run.model].append(run)
    # Sorting is stable, so models with runs of the same date are in the order of their names.
    by_name = sorted(of_model.items())
    for _, members in sorted(by_name, key=lambda item: max(run.started for run in item[1]), reverse=True):
        yield from sorted(members, key=lambda run: (run.started, run.key))


def _state(path: Path) -> object:
    try:
        stat = path.stat()
    # SQLite removes the `-wal` file when the last connection is closed.
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size


def _same(left: Sequence[object], right: Sequence[object]) -> bool:
    """Return whether two sequences contain the same objects in the same order. Objects are compared by identity."""
    return len(left) == len(right) and all(a is b for a, b in zip(left, right, strict=True))
