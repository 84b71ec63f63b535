"""Run the trials of an experiment concurrently, and score and store each trial."""

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
    """Apply the binding's threshold, if the binding has one. A value that equals the threshold passes."""
    if binding.threshold is None or result.status != "ok" or result.value is None:
        return result
    return result.model_copy(update={"passed": result.value >= binding.threshold})


def trial_verdict(
    status: Literal["ok"] | TargetFailureKind, results: Mapping[str, ScoreResult], bindings: Sequence[Binding]
) -> ItemVerdict:
    """Decide the verdict of a trial. If one required scorer failed and another broke, the verdict is `failed`.

    Args:
        results: Results by binding name, after thresholds have been applied. A scorer without a result counts as
            broken.
    """
    if status != "ok":
        return "error"
    verdicts = [_result_verdict(results.get(binding.spec.name)) for binding in bindings if binding.required]
    if "failed" in verdicts:
        return "failed"
    return "unscored" if "unscored" in verdicts else "passed"


def _result_verdict(result: ScoreResult | None) -> ItemVerdict:
    if result is None or result.status != "ok":
        return "unscored"
    return "passed" if result.passed else "failed"


def build_trace(reply: TargetReply | TargetFailure | ItemTrial) -> Trace:
    """Build the trace of a reply.

    If the reply has no messages, `recorded` is false, and the trace has only time, usage, state and the reply's error.
    """
    if isinstance(reply, ItemTrial):
        reason, usage, duration = reply.item.error, reply.item.usage, reply.item.duration_ms
    else:
        reason = reply.reason if isinstance(reply, TargetFailure) else None
        usage, duration = reply.usage, reply.duration_ms
    state = {} if isinstance(reply, TargetFailure) else reply.state
    tools = None if reply.transcript is None else tuple(_tools(reply.transcript))
    return Trace(
        recorded=reply.transcript is not None,
        tools=tools or (),
        model_calls=_model_calls(usage, reply.transcript),
        tokens=None if usage is None else usage.input_tokens + usage.output_tokens,
        duration_ms=duration,
        errors=tuple(_errors(tools or (), reason)),
        state=state,
    )


def _tools(transcript: Transcript) -> Iterator[ToolUse]:
    """Yield every tool call of the assistant's messages, in order, with its result.

    A call's result is the tool message with the call's id. If no message has that id, the result is found by position:
    the first call has the first of the tool messages without a call id that directly follow the assistant's message,
    the second call has the second, and so on.
    """
    answers = {
        message.tool_call_id: message
        for message in transcript.messages
        if isinstance(message, ToolMessage) and message.tool_call_id
    }
    for number, message in enumerate(transcript.messages):
        if isinstance(message, AssistantMessage):
            following = _following_results(transcript, number)
            for position, call in enumerate(message.tool_calls):
                yield _tool_use(call, answers.get(call.id) or following.get(position))


def _following_results(transcript: Transcript, number: int) -> Mapping[int, ToolMessage]:
    """Return the tool messages without a call id that directly follow message `number`, by position from 0."""
    messages = []
    for message in transcript.messages[number + 1 :]:
        if not isinstance(message, ToolMessage) or message.tool_call_id:
            break
        messages.append(message)
    return dict(enumerate(messages))


def _tool_use(call: TranscriptToolCall, answer: ToolMessage | None) -> ToolUse:
    error = None if answer is None else answer.error
    return ToolUse(tool=call.function, arguments=call.arguments, failed=error is not None, error=error)


def _model_calls(usage: Usage | None, transcript: Transcript | None) -> int | None:
    # A target can call models without recording messages, so its usage is preferred.
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
    request_json: JsonValue
    """The request as JSON. Scorers that received the same request share one JSON object."""
    result: ScoreResult


class ScorerPanel:
    """The scorers of an experiment. Each scorer comes after the scorers that it depends on."""

    def __init__(self, bindings: Sequence[Binding], runners: Sequence[ScorerRunner]) -> None:
        """Create the panel. Each runner belongs to the binding that has the same name."""
        by_name = {binding.spec.name: binding for binding in bindings}
        self._members = [(by_name[runner.name], runner) for runner in runners]

    async def score(
        self, item: Item, trial: ItemTrial, peers: Mapping[str, ScoreResult] | None = None
    ) -> tuple[TrialScore, ...]:
        """Score a trial. Raises `EvalscribeError` for errors that affect all trials.

        Args:
            peers: Results of scorers outside this panel, on which scorers in the panel can depend.
        """
        request = _request(item, trial)
        shared_json: JsonValue = request.model_dump(mode="json")
        results = dict(peers or {})
        trial_scores = []
        for binding, runner in self._members:
            scorer_request, request_json = request, shared_json
            if runner.depends_on:
                peer_scores = {name: results[name] for name in runner.depends_on if name in results}
                scorer_request = request.model_copy(update={"peer_scores": peer_scores})
                request_json = scorer_request.model_dump(mode="json")
            results[runner.name] = apply_threshold(await runner.score(scorer_request), binding)
            trial_scores.append(TrialScore(binding, request_json, results[runner.name]))
        return tuple(trial_scores)


def to_stored_score(
    trial_score: TrialScore, item: RunItem, now: str, *, supersedes: str | None = None, reason: str | None = None
) -> tuple[Score, ScoreEvidence]:
    """Convert a result into a stored score."""
    binding, request_json, result = trial_score
    score = Score(
        # The id depends only on what is scored, so that storing a score twice does not create a second score.
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
    evidence = ScoreEvidence.model_construct(  # The values were already validated. Validating them again would be slow.
        scorer_input=request_json,
        scorer_output=result.output,
        evidence=result.evidence,
        metadata={**result.metadata, "config": binding.spec.config},
    )
    return score, evidence


def to_score_result(score: Score) -> ScoreResult:
    """Convert a stored score back to the result of its scorer.

    The result is needed to decide the verdict and to run scorers that depend on it.
    """
    return ScoreResult(
        status=score.status,
        value=score.value,
        passed=score.passed,
        label=score.label,
        explanation=score.explanation,
        error_type=score.error_type,
    )


def _request(item: Item, trial: ItemTrial) -> ScorerRequest:
    return ScorerRequest(
        input=item.input,
        output=trial.output,
        expected=item.expected_output,
        metadata=item.metadata,
        trace=build_trace(trial),
        transcript=render_transcript(trial.transcript) if trial.transcript else None,
    )


class BudgetedModels:
    """`Models` whose calls raise `UnavailableError` once the budget is spent."""

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
            # `BudgetExceeded` fails only one call, so every remaining trial would end with this error.
            # `UnavailableError` ends the run, which can be resumed with a larger budget.
            raise UnavailableError(
                f"{error.reason}: add `budget` or `max_tokens` to `experiments runs resume`",
                fields=("budget", "max_tokens"),
            ) from error

    def forget(self, request: Request) -> None:
        self._model.forget(request)

    async def close(self) -> None:
        await self._model.close()


LATE_S = 2.0
"""Additional seconds after a timeout in which the target can still report the timeout itself."""


class TrialRequest(NamedTuple):
    run_id: str
    item: Item
    number: int
    """Index of the item in the dataset version, from 0."""
    repetition: int


class CompletedTrial(NamedTuple):
    trial: ItemTrial
    scores: tuple[tuple[Score, ScoreEvidence], ...]

    @property
    def cost_usd(self) -> float:
        usage = self.trial.item.usage
        return (usage.cost_usd if usage else 0.0) + sum(score.cost_usd for score, _ in self.scores)


def mark_unstorable(completed: CompletedTrial, reason: str) -> CompletedTrial:
    """Return the trial with status `error`. The trial's scores, and the output that cannot be stored, are left out."""
    item = completed.trial.item.model_copy(
        update={"status": "error", "verdict": "error", "error": f"its output cannot be stored: {reason}"}
    )
    return CompletedTrial(ItemTrial(item=item), ())


@dataclass(frozen=True)
class TrialRunner:
    """Runs the trials of one run. The target has already redacted its output."""

    target: Target
    panel: ScorerPanel
    bindings: Sequence[Binding]
    timeout_s: float
    now: Callable[[], str]

    async def run(self, request: TrialRequest) -> CompletedTrial:
        """Run one trial. Raises `EvalscribeError` for errors that affect all trials."""
        reply = await self._call_target(request)
        trial = _item_trial(request, reply, self.now())
        trial_scores: tuple[TrialScore, ...] = ()
        if isinstance(reply, TargetReply):
            trial_scores = await self.panel.score(request.item, trial)
        results = {trial_score.binding.spec.name: trial_score.result for trial_score in trial_scores}
        verdict = trial_verdict(trial.item.status, results, self.bindings)
        item = trial.item.model_copy(update={"verdict": verdict})
        now = self.now()
        return CompletedTrial(
            trial.model_copy(update={"item": item}),
            tuple(to_stored_score(trial_score, item, now) for trial_score in trial_scores),
        )

    async def _call_target(self, request: TrialRequest) -> TargetReply | TargetFailure:
        call = TargetCall(
            run_id=request.run_id,
            item_key=request.item.key,
            repetition=request.repetition,
            input=request.item.input,
            metadata=request.item.metadata,
            timeout_s=self.timeout_s,
        )
        try:
            async with asyncio.timeout(self.timeout_s + LATE_S):
                return await self.target.answer(call)
        except TimeoutError:
            reason = f"no answer within {self.timeout_s:g} s"
            return TargetFailure(kind="timeout", reason=reason, duration_ms=1000 * self.timeout_s)


async def run_trials(
    runner: TrialRunner,
    requests: Iterator[TrialRequest],
    concurrency: int,
    store_trial: Callable[[CompletedTrial], None],
) -> None:
    """Run every trial, at most `concurrency` at a time.

    Each worker passes its trial to `store_trial` before it takes another trial. An `EvalscribeError` that affects all
    trials is raised only after the running trials have finished.
    """
    errors: list[EvalscribeError] = []

    async def worker() -> None:
        while not errors and (request := next(requests, None)):
            try:
                store_trial(await runner.run(request))
            except EvalscribeError as error:
                # Not raised here: `TaskGroup` would cancel the other trials, which are already paid for.
                errors.append(error)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(worker())
    except ExceptionGroup as bugs:
        # The run's reason must name the bug itself, not the exception group in which `TaskGroup` wraps it.
        raise bugs.exceptions[0] from None
    if errors:
        raise errors[0]


def _item_trial(request: TrialRequest, reply: TargetReply | TargetFailure, now: str) -> ItemTrial:
    failure = reply if isinstance(reply, TargetFailure) else None
    item = RunItem(
        id=RunItem.id_of(request.run_id, request.item.key, request.repetition),
        run_id=request.run_id,
        item_key=request.item.key,
        repetition=request.repetition,
        number=request.number,
        status=failure.kind if failure else "ok",
        verdict="error",
        error=failure.reason if failure else None,
        duration_ms=reply.duration_ms,
        usage=reply.usage,
        model=None if isinstance(reply, TargetFailure) else reply.model,
        created_at=now,
    )
    if isinstance(reply, TargetFailure):
        return ItemTrial(item=item, transcript=reply.transcript, log=reply.log)
    return ItemTrial(item=item, output=reply.output, transcript=reply.transcript, state=reply.state, log=reply.log)
