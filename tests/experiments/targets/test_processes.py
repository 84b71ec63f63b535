"""Processes that run users' code end together with their descendants."""

import asyncio
import os
from pathlib import Path

from evalscribe.experiments.processes import ProcessGroup


async def test_cancelling_while_a_process_starts_leaves_no_process(tmp_path: Path) -> None:
    # Each round cancels one turn of the event loop later; in the last rounds, the process has started.
    for turns in range(16):
        read_end, write_end = os.pipe()
        starting = asyncio.create_task(
            ProcessGroup.start(("/bin/sh", "-c", "sleep infinity & wait"), tmp_path, pass_fds=(write_end,))
        )
        for _ in range(turns):
            await asyncio.sleep(0)
        starting.cancel()
        (group,) = await asyncio.gather(starting, return_exceptions=True)
        if isinstance(group, ProcessGroup):
            await group.end(0)
        os.close(write_end)
        # Every process of the group holds the other end, so this returns when the last of them has ended.
        assert await asyncio.to_thread(os.read, read_end, 1) == b""
        os.close(read_end)
