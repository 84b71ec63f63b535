"""Use a workspace from Python: its collections, runs, rubrics, judges, requests and results."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

from evalscribe.client import requests as results
from evalscribe.client.requests import submit_requests
from evalscribe.client.service import MAX_TOKENS, BaseLLMService
from evalscribe.collections.choice import ARGUMENT, choose_collection
from evalscribe.collections.import_all import ImportedAll, import_all, show_nothing
from evalscribe.collections.requests import complete_results, count_results, list_result_sets, result_set_named
from evalscribe.errors import NotFoundError
from evalscribe.judging.judges import JudgeMaker
from evalscribe.model.chat import Effort
from evalscribe.model.record import AddedCounts
from evalscribe.model.result import LLMRequest
from evalscribe.model.rubric import Collection, LabelSet, Rubric
from evalscribe.model.transcript import AgentRun
from evalscribe.remote.engine import LOCAL
from evalscribe.settings import Options
from evalscribe.workspace import Workspace

if TYPE_CHECKING:
    from pandas import DataFrame

    from evalscribe.judging.rubric_judge import RubricJudge


def of_import(done: ImportedAll) -> dict[str, Any]:
    files = done.imports.values()
    left_out: dict[str, int] = {}
    for one in files:
        for what, times in one.left_out.items():
            left_out[what] = left_out.get(what, 0) + times
    return {
        "collection_id": done.collection.id,
        "run_ids": list(dict.fromkeys(run.id for one in files for run in one.runs)),
        **sum((one.added for one in files), AddedCounts()).model_dump(),
        "left_out": left_out,
        "stopped": [one.stopped for one in files if one.stopped],
    }


class Client:
    """What the workspace's store holds. Usable from any thread, and beside an event loop that runs already."""

    def __init__(
        self, folder: Path | None = None, *, budget_usd: float | None = None, max_tokens: int | None = None
    ) -> None:
        """`folder`: in the workspace, by default the working folder. Without bounds, those of the workspace hold.

        Raises `UsageError` for settings that cannot be read, `AccessError` or `DataError` for a store that cannot.
        """
        self._workspace = Workspace(Options(budget=budget_usd, max_tokens=max_tokens, engine=LOCAL), folder=folder)
        settings = self._workspace.settings
        self._service = BaseLLMService(
            settings.concurrency.value,
            max_tokens=settings.max_tokens.value or MAX_TOKENS,
            budget_usd=settings.budget.value,
            folder=folder,
        )
        self._shelf = self._workspace.store.collections

    def create_collection(self, name: str, id: str | None = None) -> str:
        """Its id: a new one each time, unless you give one. One that is there under this name is given back;
        `UsageError` where it is taken by a collection of another name."""
        collection = Collection(id=id or str(uuid4()), name=name)
        self._shelf.add_collection(collection)
        return collection.id

    def list_collections(self) -> list[dict[str, Any]]:
        """`id` and `name` of each, in the order they were made."""
        return [collection.model_dump(mode="json") for collection in self._shelf.collections()]

    def create_rubric(self, collection_id: str, rubric: Rubric) -> str:
        """Its id. A rubric of an id that is there becomes the next version, or none where it says the same.

        Raises `NotFoundError` for an unknown collection.
        """
        return self._shelf.add_rubric(collection_id, rubric).id

    def get_rubric(self, collection_id: str, rubric_id: str, version: int | None = None) -> Rubric:
        """This version, or the latest. Raises `NotFoundError`, which names what there is."""
        return self._shelf.rubric(collection_id, rubric_id, version)

    def list_rubrics(self, collection_id: str) -> list[dict[str, Any]]:
        """The latest version of each rubric with all its fields, by id. Raises `NotFoundError`."""
        return [rubric.model_dump(mode="json") for rubric in self._shelf.rubrics(collection_id)]

    def get_judge(self, collection_id: str, rubric_id: str, version: int | None = None) -> "RubricJudge":
        """A judge to call on any `AgentRun`, with the workspace's keys and budget: `result = await judge(agent_run)`.

        What it found once it does not ask again. Raises `NotFoundError`, `AccessError` for a missing key.
        """
        rubric = self.get_rubric(collection_id, rubric_id, version)
        return JudgeMaker(self._service, self._service.prompts, self._shelf).by_model(rubric)

    def create_label_set(
        self, collection_id: str, name: str, label_schema: dict[str, Any], description: str | None = None
    ) -> str:
        """Its id. Raises `RubricError` for a schema outside the meta-schema, `NotFoundError`."""
        labels = LabelSet(name=name, description=description, label_schema=label_schema)
        self._shelf.add_label_set(collection_id, labels)
        return labels.id

    def get_label_set(self, collection_id: str, label_set_id: str) -> dict[str, Any]:
        """`id`, `name`, `description`, `label_schema`. Raises `NotFoundError`."""
        return self._shelf.label_set(collection_id, label_set_id).model_dump(mode="json")

    def list_label_sets(self, collection_id: str) -> list[dict[str, Any]]:
        """All of a collection, in the order they were made. Raises `NotFoundError`."""
        return [labels.model_dump(mode="json") for labels in self._shelf.label_sets(collection_id)]

    def import_file(
        self,
        path: str | Path,
        collection: str | None = None,
        *,
        collection_id: str | None = None,
        provider: str | None = None,
        model: str | None = None,
        experiment: str | None = None,
    ) -> dict[str, Any]:
        """Bring the runs of a file or folder into a collection, which is made where it is not there.

        `collection` is its name, by default the file's; `collection_id` its id, by default made of the name. Gives
        `collection_id`, `run_ids`, counts `new`, `changed`, `same`, and `left_out`. Importing twice adds nothing.
        Raises `DataError` for what holds no runs, `NotFoundError`.
        """
        done = self._service.wait(
            lambda _: import_all(
                self._workspace,
                [str(path)],
                lambda _: show_nothing,
                collection=collection,
                collection_id=collection_id,
                provider=provider,
                model=model,
                experiment=experiment,
            )
        )
        return of_import(done)

    def list_agent_run_ids(self, collection_id: str | None = None) -> list[str]:
        """Of every agent run of a collection, run by run, in the order of the files."""
        archive, collection = self._workspace.store.runs, self._collection(collection_id)
        return [one.eval.id for run in archive.runs(collection.id) for one in archive.graded(run.id)]

    def get_agent_run(self, collection_id: str | None, agent_run_id: str) -> AgentRun:
        """With its transcripts and metadata. Raises `NotFoundError`."""
        collection = self._collection(collection_id)
        record = self._workspace.store.runs.record(agent_run_id, collection.id)
        if record is None:
            raise NotFoundError(f"no agent run {agent_run_id!r} in collection {collection.name!r}")
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
        """Ask a model (`provider/name`) every request, and give back when the results are stored.

        Each result is stored at once: interrupted, the same call goes on where it was, and what was ever answered is
        not asked again. What goes wrong with one request is an error in its result, which the same call tries again.
        Other requests under a taken name are refused, or with `exists_ok` added. Answers are free text with citations,
        or fit `output_schema`. Gives `result_set_id`, `name`, `collection_id`, `counts`, `citations`, `spent`.

        Raises `UsageError` for no requests, no model, a taken name or an agent run of another collection;
        `NotFoundError` naming what prompts refer to in vain; `EvalscribeError` for what concerns all requests.
        """
        asked = {"requests": requests, "model": model_string, "name": result_set_name, "exists_ok": exists_ok}
        fields = {**asked, "output_schema": output_schema, "reasoning_effort": reasoning_effort}
        return submit_requests(self._service, self._workspace, collection_id, fields, max_concurrency)

    def list_result_sets(self, collection_id: str | None = None, prefix: str | None = None) -> list[dict[str, Any]]:
        """By name. Names are paths: the prefix `failures` has `failures/causes/v1` too. Counts are of the requests."""
        sets = list_result_sets(self._workspace.store.results, self._collection(collection_id), prefix)
        return [results.result_set_dict(made, counts) for made, counts in sets]

    def get_result_set(self, collection_id: str | None, name_or_id: str) -> dict[str, Any]:
        """`id`, `name`, `collection_id`, `output_schema`, `created_at`, and how many requests it has (`request_count`),
        how many with an answer (`result_count`), an error (`error_count`) or neither yet (`pending_count`).

        Raises `NotFoundError` naming the sets that are called most like it.
        """
        made = result_set_named(self._workspace.store.results, self._collection(collection_id), name_or_id)
        return results.result_set_dict(made, count_results(self._workspace.store.results, made))

    def get_results(
        self, collection_id: str | None, name_or_id: str, include_incomplete: bool = False
    ) -> list[dict[str, Any]]:
        """The results of a set with `user_metadata` and `output`, in the order of the requests.

        `include_incomplete`: also those without an answer, with their `error`. Raises `NotFoundError`.
        """
        made = result_set_named(self._workspace.store.results, self._collection(collection_id), name_or_id)
        return [
            results.result_dict(one)
            for one in complete_results(self._workspace.store.results, made, include_incomplete=include_incomplete)
        ]

    def get_result_set_dataframe(
        self, collection_id: str | None, name_or_id: str, include_incomplete: bool = False
    ) -> "DataFrame":
        """As `get_results`, with columns `id`, `user_metadata.<name>` and `output.<name>`. Needs pandas."""
        made = result_set_named(self._workspace.store.results, self._collection(collection_id), name_or_id)
        shown = complete_results(self._workspace.store.results, made, include_incomplete=include_incomplete)
        return results.to_data_frame(shown, include_incomplete=include_incomplete)

    def execute_dql(self, collection_id: str | None, dql: str, *, max_rows: int | None = None) -> dict[str, Any]:
        """What one SELECT gives: `columns`, `rows`, `truncated`, `row_count`, `applied_limit`, `execution_time_ms`.

        Tables and spelling are told in agent/docs/sql.md. Raises `UsageError` with line and column, `NotFoundError`,
        `UnavailableError` when the time is up.
        """
        from evalscribe.collections.query import MOST_ROWS, run_query

        rows = MOST_ROWS if max_rows is None else max_rows
        answer = run_query(self._workspace.tables, self._collection(collection_id).id, dql, most_rows=rows)
        return answer.model_dump(mode="json")

    @staticmethod
    def dql_result_to_dicts(result: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Each row by its columns' names; of equal names the last one counts."""
        return [dict(zip(result["columns"], row, strict=True)) for row in result["rows"]]

    def close(self) -> None:
        """Judges of this client can no longer be called."""
        self._service.stop()
        self._workspace.close()

    def _collection(self, named: str | None) -> Collection:
        return choose_collection(self._workspace, named, ARGUMENT)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
