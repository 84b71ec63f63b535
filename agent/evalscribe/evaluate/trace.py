"""What a target did, out of what it gave: its messages, its usage, its time."""

from collections.abc import Iterator, Mapping

from evalscribe.model.chat import Usage
from evalscribe.model.experiment import ItemTrial
from evalscribe.model.target import TargetFailure, TargetReply, ToolUse, Trace
from evalscribe.model.transcript import AssistantMessage, ToolMessage, Transcript, TranscriptToolCall


def trace_of(given: TargetReply | TargetFailure | ItemTrial) -> Trace:
    """Of an answer without messages `recorded` is false: then only its time, its usage and its state are known."""
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
    """Every call that an assistant's message records, in order, with how it ended; by the call's id where it has one,
    else by the answers that follow."""
    answers = {m.tool_call_id: m for m in transcript.messages if isinstance(m, ToolMessage) and m.tool_call_id}
    for number, message in enumerate(transcript.messages):
        if isinstance(message, AssistantMessage):
            following = _following(transcript, number)
            for place, call in enumerate(message.tool_calls):
                yield _used(call, answers.get(call.id) or following.get(place))


def _following(transcript: Transcript, number: int) -> Mapping[int, ToolMessage]:
    """The answers without a call's id that follow a message directly."""
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
