"""Prompts as targets: the template filled with an item's input, asked of a model."""

from collections.abc import Sequence
from time import perf_counter
from typing import Any

from pydantic import JsonValue

from evalscribe.errors import DataError
from evalscribe.json_data import StrictJson, clean_text
from evalscribe.model.chat import CallFailed, Message, Reply, Request
from evalscribe.model.output_schema import provider_schema
from evalscribe.model.protocols import Model
from evalscribe.model.target import (
    TargetCall,
    TargetFailure,
    TargetMessage,
    TargetPromptVersion,
    TargetReply,
    UnknownVariable,
    fill_template,
)
from evalscribe.model.transcript import AssistantMessage, ChatMessage, SystemMessage, Transcript, UserMessage
from evalscribe.redaction.redact import redact

_NO_ANSWER = {
    "max_tokens": "the answer was cut off at {max_tokens} tokens (max_tokens)",
    "refusal": "the model refused to answer",
    "context_exceeded": "prompt and answer do not fit the model",
    "tool_use": "the model called a tool, and was given none",
}


class PromptedModel:
    """`Target` of one version of a prompt. Its model is closed by whoever opened it.

    The output is the answer's text; where that is a JSON object or array it is that, with an `output_schema` always.
    """

    def __init__(self, prompt: TargetPromptVersion, model: Model) -> None:
        self._prompt = prompt
        self._model = model

    async def answer(self, call: TargetCall) -> TargetReply | TargetFailure:
        """Raises `EvalscribeError` for what concerns all questions to the model."""
        began = perf_counter()
        try:
            messages = tuple(
                message.model_copy(update={"content": fill_template(message.content, call.input)})
                for message in self._prompt.messages
            )
            reply = await self._model.complete(self._asked(messages, call.repetition))
        except UnknownVariable as error:
            return TargetFailure(reason=str(error))
        except CallFailed as error:
            return TargetFailure(reason=redact(error.reason), usage=error.usage, duration_ms=_since(began))
        return self._told(messages, reply, _since(began))

    async def close(self) -> None:
        return None

    def _asked(self, messages: Sequence[TargetMessage], repetition: int) -> Request:
        schema = self._prompt.output_schema
        return Request(
            system="\n\n".join(message.content for message in messages if message.role == "system"),
            messages=tuple(
                Message(role=message.role, text=message.content) for message in messages if message.role != "system"
            ),
            max_tokens=self._prompt.max_tokens,
            effort=self._prompt.effort,
            answer_schema=provider_schema(schema) if schema else None,
            rollout=repetition - 1,
        )

    def _told(self, messages: Sequence[TargetMessage], reply: Reply, duration_ms: float) -> TargetReply | TargetFailure:
        text = redact(clean_text(reply.text))
        seen: dict[str, Any] = {
            "transcript": Transcript(messages=(*map(_spoken, messages), AssistantMessage(content=text))),
            "usage": reply.usage,
            "duration_ms": duration_ms,
        }
        if reply.stop in _NO_ANSWER:
            reason = _NO_ANSWER[reply.stop].format(max_tokens=self._prompt.max_tokens)
            return TargetFailure(reason=reason, log=text, **seen)
        try:
            output = _output(text, always=self._prompt.output_schema is not None)
        except DataError as error:
            return TargetFailure(reason=f"the answer has to fit the prompt's output_schema: {error}", log=text, **seen)
        return TargetReply(output=output, model=self._prompt.model, **seen)


def _output(text: str, *, always: bool) -> JsonValue:
    """Raises `DataError` for text that has to be JSON and is none."""
    try:
        value: Any = StrictJson().decode(text)
    except DataError:
        if always:
            raise
        return text
    return value if always or isinstance(value, dict | list) else text


def _spoken(message: TargetMessage) -> ChatMessage:
    content = redact(clean_text(message.content))
    match message.role:
        case "system":
            return SystemMessage(content=content)
        case "user":
            return UserMessage(content=content)
        case "assistant":
            return AssistantMessage(content=content)


def _since(began: float) -> float:
    return (perf_counter() - began) * 1000
