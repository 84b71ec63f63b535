"""Two sides compared: pairs of evals, what is left out and why, and the figures over the rest."""

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from evalscribe.compare.figures import by_eval, categories, passes, rate, scores
from evalscribe.compare.tries import Played, Tries, named, same_suite, tries
from evalscribe.ids import model_folder, run_id_prefix, same_experiment
from evalscribe.model.comparison import (
    Comparison,
    ComparisonSide,
    EvalChange,
    EvalPair,
    ExcludedEval,
    ExclusionReason,
    Trial,
)

Sided = Sequence[Played]
"""The runs of one side, all of one model."""
STATES = {
    "failed": "did not complete",
    "running": "is still running",
    "importing": "is incomplete: its import has not ended",
}
"""Notes on runs that are not complete, by status."""


def compared(base: Sided, candidate: Sided) -> Comparison:
    """What changed from `base` to `candidate`; each has at least one run."""
    both = [*base, *candidate]
    pairs, apart = _matched(tries(base, both), tries(candidate, both))
    unnamed = unnamed_evals(both, len(named(both)))
    return Comparison(
        base=side_of(base, candidate, [pair.base for pair in pairs], unnamed),
        candidate=side_of(candidate, base, [pair.candidate for pair in pairs], unnamed),
        pairs=pairs,
        unnamed=unnamed,
        apart=apart,
        passes=passes(pairs, unnamed),
        by_eval=by_eval(pairs),
        scores=scores(pairs),
        categories=categories(pairs, all_named=not unnamed),
        notes=tuple(_notes(base, candidate)),
    )


def _matched(
    base: Mapping[str, Tries], candidate: Mapping[str, Tries]
) -> tuple[tuple[EvalPair, ...], tuple[ExcludedEval, ...]]:
    pairs, apart = [], []
    for path in sorted(base.keys() | candidate.keys()):
        before, after = base.get(path), candidate.get(path)
        if before is None or after is None:
            side = "base" if after is None else "candidate"
            apart.append(
                ExcludedEval(eval=path, reason=cast(ExclusionReason, f"only-{side}"), detail=f"only the {side} has it")
            )
        elif differs := _differs(before, after):
            apart.append(ExcludedEval(eval=path, reason="changed", detail=f"{differs} changed in between"))
        elif not (before.judged and after.judged):
            apart.append(ExcludedEval(eval=path, reason="not-judged", detail="; ".join(_not_judged(before, after))))
        else:
            pairs.append(_pair(path, before, after))
    return tuple(pairs), tuple(apart)


def _differs(before: Tries, after: Tries) -> str:
    """Which of task and grader is not the same everywhere, as far as that is known."""
    task, grader = len(before.tasks | after.tasks) > 1, len(before.graders | after.graders) > 1
    return " and ".join(name for name, is_so in (("its task", task), ("its grader", grader)) if is_so)


def _not_judged(before: Tries, after: Tries) -> Iterator[str]:
    for name, side in (("base", before), ("candidate", after)):
        if not side.judged:
            yield f"{name}: {side.unjudged[0]}"


def _pair(path: str, before: Tries, after: Tries) -> EvalPair:
    base, candidate = tuple(before.judged), tuple(after.judged)
    category = after.category or before.category
    return EvalPair(eval=path, category=category, base=base, candidate=candidate, change=_change(base, candidate))


def _change(base: tuple[Trial, ...], candidate: tuple[Trial, ...]) -> EvalChange:
    before, after = (sum(trial.passed for trial in side) for side in (base, candidate))
    step = after * len(base) - before * len(candidate)
    if step:
        return "fixed" if step > 0 else "regressed"
    return "both-failed" if not before else "both-passed" if before == len(base) else "unsteady"


def unnamed_evals(runs: Sequence[Played], names: int) -> int:
    """How many evals nobody names, which is so only where every run names just its failures; all passed them."""
    if any(played.names_all or played.run.evals is not None or not same_suite(runs[0], played) for played in runs):
        return 0
    tried = min(played.run.total - played.run.incomplete for played in runs)
    return max(0, tried - names)


def side_of(side: Sided, other: Sided, trials: Sequence[tuple[Trial, ...]], unnamed: int = 0) -> ComparisonSide:
    """What one side is, its run in the name where `other` is the same model."""
    run = side[0].run
    name = "/".join(model_folder(run.provider, run.model))
    same = any(name == "/".join(model_folder(played.run.provider, played.run.model)) for played in other)
    return ComparisonSide(
        name=f"{name} ({_runs(side)})" if same else name,
        provider=run.provider,
        model=run.model,
        experiments=tuple(dict.fromkeys(played.run.experiment for played in side)),
        runs=tuple(played.run.id for played in side),
        passed=sum(trial.passed for tries in trials for trial in tries) + unnamed * len(side),
        trials=sum(map(len, trials)) + unnamed * len(side),
        rate=rate(trials, unnamed) if trials or unnamed else None,
    )


def _runs(side: Sided) -> str:
    return run_id_prefix(side[0].run.id) if len(side) == 1 else f"{len(side)} runs"


def _notes(base: Sided, candidate: Sided) -> Iterator[str]:
    experiments = [sorted({played.run.experiment for played in side}) for side in (base, candidate)]
    first = base[0].run.experiment
    if not all(same_experiment(first, played.run.experiment) for played in (*base, *candidate)):
        told = " and ".join(", ".join(names) for names in experiments)
        yield f"The experiments differ ({told}): what changed may be the experiment, not the model."
    for name, side in (("base", base), ("candidate", candidate)):
        partly = [played.run for played in side if not played.names_all]
        if partly:
            never = sum(run.incomplete for run in partly)
            but = f", or are among the {never} that never completed" if never else ""
            yield f"The {name}'s source names only what failed; its other evals passed{but}."
        for run in (played.run for played in side if played.run.status in STATES):
            yield f"Run {run_id_prefix(run.id)} of the {name} {STATES[run.status]}."
