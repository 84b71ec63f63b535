"""Agent runs out of JSON that anybody wrote, redacted as they are read: errors name the file and the place in it."""

import json
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from evalscribe.agent_run.noun import AgentRun
from evalscribe.agent_run.written import ROLES
from evalscribe.errors import DataError
from evalscribe.json_clean import clean
from evalscribe.redaction import redact_json

MOST_PROBLEMS = 3


def parse_agent_run(text: str | Mapping[str, Any], where: str) -> AgentRun:
    """One run from a JSON object or its text, without secrets and without what cannot be stored.

    Raises `DataError`: `runs.json: transcripts[0].messages[2]: no role`.
    """
    value = _json(text, where) if isinstance(text, str) else text
    if not isinstance(value, Mapping):
        raise DataError(f"{where}: an agent run is a JSON object with transcripts, this is {_kind(value)}")
    try:
        return AgentRun.model_validate(redact_json(clean(dict(value))))
    except DataError as error:
        raise DataError(f"{where}: {error}") from None
    except ValidationError as error:
        raise DataError(f"{where}: {_told(error)}") from None
    except RecursionError:
        raise DataError(f"{where}: is nested too deeply") from None


def parse_agent_runs(text: str, where: str) -> list[AgentRun]:
    """Every run of a file: one object, a list of them, or one per line. Raises `DataError`."""
    text = text.removeprefix("\ufeff")
    values = _values(text, where)
    if not values:
        raise DataError(f"{where}: holds no agent run")
    return [parse_agent_run(value, place) for place, value in values]


def _values(text: str, where: str) -> list[tuple[str, Any]]:
    """The objects, each with where it stands."""
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if len(lines) > 1 and _whole(lines[0][1]):
        return [(f"{where}:{number}", _json(line, f"{where}:{number}")) for number, line in lines]
    value = _json(text, where) if lines else []
    return [(f"{where}[{n}]", part) for n, part in enumerate(value)] if isinstance(value, list) else [(where, value)]


def _whole(line: str) -> bool:
    """Whether a line is a JSON object of its own, so that the file has one per line."""
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(f"{where}: no JSON at line {error.lineno}, column {error.colno}: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: no JSON that can be read: {error}"[:300]) from None


def _told(error: ValidationError) -> str:
    problems = [f"{_path(problem['loc'])}: {_said(problem['msg'])}" for problem in error.errors(include_input=False)]
    more = f" (and {len(problems) - MOST_PROBLEMS} more)" if len(problems) > MOST_PROBLEMS else ""
    return "; ".join(problems[:MOST_PROBLEMS]) + more


def _said(message: str) -> str:
    return message.removeprefix("Value error, ")


def _path(place: tuple[int | str, ...]) -> str:
    """`transcripts[0].messages[3].content`: the role, by which pydantic tells messages apart, is no part of it."""
    path = ""
    for before, part in zip(("", *place), place, strict=False):
        if isinstance(part, int):
            path += f"[{part}]"
        elif not (part in ROLES and isinstance(before, int)):
            path += f".{part}" if path else part
    return path or "agent run"


def _kind(value: object) -> str:
    return {list: "a list", str: "a string", type(None): "null"}.get(type(value), "no object")
