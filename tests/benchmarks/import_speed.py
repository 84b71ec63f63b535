"""Measure the cost of importing many evals in evalscribe's own format into a new workspace, including redaction.

    python tests/benchmarks/import_speed.py [EVALS] [PROFILE]     default: 100,000

Each eval has six messages, two tool calls, scores, and a task that a hundred evals share: about 1.5 kB per line. With
PROFILE, the slowest functions are printed. Then the same file is imported again, which must add nothing.
"""

import asyncio
import cProfile
import json
import pstats
import resource
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

from evalscribe.collections.import_all import show_nothing
from evalscribe.collections.importing import FileImport, import_file
from evalscribe.model.rubric import Collection
from evalscribe.sources.address import RunOverrides
from evalscribe.sources.formats import open_records
from evalscribe.store.collections import open_collections
from evalscribe.store.records import open_collection_records

COLLECTION = Collection(id="c", name="c")
TASKS = 1000
WORDS = ("the", "flight", "was", "booked", "for", "two", "people", "and", "then", "changed", "because", "one", "had")


def write(path: Path, evals: int) -> None:
    """Write a file with this number of evals. No two of them are equal."""
    with path.open("w") as file:
        run = {"id": "bench-run", "provider": "example", "model": "model-1", "experiment": "default"}
        file.write(json.dumps({"run": run}) + "\n")
        for n in range(evals):
            file.write(json.dumps(_eval(n)) + "\n")


def imported(file: Path, folder: Path) -> FileImport:
    with closing(open_collection_records(folder)) as archive:
        return asyncio.run(import_file(archive, None, open_records(file, RunOverrides()), COLLECTION, show_nothing))


def _eval(n: int) -> dict[str, object]:
    task, trial = n % TASKS, n // TASKS + 1
    call = {"id": f"call_{n}", "function": "get_user", "arguments": {"user_id": f"anna_{n}", "limit": n % 7}}
    messages = [
        {"role": "system", "content": _text(task, 40)},
        {"role": "user", "content": _text(n, 24)},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": json.dumps({"id": n, "name": "Anna"}), "tool_call_id": f"call_{n}"},
        {"role": "assistant", "content": _text(n + 1, 30)},
        {"role": "user", "content": "thank you, that is all"},
    ]
    return {
        "eval": {
            "id": f"bench-run-{n}",
            "category": f"c{task % 10}",
            "name": f"task-{task}",
            "trial": trial,
            "trials": 100,
            "status": "passed" if n % 3 else "failed",
        },
        "metadata": {"task": f"task-{task}", "scores": {"reward": float(bool(n % 3))}, "agent": {"model_name": "m"}},
        "transcripts": [{"id": f"bench-run-{n}-0", "messages": messages}],
        "documents": [{"role": "task", "path": "task.md", "text": _text(task, 60)}],
    }


def _text(seed: int, words: int) -> str:
    return " ".join(WORDS[(seed * 7 + n * n) % len(WORDS)] + ("" if n % 9 else str(seed)) for n in range(words))


def _measured(file: Path, folder: Path, evals: int, what: str) -> None:
    began, spent = time.perf_counter(), time.process_time()
    done = imported(file, folder)
    seconds, cpu = time.perf_counter() - began, time.process_time() - spent
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{what}: {evals / seconds:,.0f}/s ({seconds:.1f} s, {cpu:.1f} s CPU), peak {peak:.0f} MB, {done.added!r}")


def main(evals: int = 100_000, *, profile: bool = False) -> None:
    with tempfile.TemporaryDirectory() as place:
        file, folder = Path(place) / "evals.jsonl", Path(place) / "store"
        write(file, evals)
        print(f"{file.stat().st_size / evals:.0f} bytes a line")
        with closing(open_collections(folder)) as shelf:
            shelf.add_collection(COLLECTION)
        if profile:
            with cProfile.Profile() as profiled:
                _measured(file, folder, evals, "profiled")
            pstats.Stats(profiled).sort_stats("tottime").print_stats(35)
            return
        _measured(file, folder, evals, "new")
        print(f"store {sum(path.stat().st_size for path in folder.iterdir()) / 2**20:.0f} MB")
        _measured(file, folder, evals, "again")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]), profile=len(sys.argv) > 2)
