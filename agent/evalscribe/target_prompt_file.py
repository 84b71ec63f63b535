"""Prompts as the files that people write: YAML, JSON, or a text that may begin with front matter."""

from pathlib import PurePath
from typing import Any

from pydantic import Field, ValidationError

from evalscribe.chat import Effort
from evalscribe.errors import DataError, RubricError
from evalscribe.ids import Frozen
from evalscribe.output_schema import check_schema
from evalscribe.strict_json import StrictJson
from evalscribe.target_prompt import TargetMessage, variables
from evalscribe.yaml_text import parsed

LARGEST = 256 * 1024
"""Bytes of one file."""
MOST_TOKENS = 128_000
_FENCE = "---\n"


class PromptFile(Frozen):
    """What a file may hold. `text` is one message of the user; `system` stands before all messages."""

    model: str | None = None
    system: str | None = None
    text: str | None = None
    messages: tuple[TargetMessage, ...] = ()
    max_tokens: int = Field(default=4096, ge=1, le=MOST_TOKENS)
    effort: Effort | None = None
    output_schema: dict[str, Any] | None = None

    @property
    def said(self) -> tuple[TargetMessage, ...]:
        """All messages, in order."""
        first = (TargetMessage(role="system", content=self.system),) if self.system else ()
        text = (TargetMessage(role="user", content=self.text),) if self.text else ()
        return (*first, *self.messages, *text)


def parse_prompt(text: str, where: str) -> PromptFile:
    """`where` is its path. Raises `DataError` saying what is wrong, and where."""
    try:
        made = PromptFile.model_validate(_fields(text.removeprefix("\ufeff").replace("\r\n", "\n"), where))
        _check(made, where)
    except RubricError as error:
        raise DataError(str(error) if error.where else f"{where}: {error}") from None
    except ValidationError as error:
        raise DataError(f"{where}: {_told(error)}") from None
    return made


def _fields(text: str, where: str) -> dict[str, Any]:
    match PurePath(where).suffix.lower():
        case ".json":
            return _mapping(StrictJson().decode(text), where)
        case ".yaml" | ".yml":
            return _mapping(parsed(text, where).value, where)
    if not text.startswith(_FENCE):
        return {"text": text.strip()}
    front, ended, body = text.removeprefix(_FENCE).partition(f"\n{_FENCE}")
    if not ended:
        raise DataError(f"{where}: the front matter, which begins with ---, does not end with such a line")
    return {**_mapping(parsed(front, where).value or {}, where), "text": body.strip()}


def _mapping(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DataError(f"{where}: a prompt is an object with model, and messages or text")
    return value


def _check(made: PromptFile, where: str) -> None:
    roles = [message.role for message in made.said]
    if made.text and made.messages:
        raise DataError(f"{where}: has messages and text: text is short for one message of the user")
    if "user" not in roles:
        raise DataError(f"{where}: has no message of the user")
    if roles[-1] != "user":
        raise DataError(f"{where}: ends with a message of the {roles[-1]}: the last one has to be the user's")
    spoken = [role for role in roles if role != "system"]
    if roles[len(roles) - len(spoken) :] != spoken or spoken[0] != "user":
        raise DataError(f"{where}: messages of the system stand first, then one of the user")
    if not any(variables(message.content) for message in made.said):
        raise DataError(f"{where}: has no {{{{input}}}}: every item would be asked the same")
    if made.output_schema is not None:
        check_schema(made.output_schema)


def _told(error: ValidationError) -> str:
    first = error.errors(include_input=False)[0]
    place = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        return f"{place} is unknown; there is {', '.join(PromptFile.model_fields)}"
    return f"{place}: {first['msg'].removeprefix('Value error, ')}"
