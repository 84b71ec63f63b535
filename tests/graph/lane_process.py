"""A whole process that judges a run in lanes: `python lane_process.py FOLDER GROUPS SECONDS [stubborn|busy]`.

The store is in FOLDER or, where LANE_STORE is set, at that postgresql:// address. Each question is noted in
FOLDER/asked as it is sent, each answer in FOLDER/answered, the way a provider would see it.
"""

import asyncio
import os
import sys
import threading
import time
from pathlib import Path

from lane_cases import ScriptedJudge, cases_of, groups_of, run_of

from evalscribe.errors import EvalscribeError
from evalscribe.graph.deps import Counts, Deps
from evalscribe.graph.run import judge_groups
from evalscribe.graph.signals import run_until_signal
from evalscribe.store.sql import open_store


def note(file: Path, line: str) -> None:
    with file.open("a") as out:
        out.write(f"{line}\n")


async def main(folder: Path, count: int, seconds: float, manner: str) -> Counts:
    async def script(path: str) -> None:
        note(folder / "asked", path)
        if manner == "stubborn":
            await asyncio.to_thread(time.sleep, 30)
        while manner == "busy":
            """Never lets the event loop have a turn."""
        await asyncio.sleep(seconds)
        note(folder / "answered", path)

    url = os.environ.get("LANE_STORE")
    run, store = run_of(count), open_store(url or folder / ".evalscribe")
    with store.lock(run.id):
        deps = Deps(run=run, groups=groups_of(run), case_of=cases_of(run), judge=ScriptedJudge(script), store=store)
        outcome = await judge_groups(deps, url or folder / ".evalscribe" / "checkpoints.db")
    store.close()
    return outcome.counts


if __name__ == "__main__":
    folder, count, seconds = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    code = 0
    try:
        counts = run_until_signal(main(folder, count, seconds, sys.argv[4] if len(sys.argv) > 4 else ""))
        print(counts.model_dump_json())
    except EvalscribeError as error:
        print(error, file=sys.stderr, flush=True)
        code = error.exit_code
    assert threading.active_count() == 1, threading.enumerate()
    if code:
        os._exit(code)  # as the command line does: Python takes a second to clear away the libraries
