"""An agent run as a judge is shown it: a block per message, metadata, earlier results."""

from collections.abc import Iterator, Sequence
from typing import Any

from evalscribe.judging.fence import quoted
from evalscribe.judging.subject.item import Item, Subject, in_parts
from evalscribe.judging.subject.keys import as_json
from evalscribe.judging.subject.plain import plain
from evalscribe.judging.subject.results import result_items
from evalscribe.model.result import CitationTarget, JudgeResult
from evalscribe.model.transcript import (
    AgentRun,
    AssistantMessage,
    ChatMessage,
    ToolMessage,
    Transcript,
    TranscriptToolCall,
)
from evalscribe.redaction.redact import redact_json


def of_agent_run(run: AgentRun, earlier: Sequence[JudgeResult] = ()) -> Subject:
    """All of a run: `T0B1` blocks, `R0M`, `T0M` and `T0B1M` metadata, `A0` earlier results."""
    return Subject.of(run.id, [*_run_items(run), *result_items(earlier)])


def of_own_run(run: AgentRun) -> Subject:
    """Like `of_agent_run`, but redact first: a run created in Python has not come through a source."""
    value = run.model_dump(mode="json")
    shown = redact_json(value)
    return of_agent_run(run if shown == value else AgentRun.model_validate(shown))


def _run_items(run: AgentRun) -> Iterator[Item]:
    """Of the only run there is: `R0M`, and its transcripts from `T0` on."""
    yield from metadata_items("R0M", run)
    for number, transcript in enumerate(run.transcripts):
        yield from transcript_items(f"T{number}", transcript, run)


def metadata_items(mark: str, run: AgentRun) -> Iterator[Item]:
    """What is said of the run as a whole, if anything is."""
    if run.metadata or run.name:
        yield _metadata(mark, _named("metadata of the run", run.name), run.metadata, run)


def transcript_items(mark: str, transcript: Transcript, run: AgentRun) -> Iterator[Item]:
    """Of a transcript that is called `T0`: its metadata `T0M`, and its blocks `T0B0` …"""
    if transcript.metadata or transcript.name:
        about = _named("metadata of the transcript", transcript.name)
        yield _metadata(f"{mark}M", about, transcript.metadata, run, transcript)
    for block, message in enumerate(transcript.messages):
        yield _block(f"{mark}B{block}", message, block, transcript, run)
        if message.metadata:
            yield _metadata(f"{mark}B{block}M", "metadata of the block", message.metadata, run, transcript, block)


def _metadata(
    mark: str,
    about: str,
    metadata: dict[str, Any],
    run: AgentRun,
    transcript: Transcript | None = None,
    block: int | None = None,
) -> Item:
    target = CitationTarget(
        kind="metadata",
        item=mark,
        agent_run_id=run.id,
        transcript_id=transcript and transcript.id,
        block_idx=block,
    )
    return Item(mark=mark, about=about, text=as_json(metadata), target=target, metadata=metadata)


def _block(mark: str, message: ChatMessage, block: int, transcript: Transcript, run: AgentRun) -> Item:
    text, labels = in_parts(list(_parts(message)))
    target = CitationTarget(kind="block", item=mark, agent_run_id=run.id, transcript_id=transcript.id, block_idx=block)
    return Item(mark=mark, about=_about(message), text=text, labels=labels, target=target)


def _about(message: ChatMessage) -> str:
    facts = [f"role: {message.role}"]
    if isinstance(message, AssistantMessage) and message.model:
        facts.append(f"model: {quoted(message.model)}")
    if isinstance(message, ToolMessage):
        facts += [f"tool: {quoted(message.function)}"] if message.function else []
        facts += [f"call: {quoted(message.tool_call_id)}"] if message.tool_call_id else []
    return "; ".join(facts)


def _parts(message: ChatMessage) -> Iterator[tuple[str, str]]:
    """The texts of a message with our words for them; what it says itself has none."""
    if isinstance(message, AssistantMessage) and message.reasoning:
        yield "reasoning", message.reasoning
    calls = message.tool_calls if isinstance(message, AssistantMessage) else ()
    error = message.error if isinstance(message, ToolMessage) else None
    if message.content or not (calls or error):
        yield "content" if isinstance(message, AssistantMessage) and message.reasoning else "", message.content
    for call in calls:
        yield _named("tool call", call.id), _called(call)
        if call.metadata:
            yield "of this call", plain(call.metadata)
    if error is not None:
        yield "error", error


def _called(call: TranscriptToolCall) -> str:
    return "\n".join([call.function, *([plain(call.arguments)] if call.arguments else [])])


def _named(what: str, name: str | None) -> str:
    return f"{what} {quoted(name)}" if name else what
