"""One side compared with itself: each failed try beside one of the same eval that passed."""

from collections.abc import Sequence

from evalscribe.compare.sides import side_of
from evalscribe.compare.tries import Played, tries
from evalscribe.model.comparison import EvalPair, WithinRunComparison


def within(side: Sequence[Played]) -> WithinRunComparison:
    """Evals that always pass appear nowhere."""
    pairs, without, tried = [], [], []
    for path, mine in sorted(tries(side, side).items()):
        tried += [tuple(mine.judged)] if mine.judged else []
        passed = next((trial for trial in mine.judged if trial.passed), None)
        failed = [trial for trial in mine.judged if not trial.passed]
        without += [path] if failed and passed is None else []
        for trial in failed if passed else ():
            pairs.append(
                EvalPair(eval=path, category=mine.category, base=(passed,), candidate=(trial,), change="regressed")
            )
    return WithinRunComparison(side=side_of(side, (), tried), pairs=tuple(pairs), without=tuple(without))
