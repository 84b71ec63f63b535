"""Compare runs on the same evals: what changed, and whether the change is significant."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from statistics import fmean
from typing import cast

from evalscribe.evidence.log import is_stock
from evalscribe.ids import model_folder, run_id_prefix, same_experiment
from evalscribe.model.analysis import FindingSummary
from evalscribe.model.comparison import (
    CategoryFlips,
    Comparison,
    ComparisonSide,
    EvalChange,
    EvalPair,
    ExcludedEval,
    ExclusionReason,
    Matrix,
    MatrixColumn,
    MatrixRow,
    MeanDifference,
    ScoreDifference,
    Trial,
    WithinRunComparison,
)
from evalscribe.model.finding import NOT_THE_MODEL
from evalscribe.model.record import GradedEval
from evalscribe.model.run import TARGET, Eval, Run
from evalscribe.sources.harbor import NAME as HARBOR
from evalscribe.sources.harbor import REFERENCE_AGENTS
from evalscribe.statistics.significance import (
    Paired,
    Task,
    compare_pairs,
    holm,
    mean_difference,
    stratified_permutation_test,
)
from evalscribe.text import cut, one_line
from evalscribe.text import path as printed_path

ERROR_LENGTH = 160


@dataclass(frozen=True)
class RunEvals:
    """One run with its evals and the verdicts on its failures."""

    run: Run
    graded: tuple[GradedEval, ...]
    findings: Mapping[str, FindingSummary] = field(default_factory=dict)
    """Findings of the run's report, keyed by printed path."""
    signatures: Mapping[str, str | None] = field(default_factory=dict)
    """Error signatures, keyed by eval id."""
    unreached: frozenset[str] = frozenset()
    """Ids of the evals whose evidence shows that the model's work was never graded."""

    @property
    def names_all(self) -> bool:
        """Return True if the run lists every eval. Runs from some sources list only failures."""
        return len(self.graded) >= self.run.total


@dataclass
class EvalTrials:
    """All trials of one eval on one side."""

    category: str = ""
    judged: list[Trial] = field(default_factory=list)
    unjudged: list[str] = field(default_factory=list)
    """Reasons why trials say nothing about the model, one for each trial that was not judged."""
    tasks: set[str] = field(default_factory=set)
    graders: set[str] = field(default_factory=set)


def bare_path(eval: Eval) -> str:
    """Return the path of an eval without its trial number."""
    return f"{eval.category}/{eval.name}" if eval.category else eval.name


def trials_by_eval(side: Iterable[RunEvals], all_runs: Sequence[RunEvals]) -> dict[str, EvalTrials]:
    """Group the trials of one side by the path of their eval.

    Args:
        all_runs: All compared runs. If a run lists only its failures, an eval missing from that list counts as passed
            if another run of the same suite lists the eval.
    """
    by_path: dict[str, EvalTrials] = {}
    for run_evals in side:
        names = {} if run_evals.names_all else named_evals(other for other in all_runs if same_suite(run_evals, other))
        for path, category, trial, graded in _trials(run_evals, names):
            eval_trials = by_path.setdefault(path, EvalTrials(category=category))
            if isinstance(trial, Trial):
                eval_trials.judged.append(trial)
            else:
                eval_trials.unjudged.append(trial)
            if graded and graded.task:
                eval_trials.tasks.add(graded.task)
            if graded and graded.grader:
                eval_trials.graders.add(graded.grader)
    return by_path


def named_evals(sides: Iterable[RunEvals]) -> dict[str, str]:
    """Return the category of every eval that at least one run lists, keyed by the eval's path."""
    categories: dict[str, str] = {}
    for run_evals in sides:
        categories.update((path, path.rpartition("/")[0]) for path in _bare_paths(run_evals.run.evals or ()))
        categories.update((bare_path(graded.eval), graded.eval.category) for graded in run_evals.graded)
    return categories


def same_suite(run_evals: RunEvals, other: RunEvals) -> bool:
    """Return whether two runs seem to belong to one suite.

    This is the case if they have the same experiment, the same number of evals, or at least one eval in common.
    """
    if (
        run_evals is other
        or same_experiment(run_evals.run.experiment, other.run.experiment)
        # Two runs that list only failures can list no eval in common although they ran the same suite.
        or run_evals.run.total == other.run.total
    ):
        return True
    return not {bare_path(graded.eval) for graded in run_evals.graded}.isdisjoint(
        bare_path(graded.eval) for graded in other.graded
    )


def _trials(run_evals: RunEvals, names: Mapping[str, str]) -> Iterator[tuple[str, str, Trial | str, GradedEval | None]]:
    own_paths = set()
    # Keep the order of trials, because failed trials are later compared with the first passed trial of their eval.
    for graded in sorted(run_evals.graded, key=lambda graded: graded.eval.trial):
        own_paths.add(path := bare_path(graded.eval))
        yield path, graded.eval.category, _trial(run_evals, graded), graded
    if not run_evals.names_all:
        # If the run states the names of all its evals, an eval that it does not name was not part of it.
        suite_paths = None if run_evals.run.evals is None else set(_bare_paths(run_evals.run.evals))
        for path in names:
            if path not in own_paths and (suite_paths is None or path in suite_paths):
                yield path, names[path], Trial(run_id=run_evals.run.id, status="passed"), None


def _bare_paths(paths: Sequence[str]) -> list[str]:
    """Return the paths without their trial suffixes, such as `#2`. Some paths have no such suffix."""
    # For a path without `#`, `rpartition` returns the whole path as the last part, which can be a number.
    return [path.rpartition("#")[0] if path.rpartition("#")[2].isdigit() and "#" in path else path for path in paths]


def _trial(run_evals: RunEvals, graded: GradedEval) -> Trial | str:
    """Return the trial, or the reason why its result says nothing about the model."""
    eval = graded.eval
    finding = None if eval.status == "passed" else run_evals.findings.get(printed_path(eval.path))
    error = _error(run_evals, eval, finding)
    if eval.status == "error":
        failure_text = "the target gave no answer" if eval.failed_step == TARGET else "the harness broke"
        return f"{failure_text}{f': {error}' if error else ''}"
    if eval.status == "incomplete":
        return f"it never completed{f': {error}' if error else ''}"
    # A reviewer's label outranks the replay: the check below then decides by the label's kind.
    if finding and finding.basis == "proved" and not finding.reviewer:
        return f"a replay proved that the model is not at fault ({one_line(finding.why or '')})"
    # An uncertain cause does not clear the model: its own code could have printed what looks like an outage.
    if finding and finding.cause_kind in NOT_THE_MODEL and not finding.uncertain:
        note = finding.reviewer and finding.reviewer.note  # a reviewer's reason takes precedence over the judge's
        reason = one_line(note or finding.why or (finding.cause or "").replace("-", " "))
        return f"its report blames the {finding.cause_kind}{f' ({reason})' if reason else ''}"
    # A finding in a report outranks a guess from the evidence, because people may have corrected the report.
    if finding is None and eval.id in run_evals.unreached:
        return f"the model's work was never reached{f': {error}' if error else ''}"
    return Trial(
        run_id=graded.run_id,
        eval_id=eval.id,
        trial=eval.trial,
        status=eval.status,
        scores=graded.scores,
        step=eval.failed_step,
        error=error or None,
        cause=finding and finding.cause,
        cause_kind=finding and finding.cause_kind,
        why=finding and finding.why,
        signature=run_evals.signatures.get(eval.id),
    )


def _error(run_evals: RunEvals, eval: Eval, finding: FindingSummary | None) -> str:
    """Return the error of a trial, as its report quotes it or else as the source recorded it.

    A generic error is replaced by the error that was located in the evidence.
    """
    error = (finding and finding.error) or eval.reason or ""
    signature = run_evals.signatures.get(eval.id)
    if signature and is_stock(error):
        # A signature begins with the failed step, which pages show separately.
        error = signature.removeprefix(f"{eval.failed_step or 'before grading'}: ")
    return cut(one_line(error), ERROR_LENGTH)


FINENESS = 10_000
"""Denominator of fractions. Scores are rounded to multiples of 1/`FINENESS` before they are compared.

The exact test counts in units of the common denominator of all differences. With unrounded floats, that denominator
would be huge.
"""
LARGEST = 1e100
"""Maximum magnitude of a score. The squares of larger differences would overflow a float."""


def pass_rate_difference(pairs: Sequence[EvalPair], unnamed: int = 0) -> MeanDifference:
    """Compare the pass rates of both sides.

    Args:
        unnamed: Number of evals that no run lists because they passed on both sides.
    """
    passed = (Fraction(1),)
    return mean_difference(compare_pairs([*map(_task, pairs), *[Task(passed, passed)] * unnamed]))


def per_eval_p_value(pairs: Sequence[EvalPair]) -> float | None:
    """Return the p-value of the hypothesis that each eval is equally likely to pass on both sides.

    Returns None if every eval has only one trial per side.
    """
    result = stratified_permutation_test(list(map(_task, pairs)))
    return result and result.p_value


def score_differences(pairs: Sequence[EvalPair]) -> tuple[ScoreDifference, ...]:
    """Compare every score that has values other than 0 and 1. Evals that lack the score on either side are skipped."""
    results = {}
    for name in sorted({name for pair in pairs for trial in pair.base for name in trial.scores}):
        tasks = [task for pair in pairs if (task := _scored(pair, name))]
        values = {value for task in tasks for side in task for value in side}
        # A score with only the values 0 and 1 is a grade, and grades are already compared by the pass rates.
        if values - {0, 1}:
            # If all values are equal, their range is 0, and `compare_pairs` divides by the range.
            results[name] = tasks, compare_pairs(tasks, float(max(values) - min(values)) or 1.0)
    corrected = holm({name: result.test.p_value for name, (_, result) in results.items()})
    return tuple(_score(name, tasks, result, corrected[name]) for name, (tasks, result) in results.items())


def category_flips(pairs: Sequence[EvalPair], *, all_named: bool = True) -> tuple[CategoryFlips, ...]:
    """Return the numbers of regressed and fixed evals of each category; empty if there is only one category."""
    groups: dict[str, list[EvalPair]] = defaultdict(list)
    for pair in pairs:
        groups[pair.category].append(pair)
    if len(groups) < 2:
        return ()
    corrected = holm({name: compare_pairs(list(map(_task, group))).test.p_value for name, group in groups.items()})
    return tuple(_category(name, group, corrected[name], all_named) for name, group in sorted(groups.items()))


def mean_pass_rate(evals: Iterable[Sequence[Trial]], unnamed: int = 0) -> float:
    """Return the mean of the evals' pass rates. The mean includes `unnamed` further evals, all of which passed."""
    return fmean([*(sum(trial.passed for trial in trials) / len(trials) for trials in evals), *[1.0] * unnamed])


def _task(pair: EvalPair) -> Task:
    base, candidate = (tuple(Fraction(trial.passed) for trial in side) for side in (pair.base, pair.candidate))
    return Task(base, candidate)


def _scored(pair: EvalPair, name: str) -> Task | None:
    base, candidate = (_values(side, name) for side in (pair.base, pair.candidate))
    return Task(base, candidate) if base and candidate else None


def _values(side: tuple[Trial, ...], name: str) -> tuple[Fraction, ...]:
    values = (trial.scores[name] for trial in side if name in trial.scores)
    return tuple(Fraction(round(value * FINENESS), FINENESS) for value in values if abs(value) <= LARGEST)


def _score(name: str, tasks: Sequence[Task], paired: Paired, p: float) -> ScoreDifference:
    base, candidate = (fmean(float(fmean(side)) for side in sides) for sides in zip(*tasks, strict=True))
    return ScoreDifference(name=name, base=base, candidate=candidate, effect=mean_difference(paired, p))


def _category(name: str, group: Sequence[EvalPair], p: float, all_named: bool) -> CategoryFlips:
    changes = [pair.change for pair in group]
    return CategoryFlips(
        category=name,
        evals=len(group),
        base=mean_pass_rate(pair.base for pair in group) if all_named else None,
        candidate=mean_pass_rate(pair.candidate for pair in group) if all_named else None,
        regressed=changes.count("regressed"),
        fixed=changes.count("fixed"),
        p=p,
    )


ComparedRuns = Sequence[RunEvals]
"""The runs of one side. All of them are by the same model."""
STATES = {
    "failed": "did not complete",
    "running": "is still running",
    "importing": "is incomplete: its import has not completed",
}
"""Text that completes a note about an incomplete run, keyed by the run's status."""


def compare_sides(base: ComparedRuns, candidate: ComparedRuns) -> Comparison:
    """Compare the runs `candidate` with the runs `base`. Each side must have at least one run."""
    runs = [*base, *candidate]
    pairs, excluded = _match_evals(trials_by_eval(base, runs), trials_by_eval(candidate, runs))
    names = len(named_evals(runs))
    unnamed = unnamed_evals(runs, names)
    return Comparison(
        base=build_side(base, candidate, [pair.base for pair in pairs], unnamed),
        candidate=build_side(candidate, base, [pair.candidate for pair in pairs], unnamed),
        experiments_differ=not _of_one_experiment(runs),
        pairs=pairs,
        unnamed=unnamed,
        apart=excluded,
        incomplete=max(run_evals.run.total for run_evals in runs) - names - unnamed if unnamed else 0,
        passes=pass_rate_difference(pairs, unnamed),
        by_eval=per_eval_p_value(pairs),
        scores=score_differences(pairs),
        categories=category_flips(pairs, all_named=not unnamed),
        notes=tuple(_comparison_notes(base, candidate)),
    )


def _match_evals(
    base: Mapping[str, EvalTrials], candidate: Mapping[str, EvalTrials]
) -> tuple[tuple[EvalPair, ...], tuple[ExcludedEval, ...]]:
    pairs, excluded = [], []
    for path in sorted(base.keys() | candidate.keys()):
        base_trials, candidate_trials = base.get(path), candidate.get(path)
        if base_trials is None or candidate_trials is None:
            side = "base" if candidate_trials is None else "candidate"
            excluded.append(
                ExcludedEval(eval=path, reason=cast(ExclusionReason, f"only-{side}"), detail=f"only the {side} has it")
            )
        elif differs := _differs(base_trials, candidate_trials):
            excluded.append(ExcludedEval(eval=path, reason="changed", detail=f"{differs} changed in between"))
        elif not (base_trials.judged and candidate_trials.judged):
            excluded.append(
                ExcludedEval(
                    eval=path, reason="not-judged", detail="; ".join(_not_judged(base_trials, candidate_trials))
                )
            )
        else:
            pairs.append(_pair(path, base_trials, candidate_trials))
    return tuple(pairs), tuple(excluded)


def _differs(base: EvalTrials, candidate: EvalTrials) -> str:
    """Return `its task`, `its grader`, or both joined by `and`, for what is known to differ between the two sides."""
    task, grader = len(base.tasks | candidate.tasks) > 1, len(base.graders | candidate.graders) > 1
    return " and ".join(name for name, differs in (("its task", task), ("its grader", grader)) if differs)


def _not_judged(base: EvalTrials, candidate: EvalTrials) -> Iterator[str]:
    """Yield one phrase for each side. The phrase says how many trials of the eval passed, or why none was judged."""
    for name, side in (("base", base), ("candidate", candidate)):
        passed = sum(trial.passed for trial in side.judged)
        if not side.judged:
            yield f"{name}: {side.unjudged[0]}"
        elif passed in (0, len(side.judged)):
            yield f"{name} {'passed' if passed else 'failed'}"
        else:
            yield f"{name} passed {passed} of {len(side.judged)}"


def _pair(path: str, base_trials: EvalTrials, candidate_trials: EvalTrials) -> EvalPair:
    base, candidate = tuple(base_trials.judged), tuple(candidate_trials.judged)
    category = candidate_trials.category or base_trials.category
    return EvalPair(eval=path, category=category, base=base, candidate=candidate, change=_change(base, candidate))


def _change(base: tuple[Trial, ...], candidate: tuple[Trial, ...]) -> EvalChange:
    base_passed, candidate_passed = (sum(trial.passed for trial in side) for side in (base, candidate))
    # The sides can have different numbers of trials. Cross-multiplication compares their rates without rounding.
    step = candidate_passed * len(base) - base_passed * len(candidate)
    if step:
        return "fixed" if step > 0 else "regressed"
    return "both-failed" if not base_passed else "both-passed" if base_passed == len(base) else "unsteady"


def unnamed_evals(runs: Sequence[RunEvals], names: int) -> int:
    """Return the number of passed evals that no run lists.

    The number is 0 unless every run lists only its failures and all runs seem to belong to one suite. `names` is the
    number of evals that at least one run lists.
    """
    if any(
        run_evals.names_all or run_evals.run.evals is not None or not same_suite(runs[0], run_evals)
        for run_evals in runs
    ):
        return 0
    # An eval counts only if it completed in every run, so the run with the fewest completed evals is the limit.
    completed = min(run_evals.run.total - run_evals.run.incomplete for run_evals in runs)
    return max(0, completed - names)


def build_side(
    side: ComparedRuns, other: ComparedRuns, trials: Sequence[tuple[Trial, ...]], unnamed: int = 0
) -> ComparisonSide:
    """Describe one side. The side's name includes its run if the other side has the same model."""
    run = side[0].run
    name = "/".join(model_folder(run.provider, run.model))
    same_model = any(name == "/".join(model_folder(run_evals.run.provider, run_evals.run.model)) for run_evals in other)
    return ComparisonSide(
        name=f"{name} ({_runs_text(side)})" if same_model else name,
        provider=run.provider,
        model=run.model,
        experiments=tuple(dict.fromkeys(run_evals.run.experiment for run_evals in side)),
        runs=tuple(run_evals.run.id for run_evals in side),
        unexplained=tuple(
            run_id_prefix(run_evals.run.id) for run_evals in side if run_evals.run.failures and not run_evals.findings
        ),
        passed=sum(trial.passed for eval_trials in trials for trial in eval_trials) + unnamed * len(side),
        trials=sum(map(len, trials)) + unnamed * len(side),
        rate=mean_pass_rate(trials, unnamed) if trials or unnamed else None,
    )


def _runs_text(side: ComparedRuns) -> str:
    return run_id_prefix(side[0].run.id) if len(side) == 1 else f"{len(side)} runs"


def _of_one_experiment(runs: ComparedRuns) -> bool:
    return all(same_experiment(runs[0].run.experiment, run_evals.run.experiment) for run_evals in runs)


def _comparison_notes(base: ComparedRuns, candidate: ComparedRuns) -> Iterator[str]:
    experiments = [sorted({run_evals.run.experiment for run_evals in side}) for side in (base, candidate)]
    if not _of_one_experiment([*base, *candidate]):
        names = " and ".join(", ".join(side_experiments) for side_experiments in experiments)
        yield f"The experiments differ ({names}): the change may come from the experiment rather than the model."
    for name, side in (("base", base), ("candidate", candidate)):
        run = side[0].run
        if run.provider == HARBOR and (kind := REFERENCE_AGENTS.get(run.model)):
            yield f"The {name} is not a model: `{run.model}` submits the {kind} to every task."
        partial_runs = [run_evals.run for run_evals in side if not run_evals.names_all]
        if partial_runs:
            incomplete = sum(run.incomplete for run in partial_runs)
            suffix = f" or are among the {incomplete} that never completed" if incomplete else ""
            yield f"The source of the {name} lists only failed evals; the others passed{suffix}."
        for run in (run_evals.run for run_evals in side if run_evals.run.status in STATES):
            yield f"Run {run_id_prefix(run.id)} of the {name} {STATES[run.status]}."


def compare_within(side: Sequence[RunEvals]) -> WithinRunComparison:
    """Compare each failed trial of one side with a passed trial of the same eval.

    Evals that always passed are omitted.
    """
    pairs, never_passed, judged = [], [], []
    for path, eval_trials in sorted(trials_by_eval(side, side).items()):
        judged += [tuple(eval_trials.judged)] if eval_trials.judged else []
        passed = next((trial for trial in eval_trials.judged if trial.passed), None)
        failed = [trial for trial in eval_trials.judged if not trial.passed]
        never_passed += [path] if failed and passed is None else []
        for trial in failed if passed else ():
            pairs.append(
                EvalPair(
                    eval=path, category=eval_trials.category, base=(passed,), candidate=(trial,), change="regressed"
                )
            )
    return WithinRunComparison(side=build_side(side, (), judged), pairs=tuple(pairs), without=tuple(never_passed))


Cell = tuple[int, int] | None


def build_matrix(sides: Sequence[Sequence[RunEvals]]) -> Matrix:
    """Build the matrix of evals (rows) by sides (columns). Evals that no run lists are counted but have no row."""
    runs = [run_evals for side in sides for run_evals in side]
    names = named_evals(runs)
    unnamed = unnamed_evals(runs, len(names))
    trials_by_side = [trials_by_eval(side, runs) for side in sides]
    rows = tuple(
        MatrixRow(eval=path, cells=tuple(_cell(trials.get(path)) for trials in trials_by_side))
        for path in sorted(names)
    )
    columns = tuple(_column(side, [row.cells[n] for row in rows], sides, unnamed) for n, side in enumerate(sides))
    changed = tuple(path for path in sorted(names) if _changed(path, trials_by_side))
    return Matrix(
        columns=columns, rows=rows, unnamed=unnamed, changed=changed, notes=_notes(sides, len(names) + unnamed)
    )


def _cell(trials: EvalTrials | None) -> Cell:
    """Return the number of passed trials and the number of judged trials; None if no trial was judged."""
    judged = trials.judged if trials else []
    return (sum(trial.passed for trial in judged), len(judged)) if judged else None


def _column(
    side: Sequence[RunEvals], cells: Sequence[Cell], sides: Sequence[Sequence[RunEvals]], unnamed: int
) -> MatrixColumn:
    judged = [cell for cell in cells if cell] + [(len(side), len(side))] * unnamed
    return MatrixColumn(
        name=_name(side, sides),
        runs=tuple(run_evals.run.id for run_evals in side),
        passed=sum(passed for passed, _ in judged),
        trials=sum(trials for _, trials in judged),
        always=sum(passed == trials for passed, trials in judged),
        sometimes=sum(0 < passed < trials for passed, trials in judged),
        never=sum(not passed for passed, _ in judged),
    )


def _name(side: Sequence[RunEvals], sides: Sequence[Sequence[RunEvals]]) -> str:
    """Return `provider/model`, followed by the run id if another column has the same model."""
    names = ["/".join(model_folder(column[0].run.provider, column[0].run.model)) for column in sides]
    name = "/".join(model_folder(side[0].run.provider, side[0].run.model))
    return f"{name} ({run_id_prefix(side[0].run.id)})" if names.count(name) > 1 else name


def _changed(path: str, trials_by_side: Sequence[Mapping[str, EvalTrials]]) -> bool:
    eval_trials = [side_trials[path] for side_trials in trials_by_side if path in side_trials]
    return any(
        len(set().union(*versions)) > 1
        for versions in ([t.tasks for t in eval_trials], [t.graders for t in eval_trials])
    )


def _notes(sides: Sequence[Sequence[RunEvals]], counted: int) -> tuple[str, ...]:
    """Return the notes of a matrix. `counted` is the number of evals in the matrix, including those without a row."""
    runs = [run_evals.run for side in sides for run_evals in side]
    experiments = sorted({run.experiment for run in runs})
    notes = []
    if not all(same_experiment(runs[0].experiment, run.experiment) for run in runs):
        notes.append(f"The experiments differ ({', '.join(experiments)}).")
    partial_runs = [run_evals.run for side in sides for run_evals in side if not run_evals.names_all]
    if partial_runs:
        run_names = ", ".join(run_id_prefix(run.id) for run in partial_runs)
        notes.append(f"{run_names} list only failures: evals that only other runs list count as passed in them.")
    if undercounted := [run_id_prefix(run.id) for run in partial_runs if run.total - run.incomplete > counted]:
        notes.append(
            f"Evals that no run lists are not counted, so {', '.join(undercounted)} passed more often than shown here."
        )
    return tuple(notes)
