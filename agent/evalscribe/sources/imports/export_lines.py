"""JSON lines of our own: `{"run": …}`, then its evals, one a line. Template and parser side by side."""

import json
from collections.abc import Mapping

from pydantic import ValidationError

from evalscribe.errors import DataError
from evalscribe.record import Record
from evalscribe.run import Run
from evalscribe.sources.imports.values import safe

_UNTOLD = {"failures"}
"""They are records."""


def written(one: Run | Record) -> str:
    """One line without its end; `parsed` of it is the same."""
    if isinstance(one, Run):
        return _json({"run": one.model_dump(mode="json", exclude=_UNTOLD)})
    value = one.model_dump(mode="json")
    return _json({"eval": value.pop("eval"), **value})


def parsed(value: object, run_id: str | None) -> Run | Record:
    """A decoded line, redacted; a record without a `run_id` belongs to the run before it. Raises `DataError`."""
    kept = safe(value)
    if not isinstance(kept, dict):
        raise DataError("a line that is no object")
    try:
        if set(kept) == {"run"}:
            return Run.model_validate(_run(kept["run"]))
        return Record.model_validate({"run_id": run_id, **kept})
    except ValidationError as error:
        problem = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(part) for part in problem["loc"] if not isinstance(part, int))
        raise DataError(f"a line whose `{place}` is wrong: {problem['msg'].lower()}") from None


def is_ours(value: object) -> bool:
    """Whether this is the first line of such a file."""
    if not isinstance(value, Mapping) or not ("run" in value or "eval" in value):
        return False
    held = value.get("run", value.get("eval"))
    return isinstance(held, Mapping) and "id" in held and ("model" in held or "name" in held)


def _run(value: object) -> object:
    """Without what records say."""
    return {key: part for key, part in value.items() if key not in _UNTOLD} if isinstance(value, dict) else value


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
