"""Tasks over time: the result of every task in every run, which tasks keep failing, and whether fixes held."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from markupsafe import Markup

from evalscribe.errors import EvalscribeError
from evalscribe.model.finding import NOT_THE_MODEL
from evalscribe.reports.history import PastReport, StoredRecords, previous_runs
from evalscribe.reports.recurring import RecordedAction, actions_by_eval, group_by_model
from evalscribe.text import pluralise
from evalscribe.web.pictures import MOST_BARS, CountBar, RatePoint, bars, percent, rates_over_time
from evalscribe.web.report_index import Entry, LoadedReport
from evalscribe.web.site import Page, Pages, Query, Site, shown, slug
from evalscribe.web.task_index import UNLISTED, RunResults, TaskHistory, TaskResult, TaskTable

MOST_RUNS = 24
"""Maximum number of columns of the matrix. Each column is a run, and the newest runs are shown."""
MOST_TASKS = 1000
"""Maximum number of rows of the matrix. Tasks that never passed come first, then the tasks with the most failures."""
FILTERS = ("model", "experiment", "label")
OUTCOMES = ("did not hold", "held", "not yet seen")


@dataclass(frozen=True)
class TaskFix:
    """An action that was taken on the failures of a task."""

    task: str
    action: RecordedAction


class TaskPages(Pages):
    def __init__(self, site: Site) -> None:
        super().__init__(site)
        site.environment.globals.update(
            task_strip=site.tasks.strip, task_of=site.tasks.task_of, result=result_markup, eval_path=eval_path
        )

    def paths(self) -> Iterator[str]:
        if self.begins("tasks.html"):
            yield "tasks.html"

    def begins(self, path: str) -> bool:
        return path == "tasks.html" and any(map(self.site.tasks.in_scope, self.site.tasks.table.runs))

    def page(self, path: str, query: Query) -> Page | None:
        if path != "tasks.html":
            return None
        table = self.site.tasks.table
        in_scope = [at for at, run in enumerate(table.runs) if self.site.tasks.in_scope(run)]
        if not in_scope:
            return None
        selected = [
            at
            for at in in_scope
            if all(query.get(name, "") in ("", getattr(table.runs[at], name)) for name in FILTERS[:2])
        ]
        newest = sorted(selected, key=lambda at: (table.runs[at].started, table.runs[at].key))[-MOST_RUNS:]
        # The newest runs are chosen by date, but shown in the order of the table, which groups them by model.
        columns = sorted(newest)
        fixes, problem = self._fixes()
        rows = [row for row in self._rows(table, columns) if _matches(row, query)]
        runs = [table.runs[at] for at in columns]
        series = rate_series(runs)
        return Page(
            "tasks.html.j2",
            "Tasks over time",
            path,
            {
                "columns": columns,
                "runs": table.runs,
                "models": [
                    (model, list(of_model)) for model, of_model in groupby(columns, lambda at: table.runs[at].model)
                ],
                "pages": frozenset(at for at in columns if self.site.tasks.has_page(table.runs[at])),
                "rows": rows[:MOST_TASKS],
                "hidden_rows": max(0, len(rows) - MOST_TASKS),
                "hidden_runs": len(selected) - len(columns),
                "never_passed": sum(row.never_passed for row in rows),
                "failed": sum(bool(row.failed) for row in rows),
                "unlisted": any(not result.listed for row in rows for result in row.results.values()),
                "choices": _choices(table, in_scope),
                "fixes": fixes,
                "outcome_of": {task: _outcome(task_fixes) for task, task_fixes in _by_task(fixes).items()},
                "problems": [text for text in (table.problem, problem) if text],
                "series": series,
                "rates": rates_over_time(series),
                "rate_rows": rate_rows(series),
                "query": query,
            },
        )

    @staticmethod
    def _rows(table: TaskTable, columns: Sequence[int]) -> Sequence[TaskHistory]:
        """Return the rows of the matrix for the given columns.

        Tasks that never passed come first, then those with the most failed trials.
        """
        rows = [row for task in table.tasks.values() if (row := task.among(columns)).results]
        listed = [row for row in rows if any(result.listed for result in row.results.values())]
        return sorted(listed, key=lambda row: (not row.never_passed, -row.failed, row.task))

    def _fixes(self) -> tuple[Sequence[TaskFix], str | None]:
        """Return the actions that shown reports record, and the error's message if the store cannot be read.

        Actions that did not hold come first.
        """
        reports = self.site.reports.all
        if not any(report.analysis.actions_taken for report in reports):
            return (), None
        grouped = group_by_model((report.name.rpartition("/")[0], past_report(report)) for report in reports)
        try:
            store = self.site.workspace.store.analyses if self.site.workspace.has_store else None
            recorded, problem = actions_by_eval(grouped, StoredRecords(store)), None
        except EvalscribeError as error:
            recorded, problem = actions_by_eval(grouped), str(error)
        shown = {report.name.rpartition("/")[2] for report in self.site.reports.shown}
        fixes = [
            TaskFix(eval, action)
            for eval, actions in recorded.items()
            for action in actions
            if action.report.report in shown
        ]
        return sorted(fixes, key=lambda fix: (OUTCOMES.index(fix.action.outcome), fix.task)), problem


PASSED = Markup('<b class="result passed">✓</b>')
NOT_LISTED = Markup('<b class="result unlisted" title="not among the failures">·</b>')
_TEXT = Markup("{} <small>{}</small>")
_LINK = Markup('<a class="result {} {}" href="{}" title="{}">{}</a>')
_PLAIN = Markup('<b class="result {} {}" title="{}">{}</b>')


def result_markup(run: RunResults, result: TaskResult, up: str, has_page: bool) -> Markup:
    """Render a result as a cell of the matrix, of a strip or of a comparison.

    A template would take ten times as long, and the matrix has 10,000 cells.
    """
    if result is UNLISTED:
        return NOT_LISTED
    if result.passed == 1 and not result.failures:
        return PASSED
    first = result.first
    several = result.trials > 1 and first is not None
    text = _TEXT.format(shown(result.text), shown(result.word)) if several else shown(result.text)
    label, description = result.label or "", shown(result.description)
    if first and first.reported and has_page:
        return _LINK.format(result.state, label, eval_path(up, run, first.eval), description, text)
    return _PLAIN.format(result.state, label, description, text)


def eval_path(up: str, run: RunResults, eval: str) -> str:
    """Return the address of a failed eval's page."""
    return f"{up}run/{slug(run.key)}/eval/{slug(eval)}.html"


def past_report(report: LoadedReport) -> PastReport:
    """Return a report in the form in which the history compares reports."""
    run = report.analysis.run.id
    return PastReport(
        name=report.name.rpartition("/")[2],
        date=report.date or None,
        run_ids=(run,) if run else (),
        refers_to=previous_runs(report.text),
        analysis=report.analysis,
    )


def rate_series(runs: Sequence[RunResults]) -> Sequence[tuple[str, Sequence[RatePoint]]]:
    """Return the pass rates of each model's runs. The runs must be sorted by model and date.

    Runs without evals are left out. Failures that say nothing about the model, such as those in an outage, are not
    counted.
    """
    return [
        (model, points)
        for model, of_model in groupby(runs, lambda run: run.model)
        if (points := [RatePoint(run.date, *run.scorable) for run in of_model if run.scorable[1]])
    ]


def rate_rows(series: Sequence[tuple[str, Sequence[RatePoint]]]) -> Sequence[Sequence[str]]:
    """Return the numbers behind a picture of pass rates as rows: model, date, passed, pass rate and its interval."""
    return [
        (
            model,
            point.date,
            f"{point.passed} of {point.total}",
            percent(point.rate),
            f"{percent(point.interval.low)} to {percent(point.interval.high)}",
        )
        for model, points in series
        for point in points
    ]


def failure_pictures(
    entries: Sequence[Entry],
) -> Sequence[tuple[object, str, Sequence[str], Sequence[Sequence[object]]]]:
    """Return pictures of a run's failures by label and by cause, each with its caption and its numbers."""
    failures = [finding for entry in entries for finding in entry.findings]
    labels = Counter(finding.classification or "UNCLASSIFIED" for finding in failures)
    causes = Counter(
        (finding.cause, finding.cause_kind) for finding in failures if finding.cause and not finding.overruled
    )
    by_label = [CountBar(label, n, label) for label, n in labels.most_common()]
    by_cause = [
        CountBar(cause.replace("-", " "), n, "other" if kind in NOT_THE_MODEL else "")
        for (cause, kind), n in causes.most_common()
    ]
    pictures = []
    if len(by_label) > 1:
        pictures.append(
            (bars("Failures by label", by_label), "Failures by label", ("Label", "Failures"), _numbers(by_label))
        )
    several = [row for row in by_cause if row.value > 1][:MOST_BARS]
    if several:
        caption = f"Causes of more than one failure, of {pluralise(len(by_cause), 'cause')}"
        pictures.append((bars("Failures by cause", several), caption, ("Cause", "Failures"), _numbers(several)))
    return pictures


def _numbers(rows: Sequence[CountBar]) -> Sequence[Sequence[object]]:
    return [(row.name, row.value) for row in rows]


def _matches(row: TaskHistory, query: Query) -> bool:
    words = query.get("q", "").lower().split()
    label = query.get("label", "")
    text = " ".join((row.task, *(cause for cause, _ in row.causes))).lower()
    return (not label or label in row.labels) and all(word in text for word in words)


def _choices(table: TaskTable, columns: Sequence[int]) -> Mapping[str, Sequence[str]]:
    """Return the values that each filter offers."""
    runs = [table.runs[at] for at in columns]
    labels = Counter(label for row in table.tasks.values() for label in row.among(columns).labels)
    return {
        "model": list(dict.fromkeys(run.model for run in runs)),
        "experiment": list(dict.fromkeys(run.experiment for run in runs)),
        "label": [label for label, _ in labels.most_common()],
    }


def _by_task(fixes: Sequence[TaskFix]) -> Mapping[str, Sequence[TaskFix]]:
    by_task: dict[str, list[TaskFix]] = {}
    for fix in fixes:
        by_task.setdefault(fix.task, []).append(fix)
    return by_task


def _outcome(fixes: Sequence[TaskFix]) -> str:
    """Return the worst outcome of the actions on a task. It is shown beside the task."""
    return min((fix.action.outcome for fix in fixes), key=OUTCOMES.index)
