"""What an agent did: transcripts of messages, as the SDK's users and importers give them.

An `AgentRun` is one eval with its transcripts (DESIGN: words). Ids are made where none is given.
"""

from typing import Annotated, Any, Literal
from uuid import uuid4

from pydantic import ConfigDict, Field, JsonValue

from evalscribe.ids import Frozen, content_id


def _new_id() -> str:
    return str(uuid4())


class TranscriptToolCall(Frozen):
    """A call of a tool, as an assistant's message records it."""

    id: str = ""
    function: str
    arguments: dict[str, JsonValue] = Field(default_factory=dict)


class _Message(Frozen):
    """Fields that every role shares. What other tools add is kept in `metadata`, never dropped."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    content: str = ""
    id: str | None = None
    metadata: dict[str, JsonValue] = Field(default_factory=dict)


class SystemMessage(_Message):
    role: Literal["system"] = "system"


class UserMessage(_Message):
    role: Literal["user"] = "user"


class AssistantMessage(_Message):
    role: Literal["assistant"] = "assistant"
    reasoning: str = ""
    model: str | None = None
    tool_calls: tuple[TranscriptToolCall, ...] = ()


class ToolMessage(_Message):
    role: Literal["tool"] = "tool"
    tool_call_id: str | None = None
    function: str | None = None
    error: str | None = None


ChatMessage = Annotated[SystemMessage | UserMessage | AssistantMessage | ToolMessage, Field(discriminator="role")]


class Transcript(Frozen):
    id: str = Field(default_factory=_new_id)
    name: str | None = None
    messages: tuple[ChatMessage, ...] = ()
    metadata: dict[str, JsonValue] = Field(default_factory=dict)


class AgentRun(Frozen):
    """One eval with its transcripts. Scores stand in `metadata["scores"]` by convention."""

    id: str = Field(default_factory=_new_id)
    name: str | None = None
    transcripts: Annotated[tuple[Transcript, ...], Field(min_length=1)]
    metadata: dict[str, JsonValue] = Field(default_factory=dict)

    @property
    def digest(self) -> str:
        """Content id of what a judge can see; made-up ids are no part of it."""
        return content_id(_without_ids(self.model_dump(mode="json")))


def _without_ids(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_ids(part) for key, part in value.items() if key != "id"}
    return [_without_ids(part) for part in value] if isinstance(value, list) else value
