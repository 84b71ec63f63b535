"""Use a workspace from Python: its collections, runs, rubrics, judges, requests and results."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

from evalscribe.client.service import MAX_TOKENS, BaseLLMService
from evalscribe.collections.import_all import CollectionImport, import_all, show_nothing
from evalscribe.collections.lookup import ARGUMENT, choose_collection
from evalscribe.collections.requests import (
    EXAMPLE,
    RequestOptions,
    SubmittedRequests,
    answer_requests,
    complete_results,
    count_results,
    list_result_sets,
    result_set_named,
)
from evalscribe.errors import NotFoundError, UsageError
from evalscribe.judging.judges import JudgeMaker
from evalscribe.model.chat import Effort, Usage
from evalscribe.model.record import AddedCounts
from evalscribe.model.result import LLMRequest, Result, ResultCounts, ResultLine, ResultSet, ResultSetSummary
from evalscribe.model.rubric import Collection, LabelSet, Rubric
from evalscribe.model.transcript import AgentRun
from evalscribe.remote.engine import LOCAL
from evalscribe.settings import Options
from evalscribe.text import dollars, one_line, pluralise
from evalscribe.workspace import Workspace

if TYPE_CHECKING:
    from pandas import DataFrame
    from rich.progress import Progress

    from evalscribe.judging.rubric_judge import RubricJudge


ABOUT = ("model", "input_tokens", "output_tokens", "cost_usd", "created_at")


def submission_dict(submitted: SubmittedRequests) -> dict[str, Any]:
    """Convert submitted requests to the dictionary that `submit_llm_requests` returns."""
    return {
        "result_set_id": submitted.result_set.id,
        "name": submitted.result_set.name,
        "collection_id": submitted.result_set.collection_id,
        "counts": {**submitted.counts.model_dump(), "pending": submitted.counts.pending, "sent": submitted.sent},
        "citations": submitted.citations.model_dump(mode="json"),
        "spent": submitted.spent.model_dump(mode="json"),
    }


def result_set_dict(result_set: ResultSet, counts: ResultCounts) -> dict[str, Any]:
    return ResultSetSummary.of(result_set, counts).model_dump(mode="json")


def to_data_frame(results: Sequence[Result], *, include_incomplete: bool) -> "DataFrame":
    """Return a data frame with one row for each result. Raises `UsageError` if pandas is not installed."""
    try:
        from pandas import DataFrame
    except ImportError as error:
        raise UsageError(
            "data frames need pandas: pip install 'evalscribe[data]'. Without pandas, get_results returns the same "
            "data as dicts."
        ) from error
    rows = [dict(_cells(result, include_incomplete=include_incomplete)) for result in results]
    columns = dict.fromkeys(name for row in rows for name in row)
    # If there are no rows, the columns are named explicitly, so that a script still finds them.
    return DataFrame(rows, columns=sorted(columns or _EMPTY, key=_place))


_EMPTY = ("id", *ABOUT)
_ORDER = ("id", "user_metadata", "output", "error", *ABOUT)


def _place(column: str) -> int:
    """Return the sort key of a column.

    Columns of one field, such as `output.a` and `output.b`, have the same key, so that they stay in their original
    order.
    """
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
        self._bar = _open_bar()
        self._task = None if self._bar is None else self._bar.add_task("", total=None, summary="")

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()

    def begin(self, name: str, done: int, total: int) -> Callable[[Result, bool], None]:
        """Show how many requests already have an answer. Returns the function to call for each further answer."""
        if self._bar and self._task is not None:
            self._bar.update(self._task, description=one_line(name), completed=done, total=total)
        return self.count_answer

    def count_answer(self, result: Result, cached: bool) -> None:
        self._errors += result.error is not None
        self._spent += Usage() if cached else _usage(result)
        self._last_error = result.error or self._last_error
        if self._bar and self._task is not None:
            self._bar.update(self._task, advance=1, summary=self._summary())

    def finish(self, submitted: SubmittedRequests) -> None:
        """Print a summary that stays on the screen."""
        if self._bar:
            self._bar.console.print(_summary_line(submitted, self._last_error), markup=False, highlight=False)

    def _summary(self) -> str:
        errors = [pluralise(self._errors, "error")] if self._errors else []
        return ", ".join([*errors, _price(self._spent)])


def _open_bar() -> "Progress | None":
    """Return a progress bar, or None if it would not be visible.

    In a notebook, a progress bar is visible only if ipywidgets is installed.
    """
    in_notebook = "ipykernel" in sys.modules
    if not (sys.stderr.isatty() or (in_notebook and find_spec("ipywidgets"))):
        return None
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(file=None if in_notebook else sys.stderr, soft_wrap=True)
    # Names of result sets can contain text in brackets, which rich would read as markup.
    summary = TextColumn("{task.fields[summary]}", markup=False)
    name = TextColumn("{task.description}", markup=False)
    return Progress(name, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), summary, console=console)


def _summary_line(submitted: SubmittedRequests, last_error: str) -> str:
    counts, citations = submitted.counts, submitted.citations
    line = f"{one_line(submitted.result_set.name)}: {pluralise(counts.results, 'result')}"
    line += f", {pluralise(counts.errors, 'error')} (such as: {one_line(last_error)})" if counts.errors else ""
    total = citations.verified + citations.relocated + citations.unverified
    line += f"; {citations.unverified} of {total} citations unverified"
    return f"{line}; {pluralise(submitted.sent, 'request')} sent, spent {_price(submitted.spent)}"


def _price(usage: Usage) -> str:
    """Format the cost in dollars, or in tokens if the model has no price."""
    return dollars(usage.cost_usd) if usage.cost_usd else f"{usage.input_tokens + usage.output_tokens:,} tokens"


def _usage(result: Result) -> Usage:
    return Usage(input_tokens=result.input_tokens, output_tokens=result.output_tokens, cost_usd=result.cost_usd)


def submit_requests(
    service: BaseLLMService,
    workspace: Workspace,
    collection_id: str | None,
    fields: dict[str, Any],
    concurrency: int | None,
) -> dict[str, Any]:
    """Submit requests to a model and wait for the results. Returns the dictionary that `submit_llm_requests` returns.

    `fields` are the fields of `RequestOptions`. `concurrency` is the maximum number of concurrent calls.
    """
    if fields["model"] is None:
        raise UsageError(f"model_string is missing: give provider/model, such as {EXAMPLE}")
    if concurrency is not None and concurrency < 1:
        raise UsageError(f"max_concurrency must be at least 1, not {concurrency}")
    submission = RequestOptions(**fields)
    collection = choose_collection(workspace, collection_id, ARGUMENT)

    with RequestProgress() as bar:
        submitted = service.wait(
            lambda models: answer_requests(
                workspace, models, collection, submission, bar.begin, concurrency=concurrency
            )
        )
        bar.finish(submitted)
    return submission_dict(submitted)


def import_dict(result: CollectionImport) -> dict[str, Any]:
    files = result.imports.values()
    left_out: dict[str, int] = {}
    for file in files:
        for phrase, count in file.left_out.items():
            left_out[phrase] = left_out.get(phrase, 0) + count
    return {
        "collection_id": result.collection.id,
        "run_ids": list(dict.fromkeys(run.id for file in files for run in file.runs)),
        **sum((file.added for file in files), AddedCounts()).model_dump(),
        "left_out": left_out,
        "stopped": [file.stopped for file in files if file.stopped],
    }


class Client:
    """Access to a workspace's store.

    A client can be used from any thread, even while an event loop is running.
    """

    def __init__(
        self, folder: Path | None = None, *, budget_usd: float | None = None, max_tokens: int | None = None
    ) -> None:
        """Open a workspace.

        Args:
            folder: The workspace's folder, or a folder inside it; the working folder by default.
            budget_usd: Budget in US dollars; by default the workspace's budget.
            max_tokens: Maximum tokens of all calls; by default the workspace's limit.

        Raises:
            UsageError: The settings cannot be read.
            AccessError, DataError: The store cannot be read.
        """
        # `yes` is set because a program cannot be asked for consent. Its calls are limited by the budget.
        self._workspace = Workspace(
            Options(budget=budget_usd, max_tokens=max_tokens, engine=LOCAL, yes=True), folder=folder
        )
        settings = self._workspace.settings
        self._service = BaseLLMService(
            settings.concurrency.value,
            max_tokens=settings.max_tokens.value or MAX_TOKENS,
            budget_usd=settings.budget.value,
            folder=folder,
        )
        self._collections = self._workspace.store.collections

    def create_collection(self, name: str, id: str | None = None) -> str:
        """Create a collection and return its id.

        Without `id`, a new id is generated. If a collection with this id and name already exists, the existing
        collection stays unchanged and its id is returned. Raises `UsageError` if the id belongs to a collection with
        a different name.
        """
        collection = Collection(id=id or str(uuid4()), name=name)
        self._collections.add_collection(collection)
        return collection.id

    def list_collections(self) -> list[dict[str, Any]]:
        """Return the `id` and `name` of each collection. Collections are in the order of their creation."""
        return [collection.model_dump(mode="json") for collection in self._collections.collections()]

    def create_rubric(self, collection_id: str, rubric: Rubric) -> str:
        """Store a rubric and return its id.

        If a rubric with this id exists, the new rubric becomes its next version, unless the content is the same. Raises
        `NotFoundError` for an unknown collection.
        """
        return self._collections.add_rubric(collection_id, rubric).id

    def get_rubric(self, collection_id: str, rubric_id: str, version: int | None = None) -> Rubric:
        """Return a version of a rubric, by default the latest.

        Raises `NotFoundError` if the collection, the rubric or the version does not exist. The message lists the
        collections, rubrics or versions that exist.
        """
        return self._collections.rubric(collection_id, rubric_id, version)

    def list_rubrics(self, collection_id: str) -> list[dict[str, Any]]:
        """Return the latest version of each rubric, with all fields. Rubrics are in the order of their ids.

        Raises `NotFoundError` for an unknown collection.
        """
        return [rubric.model_dump(mode="json") for rubric in self._collections.rubrics(collection_id)]

    def get_judge(self, collection_id: str, rubric_id: str, version: int | None = None) -> "RubricJudge":
        """Return a judge that can be called on any `AgentRun`: `result = await judge(agent_run)`.

        The judge uses the workspace's keys and budget, and reuses stored results. Raises `NotFoundError` for an unknown
        rubric, `AccessError` if the model's key is missing.
        """
        rubric = self.get_rubric(collection_id, rubric_id, version)
        return JudgeMaker(self._service, self._service.prompts, self._collections).by_model(rubric)

    def create_label_set(
        self, collection_id: str, name: str, label_schema: dict[str, Any], description: str | None = None
    ) -> str:
        """Create a label set and return its id.

        Raises `RubricError` for an invalid schema, `NotFoundError` for an unknown collection.
        """
        labels = LabelSet(name=name, description=description, label_schema=label_schema)
        self._collections.add_label_set(collection_id, labels)
        return labels.id

    def get_label_set(self, collection_id: str, label_set_id: str) -> dict[str, Any]:
        """Return the `id`, `name`, `description` and `label_schema` of a label set.

        Raises `NotFoundError` if the label set does not exist.
        """
        return self._collections.label_set(collection_id, label_set_id).model_dump(mode="json")

    def list_label_sets(self, collection_id: str) -> list[dict[str, Any]]:
        """Return all label sets of a collection, in order of creation.

        Raises `NotFoundError` for an unknown collection.
        """
        return [labels.model_dump(mode="json") for labels in self._collections.label_sets(collection_id)]

    def import_file(
        self,
        path: str | Path,
        collection: str | None = None,
        *,
        collection_id: str | None = None,
        provider: str | None = None,
        model: str | None = None,
        experiment: str | None = None,
        map: Mapping[str, str] | None = None,
        threshold: float | None = None,
        tasks: str | Path | None = None,
        reference_run: str | Path | None = None,
    ) -> dict[str, Any]:
        """Import the runs of a file or folder into a collection. A missing collection is created.

        `collection` is the name of the collection, by default the name of the file. `collection_id` is the id of the
        collection, by default derived from its name. For CSV and other tables of results, `map` names columns
        (`{"input": "question"}`), and `threshold` is the minimum score that passes. For agent benchmarks, `tasks` is
        the folder of the tasks that were run, and `reference_run` is a run of the reference answers to these tasks.
        Importing the same runs again adds nothing.

        Returns:
            `collection_id`, `run_ids`, and the counts `new`, `changed` and `same`. `left_out` maps descriptions of
            omitted data to counts. `stopped` lists the reasons why the reading of a file stopped early.

        Raises:
            DataError: The file contains no runs.
            NotFoundError: The file or the collection does not exist.
        """
        result = self._service.wait(
            lambda _: import_all(
                self._workspace,
                [str(path)],
                lambda _: show_nothing,
                collection=collection,
                collection_id=collection_id,
                provider=provider,
                model=model,
                experiment=experiment,
                map=map,
                threshold=threshold,
                tasks=Path(tasks) if tasks else None,
                reference_run=Path(reference_run) if reference_run else None,
            )
        )
        return import_dict(result)

    def list_agent_run_ids(self, collection_id: str | None = None) -> list[str]:
        """Return the ids of all agent runs of a collection.

        The ids are grouped by run, and are in the order of the imported files.
        """
        run_store, collection = self._workspace.store.runs, self._collection(collection_id)
        return [graded.eval.id for run in run_store.runs(collection.id) for graded in run_store.graded(run.id)]

    def get_agent_run(self, collection_id: str | None, agent_run_id: str) -> AgentRun:
        """Return an agent run with its transcripts and metadata.

        Raises `NotFoundError` if the collection does not have the agent run.
        """
        collection = self._collection(collection_id)
        record = self._workspace.store.runs.record(agent_run_id, collection.id)
        if record is None:
            raise NotFoundError(f"agent run {agent_run_id!r} not found in collection {collection.name!r}")
        return record.agent_run

    def submit_llm_requests(
        self,
        collection_id: str | None = None,
        requests: Sequence[LLMRequest] = (),
        model_string: str | None = None,
        result_set_name: str | None = None,
        exists_ok: bool = False,
        output_schema: dict[str, Any] | None = None,
        reasoning_effort: Effort | None = None,
        max_concurrency: int | None = None,
    ) -> dict[str, Any]:
        """Send every request to a model (`provider/name`), and return when the results are stored.

        Each result is stored as soon as it arrives. If the call is interrupted, call it again: requests that have an
        answer are not sent again. An error of one request is stored in its result; calling again with the same
        arguments retries the request. If a result set with this name already has different requests, the call is
        refused. With `exists_ok`, the requests are added to that result set instead. Answers are free text with
        citations, or match `output_schema`.

        Returns:
            `result_set_id`, `name`, `collection_id`, `counts`, `citations`, `spent`.

        Raises:
            UsageError: Requests or model are missing, the name is taken, or an agent run is in another collection.
            NotFoundError: A prompt refers to something that does not exist.
            EvalscribeError: A problem affects all requests.
        """
        request = {"requests": requests, "model": model_string, "name": result_set_name, "exists_ok": exists_ok}
        fields = {**request, "output_schema": output_schema, "reasoning_effort": reasoning_effort}
        return submit_requests(self._service, self._workspace, collection_id, fields, max_concurrency)

    def list_result_sets(self, collection_id: str | None = None, prefix: str | None = None) -> list[dict[str, Any]]:
        """List the result sets of a collection, or only those whose name begins with a prefix.

        Names are paths: the prefix `failures` matches `failures/causes/v1`, but not `failures-2`. Each result set
        includes counts of its requests.
        """
        sets = list_result_sets(self._workspace.store.results, self._collection(collection_id), prefix)
        return [result_set_dict(result_set, counts) for result_set, counts in sets]

    def get_result_set(self, collection_id: str | None, name_or_id: str) -> dict[str, Any]:
        """Return a result set with its counts of requests.

        Returns:
            `id`, `name`, `collection_id`, `output_schema`, `created_at`, the number of requests (`request_count`), and
            how many have an answer (`result_count`), an error (`error_count`) or neither yet (`pending_count`).

        Raises:
            NotFoundError: The result set does not exist. The message lists result sets with similar names.
        """
        result_set = result_set_named(self._workspace.store.results, self._collection(collection_id), name_or_id)
        return result_set_dict(result_set, count_results(self._workspace.store.results, result_set))

    def get_results(
        self, collection_id: str | None, name_or_id: str, include_incomplete: bool = False
    ) -> list[dict[str, Any]]:
        """Return the results of a result set in the order of the requests, with `user_metadata` and `output`.

        With `include_incomplete`, requests without an answer are included, with their `error`. Raises `NotFoundError`
        for an unknown result set.
        """
        result_set = result_set_named(self._workspace.store.results, self._collection(collection_id), name_or_id)
        return [
            ResultLine.of(result).model_dump(mode="json")
            for result in complete_results(
                self._workspace.store.results, result_set, include_incomplete=include_incomplete
            )
        ]

    def get_result_set_dataframe(
        self, collection_id: str | None, name_or_id: str, include_incomplete: bool = False
    ) -> "DataFrame":
        """Return the results of `get_results` as a data frame. Needs pandas.

        The columns are `id`, `user_metadata.<name>` and `output.<name>`, then the model, tokens, cost and time.
        """
        result_set = result_set_named(self._workspace.store.results, self._collection(collection_id), name_or_id)
        results = complete_results(self._workspace.store.results, result_set, include_incomplete=include_incomplete)
        return to_data_frame(results, include_incomplete=include_incomplete)

    def execute_dql(self, collection_id: str | None, dql: str, *, max_rows: int | None = None) -> dict[str, Any]:
        """Run one SELECT statement and return its result as a dictionary.

        The keys are `columns`, `rows`, `truncated`, `row_count`, `applied_limit` and `execution_time_ms`.

        agent/docs/sql.md describes tables and syntax. Raises `UsageError` with line and column for an invalid query,
        `NotFoundError` for an unknown collection, and `UnavailableError` if the query exceeds the time limit.
        """
        # Loads sqlglot, which most programs do not need.
        from evalscribe.collections.query import MOST_ROWS, run_query

        rows = MOST_ROWS if max_rows is None else max_rows
        answer = run_query(self._workspace.tables, self._collection(collection_id).id, dql, most_rows=rows)
        return answer.model_dump(mode="json")

    @staticmethod
    def dql_result_to_dicts(result: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Convert each row of a query result to a dictionary by column name.

        If several columns have the same name, only the value of the last of these columns is kept.
        """
        return [dict(zip(result["columns"], row, strict=True)) for row in result["rows"]]

    def close(self) -> None:
        """Close the client. Judges from `get_judge` can then no longer be called."""
        self._service.stop()
        self._workspace.close()

    def _collection(self, name: str | None) -> Collection:
        return choose_collection(self._workspace, name, ARGUMENT)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
