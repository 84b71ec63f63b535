"""The tries of a run: each target call with its scores, many at a time, each kept before its lane takes the next."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from evalscribe.errors import EvalscribeError
from evalscribe.evaluate.scoring import Panel, Scored, stored
from evalscribe.evaluate.verdict import verdict
from evalscribe.model.dataset import Item
from evalscribe.model.experiment import ItemTrial, RunItem
from evalscribe.model.experiment_storage import Target
from evalscribe.model.score import Binding, Score, ScoreEvidence
from evalscribe.model.target import TargetCall, TargetFailure, TargetReply

LATE_S = 2.0
"""How much longer than its time a target may take to tell of its own time-out, before we do."""


class Try(NamedTuple):
    run_id: str
    item: Item
    number: int
    """The item's place in the dataset version, from 0."""
    repetition: int


class Done(NamedTuple):
    attempt: ItemTrial
    scores: tuple[tuple[Score, ScoreEvidence], ...]

    @property
    def cost_usd(self) -> float:
        usage = self.attempt.item.usage
        return (usage.cost_usd if usage else 0.0) + sum(score.cost_usd for score, _ in self.scores)


def unkept(done: Done, reason: str) -> Done:
    """The try without what cannot be stored: it gave no answer that one could have."""
    item = done.attempt.item.model_copy(
        update={"status": "error", "verdict": "error", "error": f"what it gave cannot be kept: {reason}"}
    )
    return Done(ItemTrial(item=item), ())


@dataclass(frozen=True)
class Bench:
    """What one run is tried with. What the target gives is redacted by it, as sources redact what they read."""

    target: Target
    panel: Panel
    bindings: Sequence[Binding]
    timeout_s: float
    now: Callable[[], str]

    async def tried(self, one: Try) -> Done:
        """Raises `EvalscribeError` for what concerns all tries."""
        given = await self._asked(one)
        attempt = _attempt(one, given, self.now())
        scored: tuple[Scored, ...] = ()
        if isinstance(given, TargetReply):
            scored = await self.panel.scored(one.item, attempt)
        results = {each.binding.spec.name: each.result for each in scored}
        said = verdict(attempt.item.status, results, self.bindings)
        item = attempt.item.model_copy(update={"verdict": said})
        now = self.now()
        return Done(attempt.model_copy(update={"item": item}), tuple(stored(each, item, now) for each in scored))

    async def _asked(self, one: Try) -> TargetReply | TargetFailure:
        call = TargetCall(
            run_id=one.run_id,
            item_key=one.item.key,
            repetition=one.repetition,
            input=one.item.input,
            metadata=one.item.metadata,
            timeout_s=self.timeout_s,
        )
        try:
            async with asyncio.timeout(self.timeout_s + LATE_S):
                return await self.target.answer(call)
        except TimeoutError:
            reason = f"no answer within {self.timeout_s:g} s"
            return TargetFailure(kind="timeout", reason=reason, duration_ms=1000 * self.timeout_s)


async def work(bench: Bench, tries: Iterator[Try], lanes: int, keep: Callable[[Done], None]) -> None:
    """Every try, so many at a time; `keep` is called with each before its lane takes the next.

    Raises the first `EvalscribeError` that concerns all tries, after those that were under way: they were paid for.
    """
    stopped: list[EvalscribeError] = []

    async def lane() -> None:
        while not stopped and (one := next(tries, None)):
            try:
                keep(await bench.tried(one))
            except EvalscribeError as error:
                stopped.append(error)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(lanes):
                group.create_task(lane())
    except ExceptionGroup as bugs:
        raise bugs.exceptions[0] from None
    if stopped:
        raise stopped[0]


def _attempt(one: Try, given: TargetReply | TargetFailure, now: str) -> ItemTrial:
    failed = given if isinstance(given, TargetFailure) else None
    item = RunItem(
        id=RunItem.id_of(one.run_id, one.item.key, one.repetition),
        run_id=one.run_id,
        item_key=one.item.key,
        repetition=one.repetition,
        number=one.number,
        status=failed.kind if failed else "ok",
        verdict="error",
        error=failed.reason if failed else None,
        duration_ms=given.duration_ms,
        usage=given.usage,
        model=None if isinstance(given, TargetFailure) else given.model,
        created_at=now,
    )
    if isinstance(given, TargetFailure):
        return ItemTrial(item=item, transcript=given.transcript, log=given.log)
    return ItemTrial(item=item, output=given.output, transcript=given.transcript, state=given.state, log=given.log)
