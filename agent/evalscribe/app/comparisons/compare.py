"""Compare two sides, several, or one with itself; and write the page."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

from evalscribe.app.comparisons.page import put_comparison
from evalscribe.app.comparisons.sides import SideReader, side
from evalscribe.app.comparisons.why import CompareJudges, by_judge, by_rules, estimated, opened_judges
from evalscribe.app.judging.subjects import Finder, Reached
from evalscribe.app.placed import Put
from evalscribe.app.watcher import Watcher
from evalscribe.collections import compare as compare_matrix
from evalscribe.collections import compare as compare_sides
from evalscribe.collections import compare as within
from evalscribe.collections import divergence
from evalscribe.collections.compare import RunEvals
from evalscribe.collections.comparison_page import comparison_page, matrix_page, within_page
from evalscribe.errors import UsageError
from evalscribe.ids import Frozen
from evalscribe.model.comparison import Behaviour, Comparison, EvalPair, Matrix, WithinRunComparison
from evalscribe.model.protocols import Estimate
from evalscribe.text import pluralise
from evalscribe.workspace import Workspace


class Compared(Frozen):
    """What came of it."""

    found: Comparison | WithinRunComparison | Matrix
    text: str
    """The page."""
    put: Put | None = None
    """None where nothing was to be written."""
    estimate: Estimate | None = None
    """What asking takes at most; None where nobody would be asked."""


async def compare(
    workspace: Workspace,
    names: Sequence[str],
    watcher: Watcher,
    *,
    collection: str | None = None,
    dry_run: bool = False,
    writes: bool = True,
) -> Compared:
    """Compare two sides; the failed tries of one side with passed ones; or several sides as a matrix.

    Args:
        workspace: Where answers and the page go; needs `async with`.
        names: Runs by id or its beginning, files to import, addresses, or `provider/model` of the collection.
        watcher: Hears how it goes.
        collection: By name or id; None for the configured one, or the only one.
        dry_run: Only estimate: nothing is asked and nothing written.
        writes: Write the page into the reports.

    Raises:
        EvalscribeError: It concerns all of it; what was judged by then is stored.
    """
    async with AsyncExitStack() as opened:
        judges = opened_judges(workspace, watcher) if len(names) < 3 else None
        finder = Finder(workspace.store.analyses, Reached(workspace, opened), watcher)
        reader = SideReader(workspace, finder, watcher, collection)
        sides = [await side(reader, name) for name in names]
        _not_the_same(sides, names)
        if len(sides) > 2:
            matrix = compare_matrix.build_matrix(sides)
            of = [column.runs for column in matrix.columns]
            done = Compared(found=matrix, text=matrix_page(matrix))
        elif len(sides) == 2:
            two = compare_sides.compare_sides(*sides)
            asked = await _explained(workspace, judges, two.pairs, watcher, dry_run=dry_run)
            two = two.model_copy(update=asked.update)
            of = [two.base.runs, two.candidate.runs]
            done = Compared(found=two, text=comparison_page(two), estimate=asked.estimate)
        else:
            one = within.compare_within(sides[0])
            asked = await _explained(workspace, judges, one.pairs, watcher, dry_run=dry_run)
            one = one.model_copy(update=asked.update)
            of = [one.side.runs]
            done = Compared(found=one, text=within_page(one), estimate=asked.estimate)
    if dry_run or not writes:
        return done
    beside = sides[1] if len(sides) == 2 else sides[0]  # the candidate's model, else the first one's
    put = put_comparison(workspace.reports, beside[0].run, of, done.text)
    return done.model_copy(update={"put": put})


class _Asked(Frozen):
    pairs: tuple[EvalPair, ...]
    behaviours: tuple[Behaviour, ...]
    judge: str | None = None
    estimate: Estimate | None = None

    @property
    def update(self) -> dict[str, Any]:
        return {"pairs": self.pairs, "behaviours": self.behaviours, "judge": self.judge}


async def _explained(
    workspace: Workspace,
    judges: CompareJudges | None,
    pairs: tuple[EvalPair, ...],
    watcher: Watcher,
    *,
    dry_run: bool,
) -> _Asked:
    """What rules say of what got worse, and then what a judge says where there is one."""
    pairs = by_rules(workspace, pairs)
    worse = sum(pair.change == "regressed" for pair in pairs)
    if judges is None or not worse:
        return _Asked(pairs=pairs, behaviours=divergence.shared_behaviours(pairs))
    estimate = estimated(workspace, judges, pairs)
    judge = judges.regression
    watcher.say(f"{judge.id} for {pluralise(worse, 'regressed eval')}: {estimate.summary}, less what is known")
    if dry_run:
        return _Asked(pairs=pairs, behaviours=divergence.shared_behaviours(pairs), estimate=estimate)
    told = await by_judge(workspace, judges, pairs, watcher)
    both = _joined(told.common, divergence.shared_behaviours(told.apart))
    return _Asked(pairs=told.pairs, behaviours=both, judge=judge.id, estimate=estimate)


def _joined(common: Sequence[Behaviour], rest: Sequence[Behaviour]) -> tuple[Behaviour, ...]:
    """What stayed apart goes to the group that is called the same."""
    by_name = {one.name: one for one in rest}
    joined = [
        one.model_copy(update={"evals": (*one.evals, *alike.evals)}) if (alike := by_name.pop(one.name, None)) else one
        for one in common
    ]
    return (*joined, *by_name.values())


def _not_the_same(sides: Sequence[Sequence[RunEvals]], names: Sequence[str]) -> None:
    seen: dict[str, str] = {}
    for played, name in zip(sides, names, strict=True):
        for one in played:
            if one.run.id in seen:
                raise UsageError(
                    f"{seen[one.run.id]} and {name} have run {one.run.id} in common; "
                    "for failed trials beside passed ones of one run use --within"
                )
        seen.update((one.run.id, name) for one in played)
