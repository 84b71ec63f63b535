"""`evalscribe experiments runs work RUN`: the process behind a run, started by `experiments run`."""

import os
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

from evalscribe.cli.experiments.options import EnvFile, MaxTokens, RunArgument

T = TypeVar("T")


def work(run: RunArgument, max_tokens: MaxTokens = None, env_file: EnvFile = None) -> int:
    """Do what is left of a run, in this process."""
    from evalscribe.app.experiments.find import run_named
    from evalscribe.app.experiments.work import worked
    from evalscribe.cli.display import finish
    from evalscribe.settings import Options
    from evalscribe.workspace import Workspace

    with Workspace(Options(max_tokens=max_tokens, env_file=env_file)) as workspace:
        found = run_named(workspace, run)
        finish.say(f"{workspace.now()} process {os.getpid()} works on run {found.id}")
        done = _until_signal(worked(workspace, found.id))
        finish.say(f"{workspace.now()} run {done.id} {done.state}{f': {done.reason}' if done.reason else ''}")
    return 0 if done.state == "completed" else 3


def _until_signal(main: Coroutine[Any, Any, T]) -> T:
    """Ctrl-C, SIGTERM and SIGHUP cancel it; it ends its children, which takes it two seconds at most."""
    import asyncio  # takes a fifth of what `--help` does

    from evalscribe.errors import TerminatedError

    async def watched() -> T:
        task = asyncio.current_task()
        assert task is not None
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        return await main

    try:
        return asyncio.run(watched())
    except asyncio.CancelledError:
        raise TerminatedError("interrupted; what is finished is kept.") from None
