"""Pages that compare two runs: tasks that broke, were fixed or stayed broken, and a significance test."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

from markupsafe import Markup

from evalscribe.collections.compare import RunEvals
from evalscribe.collections.comparison_page import TITLES, chance, points, verdict
from evalscribe.collections.comparisons import compare_by_rules, find_comparison, load_run_evals
from evalscribe.collections.runs import load_record
from evalscribe.errors import EvalscribeError
from evalscribe.evidence.differences import DocumentPair, diff_hunks, pair_documents
from evalscribe.ids import same_experiment
from evalscribe.model.comparison import Comparison, EvalPair, Trial
from evalscribe.model.evidence import Evidence
from evalscribe.model.record import Record, evidence_of
from evalscribe.redaction.redact import redact
from evalscribe.statistics.intervals import TrialCluster, ValueWithInterval, estimate_rate
from evalscribe.text import cut
from evalscribe.text import path as printed_path
from evalscribe.web.inbox import mark_differences
from evalscribe.web.pictures import paired_differences, percent
from evalscribe.web.site import Page, Pages, Query, slug
from evalscribe.web.task_index import RunResults, TaskResult

MOST_CONSECUTIVE = 40
"""Maximum number of listed pairs of consecutive runs of the same model. The newest pairs are listed."""
MOST_MODELS = 5
"""Maximum number of models per experiment whose newest runs are paired with each other in the list."""
MOST_PAIRS = 80
MOST_SHOWN = 100
"""Maximum number of evals in a list that are shown with details. For further evals, only the names are shown."""
MOST_OUTPUTS = 30
"""Maximum number of evals for which the outputs of both runs are read and compared."""
LONGEST_OUTPUT = 3000
"""Maximum number of characters that are shown of the differing part of each output."""


@dataclass(frozen=True)
class RunPair:
    """Two runs that are worth comparing."""

    base: RunResults
    candidate: RunResults
    reason: str

    @property
    def path(self) -> str:
        return f"compare/{slug(self.base.key)}/{slug(self.candidate.key)}.html"


@dataclass(frozen=True)
class OutputDifference:
    """The first place where the outputs of two trials differ."""

    path: str
    base: Markup
    candidate: Markup
    base_line: int
    candidate_line: int


@dataclass(frozen=True)
class ChangedTask:
    """One eval with its results in both runs."""

    pair: EvalPair
    base: TaskResult | None
    candidate: TaskResult | None
    output: OutputDifference | None = None

    @property
    def has_difference(self) -> bool:
        """True if it is known where the two runs differ, so that both can be shown side by side."""
        return self.output is not None or self.pair.why is not None

    @property
    def base_reason(self) -> str:
        return _reason(self.pair.first_failures[0])

    @property
    def candidate_reason(self) -> str:
        return _reason(self.pair.first_failures[1])


class ComparisonPages(Pages):
    def paths(self) -> Iterator[str]:
        if self.begins("compare.html"):
            yield "compare.html"
            yield from (pair.path for pair in self._pairs())

    def begins(self, path: str) -> bool:
        return path == "compare.html" and len(self._runs()) > 1

    def page(self, path: str, query: Query) -> Page | None:
        if path == "compare.html":
            return self._list(query) if self.begins(path) else None
        match = re.fullmatch(r"compare/([^/]+)/([^/]+)\.html", path)
        if match is None:
            return None
        by_slug = {slug(run.key): run for run in self.site.tasks.table.runs}
        base, candidate = by_slug.get(match[1]), by_slug.get(match[2])
        if base is None or candidate is None or base is candidate:
            return None
        return self._comparison(base, candidate)

    def _runs(self) -> Sequence[RunResults]:
        return [run for run in self.site.tasks.table.runs if self.site.tasks.in_scope(run)]

    def _list(self, query: Query) -> Page:
        """Return the page that lists the pairs, or a comparison if the page's address names two different runs."""
        runs = sorted(self._runs(), key=lambda run: (run.started, run.key), reverse=True)
        by_key = {run.key: run for run in runs}
        base, candidate = by_key.get(query.get("base", "")), by_key.get(query.get("candidate", ""))
        if base and candidate and base is not candidate:
            return self._comparison(base, candidate)
        problem = "Choose two different runs." if query.get("base") and query.get("candidate") else None
        values = {"runs": runs, "pairs": self._pairs(), "query": query, "problem": problem}
        return Page("compare.html.j2", "Compare", "compare.html", values)

    def _pairs(self) -> Sequence[RunPair]:
        """Return the pairs of runs to list.

        Pairs of consecutive runs of the same model come first, then pairs of the newest runs of different models. Both
        runs of a pair belong to the same experiment.
        """
        by_start = sorted(self._runs(), key=lambda run: (run.started, run.key))
        of_experiment: list[list[RunResults]] = []
        for run in by_start:
            same = next(
                (group for group in of_experiment if same_experiment(group[0].experiment, run.experiment)), None
            )
            if same is None:
                of_experiment.append([run])
            else:
                same.append(run)
        consecutive, models = [], []
        for runs in of_experiment:
            of_model: dict[str, list[RunResults]] = defaultdict(list)
            for run in runs:
                of_model[run.model].append(run)
            for group in of_model.values():
                consecutive += [
                    RunPair(base, candidate, "next run of the model") for base, candidate in pairwise(group)
                ]
            newest = sorted((group[-1] for group in of_model.values()), key=lambda run: (run.started, run.key))
            models += [
                RunPair(base, candidate, "two models, newest runs")
                for base, candidate in combinations(newest[-MOST_MODELS:], 2)
            ]
        consecutive.sort(key=lambda pair: pair.candidate.started, reverse=True)
        models.sort(key=lambda pair: pair.candidate.started, reverse=True)
        return [*consecutive[:MOST_CONSECUTIVE], *models][:MOST_PAIRS]

    def _comparison(self, base: RunResults, candidate: RunResults) -> Page:
        problems: list[str] = []
        base_evals, candidate_evals = self._evals(base, problems), self._evals(candidate, problems)
        comparison = compare_by_rules(self.site.workspace, base_evals, candidate_evals, MOST_OUTPUTS)
        changed = [
            ChangedTask(pair, base.results.get(name), candidate.results.get(name))
            for pair in comparison.pairs
            for name in (printed_path(pair.eval),)
        ]
        broke = [self._with_output(task, number) for number, task in enumerate(_of(changed, "regressed"))]
        fixed, stayed = _of(changed, "fixed"), _of(changed, "both-failed")
        unchanged = comparison.evals - len(broke) - len(fixed)
        trials = any(len(side) > 1 for pair in comparison.pairs for side in (pair.base, pair.candidate))
        names = ("worse", "better") if trials else ("broke", "fixed")
        return Page(
            "comparison.html.j2",
            f"{base.model} and {candidate.model}",
            "compare.html",
            {
                "base": base,
                "candidate": candidate,
                "comparison": comparison,
                "verdict": verdict(comparison) if comparison.base.rate is not None else None,
                "chance": list(chance(comparison)) if comparison.base.rate is not None else [],
                "difference": points(comparison.passes.difference),
                "sides": [
                    (name, run, side, _rate(comparison, name), self.site.tasks.has_page(run))
                    for name, run, side in (
                        ("Base", base, comparison.base),
                        ("Candidate", candidate, comparison.candidate),
                    )
                ],
                "broke": broke,
                "fixed": fixed,
                "stayed": stayed,
                "most": MOST_SHOWN,
                "names": names,
                "picture": paired_differences(len(broke), len(fixed), unchanged, names=names),
                "picture_rows": [(names[0], len(broke)), (names[1], len(fixed)), ("unchanged", unchanged)],
                "left_out": _left_out(comparison),
                "percent": percent,
                "has_page": self.site.tasks.has_page,
                "written": self._written(comparison, problems),
                "problems": problems,
            },
        )

    def _evals(self, run: RunResults, problems: list[str]) -> RunEvals:
        """Return a run's evals from the store, or from the report if the store has none."""
        if run.stored:
            try:
                # The findings are passed on, because the site has parsed the run's report already.
                return load_run_evals(self.site.workspace, run.run, run.findings)
            except EvalscribeError as error:
                problems.append(str(error))
        return RunEvals(run=run.run, graded=run.graded, findings=run.findings)

    def _with_output(self, task: ChangedTask, number: int) -> ChangedTask:
        """Add the first difference between the outputs, unless the first tool call that differs is already known."""
        if number >= MOST_OUTPUTS or (task.pair.why and task.pair.why.quotes) or not self.site.workspace.has_store:
            return task
        passed = next((trial for trial in task.pair.base if trial.passed), None)
        failed = next((trial for trial in task.pair.candidate if not trial.passed), None)
        try:
            records = [self._record(trial) for trial in (passed, failed)]
        except EvalscribeError:
            return task  # The eval's own page shows the error.
        if records[0] is None or records[1] is None:
            return task
        output = first_output_difference(evidence_of(records[0]), evidence_of(records[1]))
        return ChangedTask(task.pair, task.base, task.candidate, output)

    def _record(self, trial: Trial | None) -> Record | None:
        if trial is None or trial.eval_id is None:
            return None
        store = self.site.workspace.store
        return load_record(store.runs, store.analyses, trial.run_id, trial.eval_id)

    def _written(self, comparison: Comparison, problems: list[str]) -> tuple[str, str] | None:
        """Return the name and text of the page that `evalscribe compare` wrote about these runs, if there is one."""
        base, candidate = comparison.base.runs, comparison.candidate.runs
        table = self.site.tasks.table
        run = next((run.run for run in table.runs if run.run.id == candidate[0]), None)
        try:
            written = find_comparison(self.site.workspace.reports, run, [base, candidate]) if run else None
        except EvalscribeError as error:
            problems.append(str(error))
            return None
        return (written[0], redact(written[1])) if written else None


def first_output_difference(base: Evidence, candidate: Evidence) -> OutputDifference | None:
    """Return the first difference between the outputs of two trials.

    Returns None if the outputs are equal or one of them is missing.
    """
    # `pair_documents` pairs outputs with references, so the outputs of the base take the role of references.
    as_expected = [document.model_copy(update={"role": "expected"}) for document in base.of("output")]
    both = candidate.model_copy(update={"documents": (*candidate.of("output"), *as_expected)})
    for pair in pair_documents(both):
        if difference := _first_hunk(pair):
            return difference
    return None


def _first_hunk(pair: DocumentPair) -> OutputDifference | None:
    hunks = diff_hunks(pair, context=0)
    if not hunks or pair.output is None:
        return None
    change = hunks[0].changes[0]
    left, right = (cut("\n".join(lines), LONGEST_OUTPUT) for lines in (change.expected, change.output))
    base, candidate = mark_differences(left, right)
    return OutputDifference(pair.output.path, base, candidate, change.expected_first, change.output_first)


def _of(tasks: Sequence[ChangedTask], change: str) -> list[ChangedTask]:
    return [task for task in tasks if task.pair.change == change]


def _reason(trial: Trial | None) -> str:
    """Return why a trial failed, in the words of its report, or the trial's error if the report gives no reason."""
    if trial is None:
        return ""
    return trial.why or (trial.cause or "").replace("-", " ") or trial.error or ""


def _rate(comparison: Comparison, name: str) -> ValueWithInterval | None:
    """Return the pass rate of one run over the compared evals, with its confidence interval."""
    sides = [pair.base if name == "Base" else pair.candidate for pair in comparison.pairs]
    clusters = [TrialCluster(sum(trial.passed for trial in side), len(side)) for side in sides]
    return estimate_rate([*clusters, *[TrialCluster(1, 1)] * comparison.unnamed])


def _left_out(comparison: Comparison) -> Mapping[str, Mapping[str, Sequence[str]]]:
    """Return the evals that are not compared, grouped by reason and detail."""
    grouped: dict[str, dict[str, list[str]]] = {}
    for item in comparison.apart:
        grouped.setdefault(TITLES[item.reason], {}).setdefault(item.detail, []).append(item.eval)
    return grouped
