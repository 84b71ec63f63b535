"""Fetch a run into a snapshot folder, redacted, so that an analysis can be repeated offline."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from evalscribe.app.watcher import Watcher
from evalscribe.ids import Frozen
from evalscribe.model.evidence import UnreadableEvidence
from evalscribe.model.run import Eval, Run

FETCHES = 8
"""How many evals are fetched at once."""


class Payloads(Protocol):
    """A source that also hands out what it read, redacted."""

    async def run(self) -> Run: ...
    async def summary(self) -> object: ...
    async def payload(self, eval: Eval) -> object | UnreadableEvidence: ...


class Writer(Protocol):
    """Where the payloads go."""

    def put(self, eval_id: str, payload: object | UnreadableEvidence) -> None: ...
    def finish(self, summary: object) -> None: ...


class Fetched(Frozen):
    run: Run
    unreadable: tuple[UnreadableEvidence, ...] = ()
    """What the source could not give; the snapshot says so in its place."""


async def fetch(source: Payloads, open_writer: Callable[[str], Writer], watcher: Watcher) -> Fetched:
    """Write the run and every failed eval; the summary last, so that a folder cut short is no snapshot.

    `open_writer` gets the run's id. Raises `EvalscribeError` for what concerns the whole run.
    """
    run = await source.run()
    watcher.started(run)
    writer = open_writer(run.id)
    waiting = iter(run.failures)
    unreadable: list[UnreadableEvidence] = []
    done = 0

    async def some() -> None:
        nonlocal done
        for eval in waiting:
            payload = await source.payload(eval)
            writer.put(eval.id, payload)
            unreadable.extend([payload] if isinstance(payload, UnreadableEvidence) else [])
            done += 1
            watcher.fetched(done, len(run.failures))

    await asyncio.gather(*(some() for _ in range(FETCHES)))
    writer.finish(await source.summary())
    return Fetched(run=run, unreadable=tuple(unreadable))
