"""Both engines keep one contract."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from evalscribe.errors import DataError, RubricError
from evalscribe.model.protocols import AskParent, Engine, LostWork
from evalscribe.remote.engine import LocalEngine
from support.engine_tasks import Doubler
from support.requirements import skip_or_fail
from support.waiting import until

Make = Callable[[], Engine]


@pytest.fixture(params=["local", "ray"])
def make(request: pytest.FixtureRequest) -> Make:
    if request.param == "local":
        return lambda: LocalEngine(concurrency=3)
    if find_spec("ray") is None:
        skip_or_fail("ray")
    request.getfixturevalue("cluster")
    from evalscribe.remote.engine import RayEngine

    return lambda: RayEngine(concurrency=3)


async def test_it_does_all_pieces_some_at_once(make: Make, tmp_path: Path) -> None:
    engine = make()
    taken: list[int] = []

    def work() -> object:
        for number in range(10):
            taken.append(number)
            yield number

    done = {}
    async for piece, result in engine.map(Doubler(tmp_path), work()):  # type: ignore[arg-type]
        done[piece] = result
        assert len(taken) - len(done) <= 3, "the next is taken only when there is a free lane"
    assert done == {number: 2 * number for number in range(10)}


@pytest.mark.parametrize(("number", "kind", "words"), [(40, DataError, "forty"), (41, RubricError, "rubric.yaml:3")])
async def test_what_a_worker_raises_is_raised_here_as_itself(
    make: Make, tmp_path: Path, number: int, kind: type[Exception], words: str
) -> None:
    engine = make()
    async with engine.pool(Doubler(tmp_path)) as pool:
        with pytest.raises(kind, match=words) as caught:
            await pool(number)
        assert type(caught.value) is kind
        assert await pool(4) == 8


async def test_questions_are_answered_where_the_work_is_handed_out(make: Make, tmp_path: Path) -> None:
    open_clerks: list[str] = []

    @asynccontextmanager
    async def question_handler() -> AsyncIterator[AskParent]:
        async def ask(question: object) -> object:
            await asyncio.sleep(0.01)
            return f"{question}" == "100" and 7

        open_clerks.append("open")
        try:
            yield ask
        finally:
            open_clerks.append("closed")

    async with make().pool(Doubler(tmp_path), question_handler) as pool:
        assert await pool(100) == 7
    assert open_clerks == ["open", "closed"]


async def test_a_cancelled_piece_is_cancelled_where_it_is_done(make: Make, tmp_path: Path) -> None:
    worker = Doubler(tmp_path)
    async with make().pool(worker) as pool:
        piece = asyncio.ensure_future(pool(200))
        await _noted(worker, "began")
        piece.cancel()
        with pytest.raises(asyncio.CancelledError):
            await piece
        await _noted(worker, "cancelled")


async def _noted(worker: Doubler, what: str) -> None:
    await until(lambda: worker.times(what, 200), what)


async def test_what_nobody_can_unpickle_is_told_in_words(cluster: Make, tmp_path: Path) -> None:
    async with cluster().pool(Doubler(tmp_path)) as pool:
        with pytest.raises(RuntimeError, match="_Odd: odd 1"):
            await pool(42)


async def test_a_dead_worker_is_replaced_and_its_piece_tried_again(cluster: Make, tmp_path: Path) -> None:
    worker = Doubler(tmp_path)
    done = {piece: result async for piece, result in cluster().map(worker, range(20, 32))}
    assert done == {number: 2 * number for number in range(20, 32)}
    assert worker.times("began", 26) == 2


async def test_a_piece_that_kills_every_worker_is_lost(cluster: Make, tmp_path: Path) -> None:
    worker = Doubler(tmp_path)
    async with cluster().pool(worker) as pool:
        lost = await pool(13)
        assert isinstance(lost, LostWork)
        assert lost.reason.startswith("its worker died 3 times")
        assert worker.times("began", 13) == 3
        assert await pool(4) == 8
