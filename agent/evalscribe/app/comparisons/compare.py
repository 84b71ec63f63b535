"""Compare two sides, several, or one with itself; and write the page."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from evalscribe import compare as stage
from evalscribe.app.comparisons.page import put_comparison
from evalscribe.app.comparisons.sides import Rooms, side
from evalscribe.app.comparisons.why import Judges, by_judge, by_rules, estimated
from evalscribe.app.placed import Put
from evalscribe.app.watcher import Watcher
from evalscribe.chat import Usage
from evalscribe.compare import Played
from evalscribe.comparison import Behaviour, Comparison, Matrix, Pair, Within
from evalscribe.errors import UsageError
from evalscribe.ids import Frozen
from evalscribe.ports import Estimate
from evalscribe.prose import counted
from evalscribe.report_markdown.comparison import comparison_page, matrix_page, within_page
from evalscribe.run import Run


@dataclass(frozen=True)
class CompareDesk:
    """What comparing works with."""

    rooms: Rooms
    judges: Judges | None = None
    """None: the rules say what they can."""
    spent: Callable[[], Mapping[str, Usage]] = dict


class Wish(Frozen):
    dry_run: bool = False
    """Nothing is asked and nothing written."""
    writes: bool = True


class Compared(Frozen):
    """What came of it."""

    found: Comparison | Within | Matrix
    text: str
    """The page."""
    put: Put | None = None
    """None where nothing was to be written."""
    estimate: Estimate | None = None
    """What asking takes at most; None where nobody would be asked."""


async def compare(desk: CompareDesk, names: Sequence[str], wish: Wish, watcher: Watcher) -> Compared:
    """Two sides, by name. Raises `EvalscribeError` for what concerns all of it; what was judged by then is stored."""
    base, candidate = [await side(desk.rooms, name) for name in names]
    _not_the_same([base, candidate], names)
    found = stage.compared(base, candidate)
    asked = await _explained(desk, found.pairs, wish, watcher)
    done = found.model_copy(update={"pairs": asked.pairs, "behaviours": asked.behaviours, "judge": asked.judge})
    of = [found.base.runs, found.candidate.runs]
    return _placed(desk, candidate[0].run, of, done, comparison_page(done), wish, asked.estimate)


async def compare_within(desk: CompareDesk, name: str, wish: Wish, watcher: Watcher) -> Compared:
    """The failed tries of one side, each beside one that passed. Raises as `compare` does."""
    played = await side(desk.rooms, name)
    found = stage.within(played)
    asked = await _explained(desk, found.pairs, wish, watcher)
    done = found.model_copy(update={"pairs": asked.pairs, "behaviours": asked.behaviours, "judge": asked.judge})
    return _placed(desk, played[0].run, [found.side.runs], done, within_page(done), wish, asked.estimate)


async def compare_many(desk: CompareDesk, names: Sequence[str], wish: Wish) -> Compared:
    """A matrix, written beside the reports of the first side's model. Raises as `compare` does."""
    sides = [await side(desk.rooms, name) for name in names]
    _not_the_same(sides, names)
    found = stage.matrix(sides)
    of = [column.runs for column in found.columns]
    return _placed(desk, sides[0][0].run, of, found, matrix_page(found), wish, None)


class _Asked(Frozen):
    pairs: tuple[Pair, ...]
    behaviours: tuple[Behaviour, ...]
    judge: str | None = None
    estimate: Estimate | None = None


async def _explained(desk: CompareDesk, pairs: tuple[Pair, ...], wish: Wish, watcher: Watcher) -> _Asked:
    """What rules say of what got worse, and then what a judge says where there is one."""
    pairs = by_rules(desk.rooms, pairs)
    worse = sum(pair.change == "regressed" for pair in pairs)
    if desk.judges is None or not worse:
        return _Asked(pairs=pairs, behaviours=stage.behaviours(pairs))
    estimate = estimated(desk.rooms, desk.judges, pairs)
    judge = desk.judges.regression
    watcher.say(f"{judge.id} for {counted(worse, 'regressed eval')}: {estimate.summary}, less what is known")
    if wish.dry_run:
        return _Asked(pairs=pairs, behaviours=stage.behaviours(pairs), estimate=estimate)
    told = await by_judge(desk.rooms, desk.judges, pairs, watcher)
    both = _joined(told.common, stage.behaviours(told.apart))
    return _Asked(pairs=told.pairs, behaviours=both, judge=judge.id, estimate=estimate)


def _joined(common: Sequence[Behaviour], rest: Sequence[Behaviour]) -> tuple[Behaviour, ...]:
    """What stayed apart goes to the group that is called the same."""
    by_name = {one.name: one for one in rest}
    joined = [
        one.model_copy(update={"evals": (*one.evals, *alike.evals)}) if (alike := by_name.pop(one.name, None)) else one
        for one in common
    ]
    return (*joined, *by_name.values())


def _placed(
    desk: CompareDesk,
    run: Run,
    of: Sequence[Sequence[str]],
    found: Comparison | Within | Matrix,
    text: str,
    wish: Wish,
    estimate: Estimate | None,
) -> Compared:
    writes = wish.writes and not wish.dry_run
    where = put_comparison(desk.rooms.library, run, of, text) if writes else None
    return Compared(found=found, text=text, put=where, estimate=estimate)


def _not_the_same(sides: Sequence[Sequence[Played]], names: Sequence[str]) -> None:
    seen: dict[str, str] = {}
    for played, name in zip(sides, names, strict=True):
        for one in played:
            if one.run.id in seen:
                raise UsageError(
                    f"{seen[one.run.id]} and {name} have run {one.run.id} in common; "
                    "for failed trials beside passed ones of one run use --within"
                )
        seen.update((one.run.id, name) for one in played)
