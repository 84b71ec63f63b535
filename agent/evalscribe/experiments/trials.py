"""Run the trials of an experiment concurrently, and score and store each."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from pydantic import JsonValue

from evalscribe.errors import EvalscribeError, UnavailableError
from evalscribe.model.chat import BudgetExceeded, Reply, Request, Usage
from evalscribe.model.dataset import Item, short_id
from evalscribe.model.experiment import ItemTrial, ItemVerdict, RunItem
from evalscribe.model.protocols import Model, Models, OnText
from evalscribe.model.score import Binding, Score, ScoreEvidence, ScoreResult, ScorerRequest, ScorerRunner
from evalscribe.model.target import Target, TargetCall, TargetFailure, TargetFailureKind, TargetReply, ToolUse, Trace
from evalscribe.model.transcript import AssistantMessage, ToolMessage, Transcript, TranscriptToolCall, render_transcript


def apply_threshold(result: ScoreResult, binding: Binding) -> ScoreResult:
    """Apply the binding's threshold, if it has one. A value at the threshold passes."""
    if binding.threshold is None or result.status != "ok" or result.value is None:
        return result
    return result.model_copy(update={"passed": result.value >= binding.threshold})


def trial_verdict(
    status: Literal["ok"] | TargetFailureKind, results: Mapping[str, ScoreResult], bindings: Sequence[Binding]
) -> ItemVerdict:
    """Decide the verdict of a trial.

    A required scorer that failed takes precedence over one that broke.

    Args:
        results: Results by binding name, with thresholds applied. A scorer without a result counts as broken.
    """
    if status != "ok":
        return "error"
    said = [_said(results.get(binding.spec.name)) for binding in bindings if binding.required]
    if "failed" in said:
        return "failed"
    return "unscored" if "unscored" in said else "passed"


def _said(result: ScoreResult | None) -> ItemVerdict:
    if result is None or result.status != "ok":
        return "unscored"
    return "passed" if result.passed else "failed"


def build_trace(given: TargetReply | TargetFailure | ItemTrial) -> Trace:
    """Build the trace of a reply. Without messages `recorded` is false: only time, usage and state are known."""
    if isinstance(given, ItemTrial):
        reason, usage, duration = given.item.error, given.item.usage, given.item.duration_ms
    else:
        reason = given.reason if isinstance(given, TargetFailure) else None
        usage, duration = given.usage, given.duration_ms
    state = {} if isinstance(given, TargetFailure) else given.state
    tools = None if given.transcript is None else tuple(_tools(given.transcript))
    return Trace(
        recorded=given.transcript is not None,
        tools=tools or (),
        model_calls=_model_calls(usage, given.transcript),
        tokens=None if usage is None else usage.input_tokens + usage.output_tokens,
        duration_ms=duration,
        errors=tuple(_errors(tools or (), reason)),
        state=state,
    )


def _tools(transcript: Transcript) -> Iterator[ToolUse]:
    """Yield every tool call of the assistant's messages, in order, with its result.

    Results are matched by call id, or else by their position after the message.
    """
    answers = {m.tool_call_id: m for m in transcript.messages if isinstance(m, ToolMessage) and m.tool_call_id}
    for number, message in enumerate(transcript.messages):
        if isinstance(message, AssistantMessage):
            following = _following(transcript, number)
            for place, call in enumerate(message.tool_calls):
                yield _used(call, answers.get(call.id) or following.get(place))


def _following(transcript: Transcript, number: int) -> Mapping[int, ToolMessage]:
    """Return the tool messages without a call id that directly follow a message."""
    found = []
    for message in transcript.messages[number + 1 :]:
        if not isinstance(message, ToolMessage) or message.tool_call_id:
            break
        found.append(message)
    return dict(enumerate(found))


def _used(call: TranscriptToolCall, answer: ToolMessage | None) -> ToolUse:
    error = None if answer is None else answer.error
    return ToolUse(tool=call.function, arguments=call.arguments, failed=error is not None, error=error)


def _model_calls(usage: Usage | None, transcript: Transcript | None) -> int | None:
    if usage is not None and usage.calls:
        return usage.calls
    if transcript is None:
        return None
    return sum(isinstance(message, AssistantMessage) for message in transcript.messages)


def _errors(tools: tuple[ToolUse, ...], reason: str | None) -> Iterator[str]:
    yield from (f"{use.tool}: {use.error}" for use in tools if use.failed)
    if reason is not None:
        yield reason


class TrialScore(NamedTuple):
    """Result of one scorer for one trial."""

    binding: Binding
    seen: JsonValue
    """The request as JSON; the same object if several scorers got the same request."""
    result: ScoreResult


class ScorerPanel:
    """The scorers of an experiment, in topological order of their dependencies."""

    def __init__(self, bindings: Sequence[Binding], runners: Sequence[ScorerRunner]) -> None:
        """Create the panel. A runner belongs to the binding with the same name."""
        by_name = {binding.spec.name: binding for binding in bindings}
        self._members = [(by_name[runner.name], runner) for runner in runners]

    async def scored(
        self, item: Item, attempt: ItemTrial, peers: Mapping[str, ScoreResult] | None = None
    ) -> tuple[TrialScore, ...]:
        """Score a trial. Raises `EvalscribeError` for errors that concern all trials.

        Args:
            peers: Results of scorers that do not belong to this panel.
        """
        request = _request(item, attempt)
        shared: JsonValue = request.model_dump(mode="json")
        said = dict(peers or {})
        found = []
        for binding, runner in self._members:
            asked, seen = request, shared
            if runner.depends_on:
                known = {name: said[name] for name in runner.depends_on if name in said}
                asked = request.model_copy(update={"peer_scores": known})
                seen = asked.model_dump(mode="json")
            said[runner.name] = apply_threshold(await runner.score(asked), binding)
            found.append(TrialScore(binding, seen, said[runner.name]))
        return tuple(found)


def to_stored_score(
    scored: TrialScore, item: RunItem, now: str, *, supersedes: str | None = None, reason: str | None = None
) -> tuple[Score, ScoreEvidence]:
    """Convert a result into a stored score.

    The score's id is derived from trial, scorer and superseded score, so that it is stored only once.
    """
    binding, seen, result = scored
    score = Score(
        id=short_id("score", [item.id, binding.spec.name, supersedes]),
        run_id=item.run_id,
        run_item_id=item.id,
        item_key=item.item_key,
        repetition=item.repetition,
        scorer=binding.spec.name,
        scorer_version_id=binding.spec.id,
        required=binding.required,
        status=result.status,
        value=result.value,
        passed=result.passed,
        label=result.label,
        explanation=result.explanation,
        error_type=result.error_type,
        cost_usd=result.usage.cost_usd,
        supersedes=supersedes,
        reason=reason,
        created_at=now,
    )
    evidence = ScoreEvidence.model_construct(  # The parts were validated before; validating all of it again is slow.
        scorer_input=seen,
        scorer_output=result.output,
        evidence=result.evidence,
        metadata={**result.metadata, "config": binding.spec.config},
    )
    return score, evidence


def to_score_result(score: Score) -> ScoreResult:
    """Restore the result of a stored score, for the verdict and for dependent scorers."""
    return ScoreResult(
        status=score.status,
        value=score.value,
        passed=score.passed,
        label=score.label,
        explanation=score.explanation,
        error_type=score.error_type,
    )


def _request(item: Item, attempt: ItemTrial) -> ScorerRequest:
    return ScorerRequest(
        input=item.input,
        output=attempt.output,
        expected=item.expected_output,
        metadata=item.metadata,
        trace=build_trace(attempt),
        transcript=render_transcript(attempt.transcript) if attempt.transcript else None,
    )


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
                f"{error.reason}: add `budget` or `max_tokens` to `experiments runs resume`",
                fields=("budget", "max_tokens"),
            ) from error

    def forget(self, request: Request) -> None:
        self._model.forget(request)

    async def close(self) -> None:
        await self._model.close()


LATE_S = 2.0
"""Seconds after a timeout in which the target can still report the timeout itself."""


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
    """Return the trial with the status `error`, without the output that cannot be stored."""
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
    bench: TrialRunner, tries: Iterator[TrialRequest], concurrency: int, keep: Callable[[CompletedTrial], None]
) -> None:
    """Run every trial, `concurrency` at a time. `keep` is called with each trial before its worker takes the next.

    An `EvalscribeError` that concerns all trials is raised after running trials finish, since they were paid for.
    """
    stopped: list[EvalscribeError] = []

    async def worker() -> None:
        while not stopped and (one := next(tries, None)):
            try:
                keep(await bench.tried(one))
            except EvalscribeError as error:
                stopped.append(error)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(worker())
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
