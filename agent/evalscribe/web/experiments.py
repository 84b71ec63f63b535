"""Pages about experiments and their runs: state, gate, scores, comparison and trials.

The page of a running experiment shows each trial when it has ended.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from markupsafe import Markup
from pydantic import JsonValue

from evalscribe.errors import EvalscribeError, NotFoundError, flag
from evalscribe.experiments.compare import compare_runs
from evalscribe.experiments.lookup import experiment_of, has_no_worker, items_of, version_of_run
from evalscribe.experiments.results import (
    ListedExperiment,
    ListedRun,
    describe_trial,
    list_experiments,
    listed_run,
    report_run,
    run_summary,
    score_evidence,
)
from evalscribe.experiments.run_export import trial_texts, why_not_passed
from evalscribe.experiments.run_text import detail_lines, explains_failure, item_lines, origin_lines
from evalscribe.model.comparison import RunComparison
from evalscribe.model.experiment import (
    PREVIOUS,
    RULE,
    Experiment,
    ExperimentRun,
    ItemVerdict,
    PassRate,
    RunItem,
    RunReport,
    TrialDetail,
)
from evalscribe.model.score import Score, ScoreQuery
from evalscribe.text import one_line
from evalscribe.web.inbox import mark_differences
from evalscribe.web.site import Page, Pages, Query, Site, shown, slug

T = TypeVar("T")

FIRST = "experiments.html"
VERDICTS: tuple[ItemVerdict, ...] = ("failed", "error", "unscored", "passed")
"""The verdicts, in the order in which pages show them."""
PAGE = 50
"""Maximum number of trials on one page."""
MOST_LISTED_RUNS = 50
"""Maximum number of runs that are listed per experiment. The newest runs are listed."""
MOST_COMPARED = 1_000
"""Maximum size, in trials, of a run whose interval is in the list and whose comparison is on the run's own page.

Computing the interval and the comparison takes seconds for 10,000 trials. If a run has more trials than the maximum,
its comparison has a separate page.
"""
MOST_CHANGED = 20
"""Maximum number of items that are listed for each kind of change in the comparison with the baseline."""
MOST_KEYS = 200
"""Maximum number of items without a trial whose keys are listed."""
TEXT_LENGTH = 8_000
"""Maximum characters of an input, an output or evidence in a list of trials. The trial's own page shows the whole text.
"""
MOST_NEW = 20
"""Maximum number of trials that a run's page shows when it is opened.

While a run is in progress, its newest trials are shown. After the run has ended, trials that did not pass are shown.
"""
BARS = 40
"""Number of bars of the timeline."""
WIDTH, HEIGHT = 640, 120
"""Width and height of the timeline in SVG units."""
_PLACE = re.compile(r"experiments/([^/]+)/(.+)\.html")
_LIST = re.compile(rf"({'|'.join(VERDICTS)}|scorer-[^/]+)/([1-9]\d{{0,5}})")


@dataclass(frozen=True)
class ListedResult:
    """A run in the list of experiments."""

    listed: ListedRun
    pass_rate: PassRate | None
    """Pass rate with its confidence interval.

    It is None before the run ends, and for runs with more than `MOST_COMPARED` trials.
    """
    cost_usd: float


@dataclass(frozen=True)
class TrialView:
    """A trial in the form that the pages show."""

    trial: TrialDetail
    texts: Sequence[tuple[str, Markup]]
    """Titles and texts of the input, of the expected output, and of the output or the error with its log.

    Differences between output and expected output are marked.
    """
    evidence: Mapping[str, str]
    """Evidence of the scores, keyed by score id."""
    is_cut: bool
    """True if at least one text is cut."""

    @property
    def id(self) -> str:
        return f"trial-{slug(self.trial.run_item_id or '')}"

    @property
    def reason(self) -> str:
        return why_not_passed(self.trial)

    @property
    def path(self) -> str:
        """Path of the trial's own page, relative to the run's folder."""
        return f"trial/{slug(self.trial.run_item_id or '')}.html"


@dataclass(frozen=True)
class TimelineBar:
    """The trials that ended in one interval of the timeline."""

    start: str
    """Start of the interval, `HH:MM:SS`."""
    counts: Mapping[str, int]
    x: float
    width: float
    parts: Sequence[tuple[str, float, float]]
    """Verdict, upper edge and height of each segment of the bar."""

    @property
    def total(self) -> int:
        return sum(self.counts.values())


@dataclass(frozen=True)
class Timeline:
    """The times at which a run was queued, its trials ended, and the run itself ended."""

    run: ExperimentRun
    bars: Sequence[TimelineBar]
    queued: float
    """Width of the part of the timeline during which the run waited for its worker."""
    most: int
    """Number of trials in the highest bar."""
    seconds: float

    @property
    def end(self) -> str:
        return self.run.ended_at or "running"


class ExperimentPages(Pages):
    """The list of experiments, and the pages about each run: its result, and its trials by verdict and by scorer."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._cached: dict[tuple[object, ...], object] = {}

    def paths(self) -> Iterator[str]:
        first = self._first()
        if first is None:
            return
        yield FIRST
        for run in self._store_runs() if first.values["problem"] is None else ():
            yield run_path(run)
            if run.terminal and run.tries > MOST_COMPARED:
                yield f"experiments/{slug(run.id)}/comparison.html"
            summary = self._report(run).summary
            for verdict in VERDICTS:
                total: int = getattr(summary.counts, verdict)
                yield from (list_path(run, verdict, number) for number in range(1, -(-total // PAGE) + 1))
            for scorer in summary.scorers:
                total = len(self._not_passed_by(run).get(scorer.scorer, ()))
                name = f"scorer-{slug(scorer.scorer)}"
                yield from (list_path(run, name, number) for number in range(1, -(-total // PAGE) + 1))
            for item in self.site.workspace.store.experiment_runs.items(run.id):
                if self._view(run, item).is_cut:
                    yield f"experiments/{slug(run.id)}/trial/{slug(item.id)}.html"

    def page(self, path: str, query: Query) -> Page | None:
        if path == FIRST:
            return self._first()
        match = _PLACE.fullmatch(path)
        if match is None or not self.site.workspace.has_store:
            return None
        run = next((run for run in self._store_runs() if slug(run.id) == match[1]), None)
        if run is None:
            return None
        if match[2] == "index":
            return self._run(run)
        if match[2] == "live":
            return None if self.site.is_static else self._live(run, query)
        if trial := re.fullmatch(r"trial/([^/]+)", match[2]):
            return self._trial(run, trial[1])
        if match[2] == "comparison":
            return self._compared(run)
        listed = _LIST.fullmatch(match[2])
        return self._list(run, listed[1], int(listed[2])) if listed else None

    def _store_runs(self) -> Sequence[ExperimentRun]:
        return self.site.workspace.store.experiment_runs.runs()

    def _first(self) -> Page | None:
        """Return the page that lists the experiments, or None if there are none.

        The rows of the page are read when the page is rendered.
        """
        if not self.site.workspace.has_store:
            return None
        problem: str | None = None
        experiments: Sequence[Experiment] = ()
        try:
            experiments = self.site.workspace.store.experiments.experiments()
        except EvalscribeError as error:
            problem = error.text(flag)
        if not experiments and problem is None:
            return None
        values = {"experiments": self._experiments, "problem": problem, "most": MOST_LISTED_RUNS}
        return Page("experiments.html.j2", "Experiments", FIRST, values)

    def _experiments(self) -> Iterator[tuple[ListedExperiment, Sequence[ListedResult | str]]]:
        """Yield the experiments with their runs. Experiments with the newest runs come first.

        A run that cannot be read is replaced by the error's message.
        """
        runs: dict[str, list[ExperimentRun]] = {}
        for run in reversed(self._store_runs()):
            runs.setdefault(run.experiment_id, []).append(run)
        count = len(self.site.workspace.store.experiments.experiments())
        listed = {row.experiment.id: row for row in list_experiments(self.site.workspace, page_size=max(1, count))}
        for experiment_id in dict.fromkeys([*runs, *listed]):
            if experiment_id in listed:
                newest = runs.get(experiment_id, ())[:MOST_LISTED_RUNS]
                yield listed[experiment_id], [_or_problem(lambda run=run: self._result(run)) for run in newest]  # type: ignore[misc]

    def _result(self, run: ExperimentRun) -> ListedResult:
        def read() -> ListedResult:
            small = run.terminal and run.tries <= MOST_COMPARED
            pass_rate = run_summary(self.site.workspace, run, scored=False).pass_rate if small else None
            cost = self.site.workspace.store.experiment_runs.spent(run.id)
            return ListedResult(listed=listed_run(self.site.workspace, run), pass_rate=pass_rate, cost_usd=cost)

        return self._once(("listed",), run, read)

    def _once(self, key: tuple[object, ...], run: ExperimentRun, read: Callable[[], T]) -> T:
        """Return the result of `read`, and cache it if the run has ended.

        A cached result is no longer used once the run has changed.
        """
        if not run.terminal:
            return read()
        full_key = (run.id, run.revision, run.state, *key)
        if full_key not in self._cached:
            self._cached[full_key] = read()
        return self._cached[full_key]  # type: ignore[return-value]

    def _report(self, run: ExperimentRun) -> RunReport:
        return self._once(("report",), run, lambda: report_run(self.site.workspace, run))

    def _items(self, run: ExperimentRun) -> Mapping[str, Sequence[str]]:
        """Return the ids of the run's trials by verdict, in the order of the dataset."""

        def read() -> Mapping[str, Sequence[str]]:
            ids: dict[str, list[str]] = {verdict: [] for verdict in VERDICTS}
            for item in self.site.workspace.store.experiment_runs.items(run.id):
                ids[item.verdict].append(item.id)
            return ids

        return self._once(("items",), run, read)

    def _not_passed_by(self, run: ExperimentRun) -> Mapping[str, Sequence[str]]:
        """Return, for each scorer, the ids of the trials that the scorer did not pass.

        A scorer does not pass a trial if the scorer fails the trial, breaks or abstains.
        """

        def read() -> Mapping[str, Sequence[str]]:
            ids: dict[str, list[str]] = {}
            for only in ({"passed": False}, {"status": "error"}, {"status": "unscored"}):
                for score in self.site.workspace.store.experiment_runs.scores(ScoreQuery(run_id=run.id, **only)):
                    if explains_failure(score):
                        ids.setdefault(score.scorer, []).append(score.run_item_id)
            return {scorer: tuple(dict.fromkeys(trials)) for scorer, trials in ids.items()}

        return self._once(("scorers",), run, read)

    def _links(self, run: ExperimentRun) -> Callable[[str], str | None]:
        """Return a function that maps an item's key to the link to the item's first trial.

        Links are relative to the run's folder.
        """
        places = {
            id: f"{verdict}/{at // PAGE + 1}.html#trial-{slug(id)}"
            for verdict, ids in self._items(run).items()
            for at, id in enumerate(ids)
        }
        return lambda key: places.get(RunItem.id_of(run.id, key, 1))

    def _run(self, run: ExperimentRun) -> Page:
        workspace = self.site.workspace
        experiment = experiment_of(workspace, run)
        title = f"{experiment.name}: {run.name or run.id}"
        if not run.terminal and not self.site.is_static and not has_no_worker(workspace.store.experiment_runs, run):
            return Page("experiment_live.html.j2", title, FIRST, self._live_values(run, experiment, 0))
        report = self._report(run)
        summary = report.summary
        links = self._links(run)
        scorer_links = {
            scorer.scorer: f"scorer-{slug(scorer.scorer)}/1.html"
            for scorer in summary.scorers
            if scorer.scorer in self._not_passed_by(run)
        }
        ids = self._items(run)
        worst = [id for verdict in VERDICTS if verdict != "passed" for id in ids[verdict]]
        return Page(
            "experiment_run.html.j2",
            title,
            FIRST,
            {
                "run": summary,
                "state": _state(report),
                "gate": report.gate,
                "rule": RULE,
                "facts": _facts([*origin_lines(summary), *item_lines(summary), *detail_lines(summary)]),
                "timeline": self._timeline(run),
                "comparison": self._comparison(run) if run.tries <= MOST_COMPARED else None,
                "compared_apart": run.terminal and run.tries > MOST_COMPARED,
                "most_changed": MOST_CHANGED,
                "link": links,
                "scorer_links": scorer_links,
                "lists": [(verdict, len(ids[verdict])) for verdict in VERDICTS],
                "missing": self._missing(run) if summary.counts.missing else (),
                "trials": self._views(run, worst[:MOST_NEW]),
                "worst": len(worst),
            },
        )

    def _compared(self, run: ExperimentRun) -> Page | None:
        """Return the page with the comparison of a run.

        It is a separate page because comparing many trials takes a long time.
        """
        if not run.terminal:
            return None
        experiment = experiment_of(self.site.workspace, run).name
        values = {
            "run": run,
            "experiment": experiment,
            "comparison": self._comparison(run) or "There is no earlier run with the same items to compare with.",
            "most_changed": MOST_CHANGED,
            "link": self._links(run),
        }
        return Page("experiment_comparison.html.j2", f"Comparison: {experiment}", FIRST, values)

    def _missing(self, run: ExperimentRun) -> Sequence[str]:
        """Return the keys of the first `MOST_KEYS` items that have no trial."""
        tried = {key for key, _ in self.site.workspace.store.experiment_runs.done(run.id)}
        # Keys are taken one by one, so that a large dataset is read only until enough missing keys are found.
        keys = (item.key for item in items_of(self.site.workspace, run) if item.key not in tried)
        return [key for key, _ in zip(keys, range(MOST_KEYS), strict=False)]

    def _comparison(self, run: ExperimentRun) -> RunComparison | str | None:
        """Return the comparison with the gate's baseline, or with the previous run if the gate names no baseline.

        Returns None if the run has not ended or has no previous run, and the error's message if the comparison fails.
        """
        if not run.terminal:
            return None
        base = version_of_run(self.site.workspace, run).config.base

        def read() -> RunComparison | str | None:
            try:
                return compare_runs(self.site.workspace, base or PREVIOUS, run.id)
            except NotFoundError as error:
                return None if base in (None, PREVIOUS) else error.text(flag)
            except EvalscribeError as error:
                return error.text(flag)

        return self._once(("comparison", base), run, read)

    def _list(self, run: ExperimentRun, name: str, number: int) -> Page | None:
        """Return one page of the trials with a given verdict, or of the trials that a given scorer did not pass."""
        start = (number - 1) * PAGE
        if name in VERDICTS:
            ids = self._items(run)[name]
            heading = f"{name.capitalize()} trials"
        else:
            scorers = {f"scorer-{slug(scorer.scorer)}": scorer.scorer for scorer in self._report(run).summary.scorers}
            if name not in scorers:
                return None
            ids = self._not_passed_by(run).get(scorers[name], ())
            heading = f"Trials that {scorers[name]} did not pass"
        views = self._views(run, ids[start : start + PAGE])
        if not views:
            return None
        experiment = experiment_of(self.site.workspace, run)
        values = {
            "run": run,
            "experiment": experiment.name,
            "heading": heading,
            "trials": views,
            "first": start + 1,
            "total": len(ids),
            "pages": -(-len(ids) // PAGE),
            "number": number,
        }
        return Page("experiment_trials.html.j2", f"{heading}: {experiment.name}", FIRST, values)

    def _trial(self, run: ExperimentRun, name: str) -> Page | None:
        """Return the page of one trial, which shows its texts in full."""
        store = self.site.workspace.store.experiment_runs
        id = next((id for ids in self._items(run).values() for id in ids if slug(id) == name), None)
        trial = store.attempt(id) if id else None
        if trial is None:
            return None
        view = self._described(describe_trial(self.site.workspace, run, trial), limit=None)
        values = {"run": run, "experiment": experiment_of(self.site.workspace, run).name, "view": view}
        return Page("experiment_trial.html.j2", f"{view.trial.item_key}: {view.trial.verdict}", FIRST, values)

    def _views(self, run: ExperimentRun, ids: Sequence[str]) -> list[TrialView]:
        store = self.site.workspace.store.experiment_runs
        trials = (store.attempt(id) for id in ids)
        return [self._described(describe_trial(self.site.workspace, run, trial)) for trial in trials if trial]

    def _view(self, run: ExperimentRun, item: RunItem) -> TrialView:
        return next(iter(self._views(run, [item.id])))

    def _described(self, trial: TrialDetail, limit: int | None = TEXT_LENGTH) -> TrialView:
        texts = dict(trial_texts(trial))
        evidence = {score.id: text for score in trial.scores if (text := self._evidence(score))}
        is_cut = limit is not None and any(len(text) > limit for text in (*texts.values(), *evidence.values()))
        parts = {title: Markup.escape(shown(_cut(text, limit))) for title, text in texts.items()}
        if "output" in parts and "expected" in parts and trial.verdict != "passed":
            output, expected = (_cut(texts[title], limit) for title in ("output", "expected"))
            parts["output"], parts["expected"] = mark_differences(output, expected)
        return TrialView(
            trial=trial,
            texts=tuple(parts.items()),
            evidence={id: _cut(text, limit) for id, text in evidence.items()},
            is_cut=is_cut,
        )

    def _evidence(self, score: Score) -> str:
        """Render the evidence of a score as JSON; empty if there is none.

        A scorer's output that only repeats the score is left out.
        """
        try:
            evidence = score_evidence(self.site.workspace, score.id, ("scorer_output", "evidence"))
        except EvalscribeError as error:
            return error.text(flag)
        values = {name: value for name, value in evidence.parts.items() if value is not None}
        if _repeats(score, values.get("scorer_output")):
            values.pop("scorer_output", None)
        if not values:
            return ""
        return json.dumps(values | evidence.metadata, indent=2, ensure_ascii=False)

    def _timeline(self, run: ExperimentRun) -> Timeline | None:
        """Return the timeline of a run, or None if no trial has ended yet."""
        return self._once(
            ("timeline",), run, lambda: timeline(run, self.site.workspace.store.experiment_runs.finished(run.id))
        )

    def _live(self, run: ExperimentRun, query: Query) -> Page:
        """Return the HTML fragment with the trials that the page does not show yet.

        The parameter `seen` of the address is the number of trials that the page already shows.
        """
        experiment = experiment_of(self.site.workspace, run)
        shown = query.get("seen", "")
        number = int(shown) if re.fullmatch(r"\d{1,9}", shown) else 0
        return Page("experiment_progress.html.j2", experiment.name, FIRST, self._live_values(run, experiment, number))

    def _live_values(self, run: ExperimentRun, experiment: Experiment, shown: int) -> dict[str, object]:
        store = self.site.workspace.store.experiment_runs
        listed = listed_run(self.site.workspace, run)
        total = sum(store.tally(run.id).values())
        # A trial appears when it is scored, and later trials can be scored first. Some are sent twice, to miss none.
        new = min(total - shown, MOST_NEW) + (2 * run.concurrency if shown else 0) if total > shown else 0
        trials = [item.id for item in reversed(store.newest(run.id, new))]
        return {
            "run": run,
            "experiment": experiment.name,
            "counts": listed.counts,
            "done": run.terminal or listed.worker_gone,
            "seen": total,
            # If the fragment has no timeline, the page keeps the one that it shows.
            "timeline": self._timeline(run) if total != shown or run.terminal else None,
            "trials": self._views(run, trials),
        }


def run_path(run: ExperimentRun) -> str:
    return f"experiments/{slug(run.id)}/index.html"


def list_path(run: ExperimentRun, name: str, number: int) -> str:
    """Return the path of a page of trials. `name` is a verdict, or `scorer-` followed by the scorer's slug."""
    return f"experiments/{slug(run.id)}/{name}/{number}.html"


def _or_problem(read: Callable[[], T]) -> T | str:
    try:
        return read()
    except EvalscribeError as error:
        return error.text(flag)


def _state(report: RunReport) -> tuple[str, str]:
    """Return the state of a run in words, and the CSS class for its colour."""
    if report.gate is None:
        return report.summary.reason or report.summary.state, "inconclusive"
    if report.summary.state != "completed":
        return report.summary.state, "failed"
    return ("gate passed", "passed") if report.gate.passed else ("gate failed", "failed")


def _facts(lines: Sequence[str]) -> Sequence[tuple[str, Sequence[str]]]:
    """Split the lines of a summary into names and values. An indented line continues the value of the line above it."""
    facts: list[tuple[str, list[str]]] = []
    for line in lines:
        name, value = line[:10].strip(), line[10:].strip()
        if line.startswith(" ") and facts:
            facts[-1][1].append(one_line(line))
        else:
            facts.append((name, [value]))
    return facts


def _cut(text: str, limit: int | None) -> str:
    return text if limit is None or len(text) <= limit else f"{text[:limit]}\n…"


def _repeats(score: Score, output: JsonValue) -> bool:
    """Return whether a scorer's output only repeats facts that the score itself contains."""
    facts = {score.status, score.value, score.passed, score.label, score.explanation, score.error_type}
    return output is None or (
        isinstance(output, dict)
        and all(isinstance(value, str | int | float | bool) and value in facts for value in output.values())
    )


def timeline(run: ExperimentRun, finished: Sequence[tuple[str, ItemVerdict]]) -> Timeline | None:
    """Return the timeline of a run, or None if no trial has ended.

    Args:
        run: The run.
        finished: Time at which each trial ended, in ISO 8601, with the trial's verdict.
    """
    if not finished:
        return None
    start = datetime.fromisoformat(run.created_at)
    times = [((datetime.fromisoformat(moment) - start).total_seconds(), verdict) for moment, verdict in finished]
    last = datetime.fromisoformat(run.ended_at or finished[-1][0])
    # All times can be equal. The total must not be 0, because times are divided by it.
    seconds = max(0.001, (last - start).total_seconds(), times[-1][0])
    counts = [Counter[str]() for _ in range(BARS)]
    for time, verdict in times:
        counts[min(BARS - 1, max(0, int(time / seconds * BARS)))][verdict] += 1
    most = max(count.total() for count in counts)
    began = datetime.fromisoformat(run.started_at or run.created_at)
    queued = min(1.0, max(0.0, (began - start).total_seconds() / seconds))
    width = WIDTH / BARS
    bars = []
    for number, count in enumerate(counts):
        parts, below = [], float(HEIGHT)
        for verdict in reversed(VERDICTS):
            if count[verdict]:
                height = HEIGHT * count[verdict] / most
                below -= height
                parts.append((verdict, round(below, 1), round(height, 1)))
        moment = datetime.fromtimestamp(start.timestamp() + number * seconds / BARS, start.tzinfo)
        bars.append(TimelineBar(f"{moment:%H:%M:%S}", count, round(number * width, 1), round(width - 1, 1), parts))
    return Timeline(run, bars, round(queued * WIDTH, 1), most, seconds)
