"""An earlier answer as it is shown in a new prompt: as text, what it cites quoted in place of its marks.

Its marks name items of another prompt, so nobody can follow them here.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evalscribe.ids import canonical_json
from evalscribe.judging.subject.plain import plain

BETWEEN = frozenset(",; \t\n")
"""What may stand between two marks in one pair of brackets."""


def told(output: Mapping[str, Any]) -> str:
    """`output`, without a schema, is its text; else one line for each field."""
    if _cites(output, "output"):
        return _quoting(output["output"], output["citations"])
    return plain(_fields(output))


def as_written(output: Mapping[str, Any]) -> dict[str, Any]:
    """An output with its strings as the model wrote them, without what their citations came to."""
    if _cites(output, "output"):
        return {"output": output["output"]}
    return {name: _raw(value) for name, value in output.items()}


def _raw(value: Any) -> Any:
    if isinstance(value, list):
        return [_raw(one) for one in value]
    if not isinstance(value, dict):
        return value
    return value["text"] if _cites(value, "text") else {name: _raw(one) for name, one in value.items()}


def _fields(value: Any) -> Any:
    if isinstance(value, list):
        return [_fields(one) for one in value]
    if not isinstance(value, dict):
        return value
    if _cites(value, "text"):
        return _quoting(value["text"], value["citations"])
    return {name: _fields(one) for name, one in value.items()}


def _cites(value: Mapping[str, Any], name: str) -> bool:
    return set(value) == {name, "citations"} and isinstance(value[name], str) and isinstance(value["citations"], list)


def _quoting(text: str, citations: Sequence[Mapping[str, Any]]) -> str:
    told, at = "", 0
    for start, end, quotes in _brackets(text, citations):
        said = ", ".join(canonical_json(quote) for quote in quotes)
        told += text[at:start] if said else text[at:start].rstrip(" ")
        told += f"({said})" if said else ""
        at = end
    return told + text[at:]


def _brackets(text: str, citations: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, int, list[str]]]:
    """Marks that stand together as one: where, and what they quote."""
    whole: tuple[int, int, list[str]] | None = None
    for one in citations:
        start, end, quote = one["start_idx"], one["end_idx"], one.get("quote")
        quotes = [quote.strip()] if quote else []
        if whole and set(text[whole[1] : start]) <= BETWEEN and not text[: whole[1]].endswith("]"):
            whole = (whole[0], end, whole[2] + quotes)
            continue
        if whole:
            yield whole
        whole = (start, end, quotes)
    if whole:
        yield whole
