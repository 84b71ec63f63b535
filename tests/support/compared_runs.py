"""Build runs for tests of comparisons."""

from collections.abc import Mapping, Sequence
from typing import Any

from evalscribe.collections.compare import RunEvals
from evalscribe.model.record import GradedEval
from evalscribe.model.run import Eval, EvalStatus, Run

STATUS: dict[str, EvalStatus] = {"p": "passed", "f": "failed", "e": "error", "i": "incomplete"}


def make_run(run_id: str, outcomes: Mapping[str, str], model: str = "m", **known: Any) -> RunEvals:
    """Build a run with the given outcomes.

    `outcomes` has one letter for each trial of an eval, such as `{"cat/one": "pf"}`. `known` has fields of `RunEvals`;
    its key `graded` has fields of `GradedEval` by path.
    """
    extra = known.pop("graded", {})
    graded = [
        GradedEval(
            run_id=run_id,
            eval=_eval(f"{run_id}-{path}-{n}", path, n, len(tries), STATUS[letter]),
            **extra.get(path, {}),
        )
        for path, tries in outcomes.items()
        for n, letter in enumerate(tries, 1)
    ]
    run = Run(id=run_id, provider="p", model=model, total=len(graded), experiment=known.pop("experiment", "default"))
    return RunEvals(run, tuple(graded), **known)


def make_run_of_failures(
    run_id: str, failed: Sequence[str], passed: int, incomplete: int = 0, **known: Any
) -> RunEvals:
    """Build a run whose source lists only failures."""
    graded = tuple(
        GradedEval(run_id=run_id, eval=_eval(f"{run_id}-{path}", path, 1, 1, "failed"), **known.get(path, {}))
        for path in failed
    )
    total = passed + len(failed) + incomplete
    return RunEvals(Run(id=run_id, provider="p", model="m", passed=passed, failed=len(failed), total=total), graded)


def _eval(id: str, path: str, trial: int, trials: int, status: EvalStatus) -> Eval:
    category, _, name = path.rpartition("/")
    reason = None if status == "passed" else f"{name} is wrong"
    step = "tests" if status == "failed" else None
    return Eval(
        id=id, category=category, name=name, trial=trial, trials=trials, status=status, failed_step=step, reason=reason
    )
