"""The worker of a run: goes on where it was left, shows that it lives, and says how it ended."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack
from typing import Any, NamedTuple

from evalscribe.app.experiment_desk import ExperimentDesk
from evalscribe.app.experiments.archive import Archiving, ArchivingAlong, archived
from evalscribe.app.experiments.find import run_named, version_of_run
from evalscribe.app.experiments.items import numbered_items
from evalscribe.errors import DataError, EvalscribeError, UnavailableError
from evalscribe.evaluate.scoring import Panel
from evalscribe.evaluate.work import Bench, Done, Try, unkept, work
from evalscribe.experiment import ExperimentRun, ExperimentVersion, RunState
from evalscribe.ports import ScorerRunner, Target
from evalscribe.prose import dollars, one_line
from evalscribe.redaction import redact

BEAT_S = 0.2
"""Between signs of life; as soon is it seen that somebody wants the run cancelled."""
CLAIM_S = 3.0
"""How long the process that worked on it before may take to leave."""


class Tools(NamedTuple):
    target: Target
    scorers: tuple[ScorerRunner, ...]
    """In topological order of what they depend on."""


Open = Callable[[ExperimentRun, ExperimentVersion, float | None], AbstractAsyncContextManager[Tools]]
"""What a run is tried with, and USD that it may still spend. Raises `EvalscribeError` where it cannot be had."""


async def worked(desk: ExperimentDesk, run_id: str, worker: str, tools: Open) -> ExperimentRun:
    """Do what is left of the run; as it ended. `worker`: `host:pid` of this process.

    What concerns all tries ends it as failed, with the reason, and it can be resumed. Raises `UnavailableError` where
    another process works on it; cancelled (by a signal) it leaves the run resumable.
    """
    run = run_named(desk, run_id)
    with ExitStack() as held:
        await _claim(desk, run, held)
        run = run_named(desk, run.id)
        if run.terminal:
            return run
        if run.cancelling:
            return desk.runs.end(run.id, "cancelled", desk.now())
        run = desk.runs.begin(run.id, worker, desk.now())
        return await _Worker(desk, run, version_of_run(desk, run), tools).run()


async def _claim(desk: ExperimentDesk, run: ExperimentRun, held: ExitStack) -> None:
    deadline = asyncio.get_running_loop().time() + CLAIM_S
    while True:
        with ExitStack() as tried:
            if tried.enter_context(desk.runs.claim(run.id)):
                held.push(tried.pop_all())
                return
        if asyncio.get_running_loop().time() > deadline:
            raise UnavailableError(f"run {run.id} is being worked on already, by {run.worker or 'another process'}")
        await asyncio.sleep(BEAT_S)


class _Worker:
    def __init__(self, desk: ExperimentDesk, run: ExperimentRun, version: ExperimentVersion, tools: Open) -> None:
        self._desk = desk
        self._run = run
        self._version = version
        self._tools = tools
        self._spent = desk.runs.spent(run.id)
        self._along: ArchivingAlong | None = None
        """None where an earlier worker made a part of the tries: then all are archived at the end."""

    async def run(self) -> ExperimentRun:
        try:
            if await self._alive(self._tries(), heed=True):
                return await self._ended("cancelled", None)
            if self._penniless and self._unfinished:
                return await self._ended("failed", self._short_of_money())
            await self._alive(self._archived("completed", None), heed=False)
            return self._desk.runs.end(self._run.id, "completed", self._desk.now())
        except EvalscribeError as error:
            return await self._ended("failed", one_line(redact(str(error))))
        except asyncio.CancelledError:
            self._end("failed", f"interrupted: `evalscribe experiments runs resume {self._run.id}` goes on with it")
            raise
        except Exception as error:
            self._end("failed", f"this is a bug: {type(error).__name__}: {one_line(redact(str(error)))[:200]}")
            raise

    async def _alive(self, main: Coroutine[Any, Any, None], *, heed: bool) -> bool:
        """Whether somebody asked for the run to be cancelled, and is heeded, before this was done."""
        tasks = [asyncio.ensure_future(main), asyncio.ensure_future(self._beat(heed=heed))]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        work, beat = tasks
        if work.cancelled():
            beat.result()
            return True
        work.result()
        return False

    async def _beat(self, *, heed: bool) -> None:
        """Shows that the worker lives, until somebody asks for the run to be cancelled."""
        while True:
            if self._desk.runs.beat(self._run.id, self._desk.now()) and heed:
                return
            await asyncio.sleep(BEAT_S)

    async def _tries(self) -> None:
        async with self._tools(self._run, self._version, self._left) as tools:
            bench = Bench(
                target=tools.target,
                panel=Panel(self._version.bindings, tools.scorers),
                bindings=self._version.bindings,
                timeout_s=self._version.config.timeout_s,
                now=self._desk.now,
            )
            await work(bench, self._left_to_try(), self._run.concurrency, self._keep)

    def _left_to_try(self) -> Iterator[Try]:
        """What is stored already is not tried again; nothing more once the money is spent."""
        done = self._desk.runs.done(self._run.id)
        if not done:
            self._along = ArchivingAlong(Archiving(self._desk, self._run, self._version))
        for number, item in numbered_items(self._desk, self._run):
            for repetition in range(1, self._run.repetitions + 1):
                if (item.key, repetition) not in done:
                    if self._penniless:
                        return
                    one = Try(self._run.id, item, number, repetition)
                    if self._along:
                        self._along.begun(one)
                    yield one

    def _keep(self, done: Done) -> None:
        try:
            self._desk.runs.put(done.attempt, done.scores)
        except DataError as error:
            without = unkept(done, one_line(str(error)))
            self._desk.runs.put(without.attempt, without.scores)
            self._archive(without)
        else:
            self._archive(done)
        self._spent += done.cost_usd

    def _archive(self, done: Done) -> None:
        if self._along:
            self._along.done(done.attempt, tuple(score for score, _ in done.scores))

    @property
    def _left(self) -> float | None:
        """USD that models may still cost."""
        budget = self._run.budget_usd
        return None if budget is None else max(0.0, budget - self._spent)

    @property
    def _penniless(self) -> bool:
        """What costs nothing needs no budget."""
        return self._left == 0 and self._spent > 0

    @property
    def _unfinished(self) -> bool:
        return sum(self._desk.runs.tally(self._run.id).values()) < self._run.tries

    def _short_of_money(self) -> str:
        return (
            f"the budget of {dollars(self._run.budget_usd or 0)} is spent ({dollars(self._spent)}): "
            f"`evalscribe experiments runs resume {self._run.id} --budget USD` goes on with more"
        )

    async def _ended(self, state: RunState, reason: str | None) -> ExperimentRun:
        """What was done is archived as well: it can be analysed."""
        run = self._end(state, reason)
        if self._desk.runs.tally(run.id):
            await self._archived(state, reason)
        return run

    async def _archived(self, state: RunState, reason: str | None) -> None:
        if self._along:
            self._along.end(state, reason)
        else:
            await archived(self._desk, self._run, self._version, state, reason)

    def _end(self, state: RunState, reason: str | None) -> ExperimentRun:
        return self._desk.runs.end(self._run.id, state, self._desk.now(), reason)
