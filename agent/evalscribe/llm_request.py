"""What a model is asked through the SDK: texts, and references to what the collection holds in their places."""

import math
from collections.abc import Sequence
from functools import reduce
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ModelWrapValidatorHandler,
    RootModel,
    ValidationError,
    model_validator,
)

from evalscribe.errors import UsageError
from evalscribe.ids import Frozen, content_id
from evalscribe.json_clean import is_clean
from evalscribe.output_schema.path import joined, shown

__all__ = ["AgentRunRef", "LLMRequest", "Prompt", "Ref", "ResultRef", "Segment", "TranscriptRef"]
DEEPEST = 50
"""Levels of metadata."""


def _said(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty")
    if not is_clean(text):
        raise ValueError("holds NUL or half a character (a lone surrogate)")
    return text


Id = Annotated[str, Field(strict=True), AfterValidator(_said)]


class Told(Frozen):
    """Values whose making raises only `UsageError`, which says what is wrong where."""

    called: ClassVar[str | None] = None
    """What errors call it; None for the name of its class."""

    @model_validator(mode="wrap")
    @classmethod
    def _one_error(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler(data)
        except ValidationError as error:
            raise UsageError(problem(cls.called or cls.__name__, error)) from None


class AgentRunRef(Told):
    """All of an agent run: metadata and every transcript, in the prompt as `R0`, `T0B0` …"""

    type: Literal["agent_run"] = "agent_run"
    id: Id
    collection_id: Id | None = None
    """Without one, the collection that is asked about."""


class TranscriptRef(Told):
    """One transcript, in the prompt as `T0B0`, `T0B1` …"""

    type: Literal["transcript"] = "transcript"
    id: Id
    collection_id: Id | None = None


class ResultRef(Told):
    """What an earlier request was answered, in the prompt as `A0`."""

    type: Literal["result"] = "result"
    id: Id
    result_set_id: Id
    collection_id: Id | None = None


Ref = AgentRunRef | TranscriptRef | ResultRef
Segment = str | Annotated[Ref, Field(discriminator="type")]
_REFS = ("agent_run", "transcript", "result")


def _segment(value: object) -> object:
    """A text, a reference, or a reference as it was stored."""
    stored = isinstance(value, dict) and value.get("type") in _REFS
    if not stored and not isinstance(value, str | Ref):
        raise ValueError(f"must be a text, an AgentRunRef, a TranscriptRef or a ResultRef, not {_spelled(value)}")
    return value


def _said_at_all(segments: tuple[Segment, ...]) -> tuple[Segment, ...]:
    kept = tuple(one for one in segments if not isinstance(one, str) or one.strip())
    if not kept:
        raise ValueError("is empty")
    return kept


class Prompt(
    RootModel[
        Annotated[
            tuple[Annotated[Segment, BeforeValidator(_segment)], ...],
            AfterValidator(_said_at_all),
        ]
    ]
):
    """`Prompt(["Why did this fail?", AgentRunRef(id=…)])`: texts and references, in the order they are read.

    Texts stay as they are; one of white space only is left out. Raises `UsageError`.
    """

    model_config = ConfigDict(frozen=True)

    def __init__(self, segments: Sequence[Segment] | str) -> None:
        super().__init__((segments,) if isinstance(segments, str) else segments)

    @model_validator(mode="wrap")
    @classmethod
    def _one_error(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler((data,) if isinstance(data, str) else data)
        except ValidationError as error:
            raise UsageError(problem("Prompt", error)) from None

    @property
    def segments(self) -> tuple[Segment, ...]:
        return self.root

    @property
    def refs(self) -> tuple[Ref, ...]:
        """Each once, in order."""
        return tuple(dict.fromkeys(one for one in self.root if not isinstance(one, str)))


def _json(value: Any, left: int = DEEPEST) -> Any:
    """As JSON has it: numbers of numpy and pandas become numbers, what is not a number becomes null."""
    if not left:
        raise ValueError("is nested too deeply")
    if isinstance(value, dict):
        return {str(name): _json(one, left - 1) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_json(one, left - 1) for one in value]
    if hasattr(value, "item") and not isinstance(value, str | bytes):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


class LLMRequest(Told):
    """One question to a model. `LLMRequest(prompt=Prompt([...]), metadata={"task": "12"})`"""

    prompt: Prompt
    metadata: Annotated[dict[str, JsonValue], BeforeValidator(lambda value: _json({} if value is None else value))] = (
        Field(default_factory=dict)
    )
    """Comes back beside the answer, as `user_metadata`; NUL and lone surrogates as U+FFFD."""

    @property
    def digest(self) -> str:
        """Content id: equal requests are one."""
        return content_id(self)


def problem(name: str, error: ValidationError) -> str:
    """`AgentRunRef: id is missing`."""
    details = error.errors(include_url=False)[0]
    path = reduce(joined, details["loc"], "")
    match details["type"]:
        case "missing":
            told = "is missing"
        case "extra_forbidden":
            told = "is unknown"
        case "value_error":
            told = str(details["ctx"]["error"])
        case "invalid-json-value":
            told = f"is no JSON value but {_spelled(details['input'])}"
        case "tuple_type" | "dict_type":
            told = (
                f"must be a {'list' if details['type'] == 'tuple_type' else 'dict'}, not {_spelled(details['input'])}"
            )
        case "model_type":
            told = f"must be made by {details['ctx']['class_name']}(…), not {_spelled(details['input'])}"
        case _:
            told = f"{details['msg'].replace('Input should', 'must', 1)}, not {_spelled(details['input'])}"
    return f"{name}: {path} {told}" if path else f"{name}: {told}"


def _spelled(value: object) -> str:
    return "nothing" if value is None else shown(value)
