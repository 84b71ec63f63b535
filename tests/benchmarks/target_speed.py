"""Measure the cost of a trial for targets that do nothing: a function, a coroutine, a command and an address.

    python tests/benchmarks/target_speed.py [TRIES]          default: 3,000; a tenth of them for commands

Prints CPU milliseconds per trial, for this process and for its child processes that have ended.
"""

import asyncio
import resource
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.slow_server import slow_server
from evalscribe.experiments.http_target import HttpTarget
from evalscribe.experiments.python_host import PythonHost, PythonTarget
from evalscribe.experiments.targets import CommandTarget
from evalscribe.model.target import Target, TargetCall, TargetReply

LANES = 32
SOURCE = "def plain(input): return input\nasync def awaited(input): return input\n"


async def measured(name: str, target: Target, tries: int) -> None:
    await target.answer(call(0))
    numbers = iter(range(tries))
    ended, began, cpu = children(), time.perf_counter(), time.process_time()

    async def lane() -> None:
        for number in numbers:
            assert isinstance(await target.answer(call(number)), TargetReply)

    await asyncio.gather(*(lane() for _ in range(LANES)))
    wall, own = time.perf_counter() - began, time.process_time() - cpu
    await target.close()
    started = children() - ended
    print(f"{name:<8} {tries:>6,} tries: wall {wall / tries * 1e3:6.3f}, ", end="")
    print(f"own {own / tries * 1e3:6.3f}, started {started / tries * 1e3:6.3f}")


def children() -> float:
    """Return the CPU seconds of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def call(number: int) -> TargetCall:
    return TargetCall(run_id="r", item_key=f"k{number}", repetition=1, input={"text": "x" * 500})


async def main(url: str, tries: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "user.py").write_text(SOURCE)
        for name in ("plain", "awaited"):
            await measured(name, PythonTarget(f"user:{name}", PythonHost(Path(folder), LANES)), tries)
        await measured("command", CommandTarget("cat", Path(folder)), tries // 10)
    await measured("address", HttpTarget(url, {}, LANES), tries)


if __name__ == "__main__":
    with slow_server(0) as address:
        asyncio.run(main(address, int(sys.argv[1]) if len(sys.argv) > 1 else 3000))
