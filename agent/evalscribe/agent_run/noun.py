"""Runs, transcripts and messages. What other tools write in other shapes is understood, what is unknown is kept.

An `AgentRun` is one eval with its transcripts (DESIGN: words). Ids are made where none is given.
"""

from functools import cache
from typing import Annotated, Any, Literal
from uuid import uuid4

from pydantic import BeforeValidator, ConfigDict, Field, JsonValue, field_validator, model_validator

from evalscribe.agent_run import written
from evalscribe.ids import Frozen, content_id


def _new_id() -> str:
    return str(uuid4())


class _Kept(Frozen):
    """Unknown fields go to `metadata`, which a judge is shown; a null means the default."""

    model_config = ConfigDict(frozen=True, extra="forbid", coerce_numbers_to_str=True)

    metadata: dict[str, JsonValue] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _as_written(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return written.with_unknown_kept(cls._understood(value), _names(cls))

    @classmethod
    def _understood(cls, value: dict[str, Any]) -> dict[str, Any]:
        """The same in our words. `value` is not changed."""
        return value


@cache
def _names(shape: type[_Kept]) -> frozenset[str]:
    """Of its fields; pydantic takes its time to tell them, and every message asks."""
    return frozenset(shape.model_fields)


class TranscriptToolCall(_Kept):
    """A call of a tool, as an assistant's message records it."""

    id: str = ""
    function: str
    arguments: dict[str, JsonValue] = Field(default_factory=dict)

    @classmethod
    def _understood(cls, value: dict[str, Any]) -> dict[str, Any]:
        return written.tool_call(value)


class _Message(_Kept):
    """Fields that every role shares."""

    content: str = ""
    """A list of parts is joined; an image stands there as `[image]`, what it was in `metadata["parts"]`."""
    id: str | None = None

    @classmethod
    def _understood(cls, value: dict[str, Any]) -> dict[str, Any]:
        return written.joined(value, with_reasoning=False)


class SystemMessage(_Message):
    role: Literal["system"] = "system"


class UserMessage(_Message):
    role: Literal["user"] = "user"


class AssistantMessage(_Message):
    role: Literal["assistant"] = "assistant"
    reasoning: str = ""
    """All of it, in order."""
    model: str | None = None
    tool_calls: tuple[TranscriptToolCall, ...] = ()

    @classmethod
    def _understood(cls, value: dict[str, Any]) -> dict[str, Any]:
        return written.joined(value, with_reasoning=True)


class ToolMessage(_Message):
    role: Literal["tool"] = "tool"
    tool_call_id: str | None = None
    function: str | None = None
    error: str | None = None

    @classmethod
    def _understood(cls, value: dict[str, Any]) -> dict[str, Any]:
        return written.tool_result(written.joined(value, with_reasoning=False))


ChatMessage = Annotated[
    Annotated[SystemMessage | UserMessage | AssistantMessage | ToolMessage, Field(discriminator="role")],
    BeforeValidator(written.with_known_role),
]


class Transcript(_Kept):
    id: str = Field(default_factory=_new_id)
    name: str | None = None
    messages: tuple[ChatMessage, ...] = ()


class AgentRun(_Kept):
    """One eval with its transcripts. Scores stand in `metadata["scores"]` by convention."""

    id: str = Field(default_factory=_new_id)
    name: str | None = None
    transcripts: tuple[Transcript, ...]
    """At least one."""

    @field_validator("transcripts")
    @classmethod
    def _some(cls, transcripts: tuple[Transcript, ...]) -> tuple[Transcript, ...]:
        if not transcripts:
            raise ValueError("an agent run has at least one transcript")
        return transcripts

    @classmethod
    def _understood(cls, value: dict[str, Any]) -> dict[str, Any]:
        return written.agent_run(value)

    @property
    def digest(self) -> str:
        """Content id of what a judge can see; ids are no part of it."""
        messages: Any = {"__all__": {"id": True}}
        unseen: Any = {"id": True, "transcripts": {"__all__": {"id": True, "messages": messages}}}
        return content_id(self.model_dump(mode="json", exclude=unseen))
