"""Run the trials of an experiment concurrently, each stored before the next starts."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from evalscribe.errors import EvalscribeError, UnavailableError
from evalscribe.experiments.scoring import ScorerPanel, TrialScore, to_stored_score, trial_verdict
from evalscribe.model.chat import BudgetExceeded, Reply, Request, Usage
from evalscribe.model.dataset import Item
from evalscribe.model.experiment import ItemTrial, RunItem
from evalscribe.model.experiment_storage import Target
from evalscribe.model.protocols import Model, Models, OnText
from evalscribe.model.score import Binding, Score, ScoreEvidence
from evalscribe.model.target import TargetCall, TargetFailure, TargetReply


class BudgetedModels:
    """`Models` whose calls raise `UnavailableError` when the budget is spent."""

    def __init__(self, models: Models) -> None:
        self._models = models

    def open(self, name: str, stage: str) -> Model:
        return _RunModel(self._models.open(name, stage))

    def spent(self) -> Mapping[str, Usage]:
        return self._models.spent()

    async def close(self) -> None:
        await self._models.close()


class _RunModel:
    def __init__(self, model: Model) -> None:
        self.id = model.id
        self.context_tokens = model.context_tokens
        self._model = model

    async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        try:
            return await self._model.complete(request, on_text)
        except BudgetExceeded as error:
            raise UnavailableError(
                f"{error.reason}: add --budget or --max-tokens to `experiments runs resume`"
            ) from error

    def forget(self, request: Request) -> None:
        self._model.forget(request)

    async def close(self) -> None:
        await self._model.close()


LATE_S = 2.0
"""Seconds that a target has beyond its timeout to report the timeout itself."""


class TrialRequest(NamedTuple):
    run_id: str
    item: Item
    number: int
    """The item's place in the dataset version, from 0."""
    repetition: int


class CompletedTrial(NamedTuple):
    attempt: ItemTrial
    scores: tuple[tuple[Score, ScoreEvidence], ...]

    @property
    def cost_usd(self) -> float:
        usage = self.attempt.item.usage
        return (usage.cost_usd if usage else 0.0) + sum(score.cost_usd for score, _ in self.scores)


def mark_unstorable(done: CompletedTrial, reason: str) -> CompletedTrial:
    """Return the trial as failed, without the output that cannot be stored."""
    item = done.attempt.item.model_copy(
        update={"status": "error", "verdict": "error", "error": f"its output cannot be stored: {reason}"}
    )
    return CompletedTrial(ItemTrial(item=item), ())


@dataclass(frozen=True)
class TrialRunner:
    """Runner of the trials of one run. Targets redact their output, as sources redact what they read."""

    target: Target
    panel: ScorerPanel
    bindings: Sequence[Binding]
    timeout_s: float
    now: Callable[[], str]

    async def tried(self, one: TrialRequest) -> CompletedTrial:
        """Run one trial. Raises `EvalscribeError` for errors that concern all trials."""
        given = await self._asked(one)
        attempt = _attempt(one, given, self.now())
        scored: tuple[TrialScore, ...] = ()
        if isinstance(given, TargetReply):
            scored = await self.panel.scored(one.item, attempt)
        results = {each.binding.spec.name: each.result for each in scored}
        said = trial_verdict(attempt.item.status, results, self.bindings)
        item = attempt.item.model_copy(update={"verdict": said})
        now = self.now()
        return CompletedTrial(
            attempt.model_copy(update={"item": item}), tuple(to_stored_score(each, item, now) for each in scored)
        )

    async def _asked(self, one: TrialRequest) -> TargetReply | TargetFailure:
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


async def run_trials(
    bench: TrialRunner, tries: Iterator[TrialRequest], lanes: int, keep: Callable[[CompletedTrial], None]
) -> None:
    """Run every trial, `lanes` at a time. `keep` is called with each trial before its worker takes the next.

    An `EvalscribeError` that concerns all trials is raised after running trials finish, since they were paid for.
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


def _attempt(one: TrialRequest, given: TargetReply | TargetFailure, now: str) -> ItemTrial:
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
