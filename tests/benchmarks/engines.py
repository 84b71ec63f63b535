"""Measure the cost of judging and importing with workers, for agent/docs/scaling.md.

    python tests/benchmarks/engines.py [CASES]     default: 400

Each engine processes empty work items, and judges with the rules and with a model on loopback that answers after a
second. Then files of 2,000 evals each are imported, by this process and by workers, into SQLite and, if
EVALSCRIBE_TEST_POSTGRES_URL is set, into Postgres.
"""

import asyncio
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[1]), str(Path(__file__).parent)])

from benchmarks import import_speed
from evalscribe.collections.import_all import FilePiece, Importer
from evalscribe.judging.builder import CasePiece, JudgeRecipe, WorkerJudge
from evalscribe.llm.budget import Budget, serve_budget
from evalscribe.model.protocols import AskParent, Engine, LostWork, Worker
from evalscribe.prompts.templates import Prompts
from evalscribe.remote.engine import LocalEngine, RayEngine
from evalscribe.settings import Options, load
from evalscribe.sources.address import RunOverrides
from evalscribe.store.collections import open_collections
from support.classifier_failure import make_packed_failure as a_case

MODEL = "anthropic/claude-opus-5-5"
FILES, EVALS = 6, 2_000
Make = Callable[[int], Engine]


class Nothing:
    """A factory of workers that return each work item unchanged."""

    @asynccontextmanager
    async def __call__(self, ask: AskParent) -> AsyncIterator[Worker[int, int]]:
        async def same(piece: int) -> int:
            return piece

        yield same


async def all_of(engine: Engine, pool_of: Callable[[], object], pieces: Iterator[object], concurrency: int) -> int:
    """Process all work items, at most `concurrency` at once. Return their number."""
    done = 0
    async with pool_of() as pool:  # type: ignore[attr-defined]

        async def worker() -> None:
            nonlocal done
            for piece in pieces:
                assert not isinstance(await pool(piece), LostWork)
                done += 1

        await pool(next(pieces))
        with measured(f"{engine.name}, {concurrency} at once", lambda: done):
            await asyncio.gather(*(worker() for _ in range(concurrency)))
    await engine.close()
    return done


@contextmanager
def measured(what: str, count: Callable[[], int]) -> Iterator[None]:
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    each = 1000 * cpu / max(1, count())
    print(f"  {what}: {count()} in {wall:.2f} s, {count() / wall:.0f}/s, {each:.2f} ms of this process's CPU each")


@contextmanager
def answering() -> Iterator[str]:
    """Yield the address of a provider in its own process, so that its CPU time is not measured."""
    script = "from messages_server import *\nwith MessagesServer(latency_s=1.0) as s: print(s.url, flush=True); input()"
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
    )
    assert process.stdout is not None
    yield process.stdout.readline().strip()
    process.kill()
    process.wait()


def judged(make: Make, kind: str, cases: int, concurrency: int) -> None:
    os.chdir(tempfile.mkdtemp())
    settings = load(Options(budget=1_000_000), Path.cwd(), os.environ)
    recipe, budget = JudgeRecipe.of(settings, Prompts()), Budget(usd=1_000_000)
    from evalscribe.judging.rubrics import default_rubric

    worker_judge = (
        WorkerJudge(kind="rules")
        if kind == "rules"
        else WorkerJudge(kind="judge", model=MODEL, rubric=default_rubric())
    )
    piece = CasePiece(worker_judge=worker_judge, case=a_case())
    engine = make(concurrency)
    pool = partial(engine.pool, recipe, partial(serve_budget, budget))
    asyncio.run(all_of(engine, pool, iter([piece] * cases), concurrency))


async def imported(make: Make, place: Path | str, files: list[Path]) -> None:
    collection = import_speed.COLLECTION
    with closing(open_collections(place)) as store:
        store.add_collection(collection)
    engine = make(4)
    pieces = iter([FilePiece(path=file, overrides=RunOverrides(), collection=collection) for file in files])
    await all_of(engine, partial(engine.pool, Importer(place)), pieces, 4)


def main(cases: int) -> None:
    engines: list[Make] = [LocalEngine, RayEngine]
    begun = time.perf_counter()
    engine = RayEngine(4)
    asyncio.run(all_of(engine, partial(engine.pool, Nothing()), iter(range(1)), 1))
    print(f"Ray started, one worker made, and ended: {time.perf_counter() - begun:.1f} s")
    print("nothing")
    for make in engines:
        engine = make(4)
        asyncio.run(all_of(engine, partial(engine.pool, Nothing()), iter(range(5 * cases)), 4))
    print("rules")
    for make in engines:
        judged(make, "rules", cases, 4)
    print("a model that answers after a second")
    with answering() as url:
        os.environ |= {"ANTHROPIC_API_KEY": "sk-ant-test-0000", "ANTHROPIC_BASE_URL": url}
        for make in engines:
            judged(make, "judge", cases, 64)
    folder = Path(tempfile.mkdtemp())
    files = [folder / f"{n}.jsonl" for n in range(FILES)]
    for n, file in enumerate(files):
        import_speed.write(file, EVALS)
        file.write_text(file.read_text().replace("bench-run", f"bench-run-{n}"))
    places: list[Path | str] = [folder / "store"]
    if named := os.environ.get("EVALSCRIBE_TEST_POSTGRES_URL"):
        places.append(named)
    for place in places:
        print(f"files of {EVALS} evals into {'SQLite' if isinstance(place, Path) else 'Postgres'}; the first uncounted")
        for make in engines:
            asyncio.run(imported(make, place / make.__name__ if isinstance(place, Path) else place, files))
    print(f"peak of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400)
