"""Measure the cost of concurrent workers: `python tests/benchmarks/workers.py [GROUPS]` (default: 10,000).

Prints CPU seconds, peak memory, the size of the checkpoint, and the maximum number of concurrent questions, for a judge
that answers at once. It is measured with a store in memory, and with the real store, cold and warm. Then prints the
time from the first question to the last answer for 40 questions of half a second each, with four workers.
"""

import asyncio
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from evalscribe.judging.verdicts import JudgeQueue
from evalscribe.store.analyses import AnalysisStore, open_store
from support.analysis_graph import (
    MemoryStore,
    ScriptedJudge,
    judge_groups,
    make_failures,
    make_groups,
    make_run,
    slow_script,
)

GROUPS = 10_000


@contextmanager
def measured(name: str) -> Iterator[dict[str, Any]]:
    figures: dict[str, Any] = {}
    wall, cpu = time.perf_counter(), time.process_time()
    yield figures
    figures |= {"cpu_s": time.process_time() - cpu, "wall_s": time.perf_counter() - wall}
    figures["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{name:<34}", *(f"{key} {value:8.2f}" for key, value in figures.items()))


def size(database: Path) -> int:
    """Return the size of a database and its journals in bytes."""
    return sum(path.stat().st_size for path in database.parent.glob(f"{database.name}*"))


async def scale(name: str, count: int, store: AnalysisStore, folder: Path) -> None:
    run, judge = make_run(count), ScriptedJudge(slow_script(0))
    queue = JudgeQueue(run=run, groups=make_groups(run), case_of=make_failures(run), judge=judge, store=store)
    checkpoints = folder / f"{name.replace(' ', '-')}.db"
    with measured(f"{count} groups, {name}") as figures:
        outcome = await judge_groups(queue, checkpoints)
        figures |= {"at_once": judge.peak, "asked": sum(judge.asked.values())}
        figures["checkpoint_kb"] = size(checkpoints) / 1024
    assert outcome.counts.total == count


async def latency(folder: Path) -> None:
    run, judge = make_run(40), ScriptedJudge(slow_script(0.5))
    queue = JudgeQueue(run=run, groups=make_groups(run), case_of=make_failures(run), judge=judge, store=MemoryStore())
    with measured("40 questions of 0.5 s, 4 lanes") as figures:
        await judge_groups(queue, folder / "latency.db")
        figures["at_once"] = judge.peak


async def main(count: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        await scale("warm up", 10, MemoryStore(), folder)
        await scale("store in memory", count, MemoryStore(), folder)
        store = open_store(folder / ".evalscribe")
        await scale("real store cold", count, store, folder)
        await scale("real store again", count, store, folder)
        store.close()
        await latency(folder)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else GROUPS))
