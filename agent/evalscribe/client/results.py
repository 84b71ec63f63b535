"""Result sets as the SDK hands them out: dicts, and data frames."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from evalscribe.app.requests.submit import Submitted
from evalscribe.errors import UsageError
from evalscribe.model.result import Result, ResultCounts, ResultSet, ResultSetSummary

if TYPE_CHECKING:
    from pandas import DataFrame

ABOUT = ("model", "input_tokens", "output_tokens", "cost_usd", "created_at")


def of_submitted(done: Submitted) -> dict[str, Any]:
    """What `submit_llm_requests` gives back."""
    return {
        "result_set_id": done.result_set.id,
        "name": done.result_set.name,
        "collection_id": done.result_set.collection_id,
        "counts": {**done.counts.model_dump(), "pending": done.counts.pending, "asked": done.asked},
        "citations": done.citations.model_dump(mode="json"),
        "spent": done.spent.model_dump(mode="json"),
    }


def of_set(made: ResultSet, counts: ResultCounts) -> dict[str, Any]:
    return ResultSetSummary.of(made, counts).model_dump(mode="json")


def of_result(result: Result) -> dict[str, Any]:
    told = ("id", "number", "user_metadata", "output", "error", *ABOUT)
    fields = result.model_dump(mode="json", include=set(told))
    return {**{name: fields[name] for name in told}, "citations": result.citations.model_dump(mode="json")}


def frame(results: Sequence[Result], *, include_incomplete: bool) -> "DataFrame":
    """A row for each result. Raises `UsageError` without pandas."""
    try:
        from pandas import DataFrame
    except ImportError as error:
        raise UsageError(
            "data frames need pandas: pip install 'evalscribe[data]'; get_results gives the same as dicts"
        ) from error
    rows = [dict(_cells(one, include_incomplete=include_incomplete)) for one in results]
    columns = dict.fromkeys(name for row in rows for name in row)
    return DataFrame(rows, columns=sorted(columns or _EMPTY, key=_place))


_EMPTY = ("id", *ABOUT)
_ORDER = ("id", "user_metadata", "output", "error", *ABOUT)


def _place(column: str) -> int:
    """Columns of a group stay in the order in which they come."""
    return _ORDER.index(column.partition(".")[0])


def _cells(result: Result, *, include_incomplete: bool) -> Iterator[tuple[str, Any]]:
    fields = result.model_dump(mode="json")
    yield "id", result.id
    yield from ((f"user_metadata.{name}", value) for name, value in fields["user_metadata"].items())
    for name, value in (fields["output"] or {}).items():
        cited = isinstance(value, dict) and set(value) == {"text", "citations"}
        yield f"output.{name}", value["text"] if cited else value
        if cited:
            yield f"output.{name}.citations", value["citations"]
    if include_incomplete:
        yield "error", result.error
    yield from ((name, fields[name]) for name in ABOUT)
