"""Submit requests with a progress bar, and return results as dicts or data frames."""

import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from evalscribe.client.service import BaseLLMService
from evalscribe.collections.choice import ARGUMENT, choose_collection
from evalscribe.collections.requests import EXAMPLE, RequestOptions, SubmittedRequests, answer_requests
from evalscribe.errors import UsageError
from evalscribe.model.chat import Usage
from evalscribe.model.result import Result, ResultCounts, ResultSet, ResultSetSummary
from evalscribe.text import dollars, one_line, pluralise
from evalscribe.workspace import Workspace

if TYPE_CHECKING:
    from pandas import DataFrame
    from rich.progress import Progress


ABOUT = ("model", "input_tokens", "output_tokens", "cost_usd", "created_at")


def submission_dict(done: SubmittedRequests) -> dict[str, Any]:
    """Return the result of `submit_llm_requests`."""
    return {
        "result_set_id": done.result_set.id,
        "name": done.result_set.name,
        "collection_id": done.result_set.collection_id,
        "counts": {**done.counts.model_dump(), "pending": done.counts.pending, "asked": done.asked},
        "citations": done.citations.model_dump(mode="json"),
        "spent": done.spent.model_dump(mode="json"),
    }


def result_set_dict(made: ResultSet, counts: ResultCounts) -> dict[str, Any]:
    return ResultSetSummary.of(made, counts).model_dump(mode="json")


def result_dict(result: Result) -> dict[str, Any]:
    told = ("id", "number", "user_metadata", "output", "error", *ABOUT)
    fields = result.model_dump(mode="json", include=set(told))
    return {**{name: fields[name] for name in told}, "citations": result.citations.model_dump(mode="json")}


def to_data_frame(results: Sequence[Result], *, include_incomplete: bool) -> "DataFrame":
    """Return one row per result. Raises `UsageError` without pandas."""
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
    """Return the sort key of a column; columns of a group stay in their original order."""
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


class RequestProgress:
    """A progress bar on standard error. `rich` is loaded only if the bar is visible."""

    def __init__(self) -> None:
        self._errors = 0
        self._spent = Usage()
        self._last_error = ""
        self._shown = _shown()
        self._task = None if self._shown is None else self._shown.add_task("", total=None, told="")

    def __enter__(self) -> Self:
        if self._shown:
            self._shown.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            self._shown.stop()

    def begun(self, name: str, done: int, total: int) -> Callable[[Result, bool], None]:
        """Show how many requests are answered already; return what shows an answer."""
        if self._shown and self._task is not None:
            self._shown.update(self._task, description=one_line(name), completed=done, total=total)
        return self.answered

    def answered(self, result: Result, known: bool) -> None:
        self._errors += result.error is not None
        self._spent += Usage() if known else _usage(result)
        self._last_error = result.error or self._last_error
        if self._shown and self._task is not None:
            self._shown.update(self._task, advance=1, told=self._told())

    def ended(self, done: SubmittedRequests) -> None:
        """Print the last line, which stays."""
        if self._shown:
            self._shown.console.print(_ended(done, self._last_error), markup=False, highlight=False)

    def _told(self) -> str:
        errors = [pluralise(self._errors, "error")] if self._errors else []
        return ", ".join([*errors, _price(self._spent)])


def _shown() -> "Progress | None":
    """Return a bar; None if it would not be visible. A notebook needs ipywidgets for it."""
    in_notebook = "ipykernel" in sys.modules
    if not (sys.stderr.isatty() or (in_notebook and find_spec("ipywidgets"))):
        return None
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(file=None if in_notebook else sys.stderr, soft_wrap=True)
    told = TextColumn("{task.fields[told]}", markup=False)
    name = TextColumn("{task.description}", markup=False)
    return Progress(name, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), told, console=console)


def _ended(done: SubmittedRequests, last_error: str) -> str:
    counts, cites = done.counts, done.citations
    line = f"{one_line(done.result_set.name)}: {pluralise(counts.results, 'result')}"
    line += f", {pluralise(counts.errors, 'error')} (such as: {one_line(last_error)})" if counts.errors else ""
    line += f"; {cites.unverified} of {cites.verified + cites.relocated + cites.unverified} citations unverified"
    return f"{line}; asked {done.asked}, spent {_price(done.spent)}"


def _price(usage: Usage) -> str:
    """Format the cost, in tokens if the model has no price."""
    return dollars(usage.cost_usd) if usage.cost_usd else f"{usage.input_tokens + usage.output_tokens:,} tokens"


def _usage(result: Result) -> Usage:
    return Usage(input_tokens=result.input_tokens, output_tokens=result.output_tokens, cost_usd=result.cost_usd)


def submit_requests(
    service: BaseLLMService, workspace: Workspace, collection_id: str | None, fields: dict[str, Any], lanes: int | None
) -> dict[str, Any]:
    """Submit requests; `fields` are those of `RequestOptions`, `lanes` is the concurrency."""
    if fields["model"] is None:
        raise UsageError(f"model_string is missing: give provider/model, such as {EXAMPLE}")
    if lanes is not None and lanes < 1:
        raise UsageError(f"max_concurrency must be at least 1, not {lanes}")
    submission = RequestOptions(**fields)
    collection = choose_collection(workspace, collection_id, ARGUMENT)

    with RequestProgress() as bar:
        done = service.wait(
            lambda models: answer_requests(workspace, models, collection, submission, bar.begun, concurrency=lanes)
        )
        bar.ended(done)
    return submission_dict(done)
