"""A process that judges a run concurrently: `python analysis_process.py FOLDER GROUPS ANSWERS [stubborn|busy]`.

The judge stops answering once FOLDER/answered has ANSWERS lines. The store is in FOLDER, or at the postgresql://
address in LANE_STORE. Each question is recorded in FOLDER/asked when it is sent, and each answer in FOLDER/answered.
"""

import asyncio
import os
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from evalscribe.cli.interrupts import run_until_signal
from evalscribe.errors import EvalscribeError
from evalscribe.judging.verdicts import Counts, JudgeQueue
from evalscribe.store.analyses import open_store
from support.analysis_graph import ScriptedJudge, judge_groups, make_failures, make_groups, make_run
from support.waiting import wait_until


def note(file: Path, line: str) -> None:
    with file.open("a") as out:
        out.write(f"{line}\n")


def lines(file: Path) -> int:
    return len(file.read_text().splitlines()) if file.exists() else 0


async def main(folder: Path, count: int, answers: int, manner: str) -> Counts:
    async def script(path: str) -> None:
        note(folder / "asked", path)
        if manner == "stubborn":
            await asyncio.to_thread(time.sleep, 3600)
        while manner == "busy":
            """Block the event loop forever."""
        await asyncio.sleep(0)
        if lines(folder / "answered") >= answers:
            await asyncio.sleep(3600)
        note(folder / "answered", path)

    url = os.environ.get("LANE_STORE")
    run, store = make_run(count), open_store(url or folder / ".evalscribe")
    with store.lock(run.id):
        judge = ScriptedJudge(script)
        queue = JudgeQueue(run=run, groups=make_groups(run), case_of=make_failures(run), judge=judge, store=store)
        outcome = await judge_groups(queue, url or folder / ".evalscribe" / "checkpoints.db")
    store.close()
    return outcome.counts


if __name__ == "__main__":
    folder, count, answers = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    code = 0
    try:
        counts = run_until_signal(main(folder, count, answers, sys.argv[4] if len(sys.argv) > 4 else ""))
        print(counts.model_dump_json())
    except EvalscribeError as error:
        print(error, file=sys.stderr, flush=True)
        code = error.exit_code
    # The thread of the checkpoints' connection ends shortly after the connection is closed.
    wait_until(lambda: threading.active_count() == 1, "the end of all other threads")
    if code:
        os._exit(code)  # as the command line does, because Python takes a second to unload the libraries
