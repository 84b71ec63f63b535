"""Evals listed with filters, and one eval as text."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from evalscribe.collections.query import EvalFilter, eval_text, list_evals, metadata_values
from evalscribe.errors import NotFoundError, UsageError
from evalscribe.model.protocols import Tables
from evalscribe.model.record import Record
from evalscribe.model.rubric import Collection
from evalscribe.model.run import Eval, Run
from evalscribe.model.transcript import AssistantMessage, Transcript
from evalscribe.store.analyses import open_store
from evalscribe.store.collections import open_collections
from evalscribe.store.query.sqlite import open_tables
from evalscribe.store.records import open_collection_records

HERE = Collection(id="c", name="c")


def record(number: int) -> Record:
    name = "it's" if number == 3 else f"task-{number}"
    judged = Eval(id=f"e{number}", category="desk", name=name, status="passed" if number == 4 else "failed")
    transcript = Transcript(id=f"t{number}", messages=(AssistantMessage(content="No."),))
    return Record(
        run_id="run-1", eval=judged, metadata={"task": name, "a.b": {"c'd": number % 2}}, transcripts=(transcript,)
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("store")
    with closing(open_collections(place)) as collection_store, closing(open_collection_records(place)) as run_store:
        collection_store.add_collection(HERE)
        run_store.add("c", [Run(id="run-1", provider="openai", model="gpt")], [record(n) for n in range(5)])
    return place


@pytest.fixture
def eval_tables(folder: Path) -> Iterator[Tables]:
    with closing(open_tables(folder)) as tables:
        yield tables


@pytest.mark.parametrize(
    ("eval_filter", "expected_ids"),
    [
        pytest.param(EvalFilter(), {"e0", "e1", "e2", "e3", "e4"}, id="all"),
        pytest.param(EvalFilter(run="run"), {"e0", "e1", "e2", "e3", "e4"}, id="beginning-of-a-run"),
        pytest.param(EvalFilter(run="r%"), set(), id="no-pattern"),
        pytest.param(EvalFilter(status="passed", model="openai/gpt"), {"e4"}, id="both-hold"),
        pytest.param(EvalFilter(model="anthropic/gpt"), set(), id="provider"),
        pytest.param(EvalFilter(task="it's"), {"e3"}, id="quotation-mark"),
        pytest.param(EvalFilter(task="x' OR '1' = '1"), set(), id="no-injection"),
        pytest.param(EvalFilter(where="id = 'e1' OR id = 'e4'", status="failed"), {"e1"}, id="or-stays-inside"),
        pytest.param(EvalFilter(where="id = 'e1' -- only"), {"e1"}, id="comment"),
        pytest.param(EvalFilter(classification="MODEL_FAULT"), set(), id="not-analysed"),
    ],
)
def test_filters_are_combined_with_and(eval_tables: Tables, eval_filter: EvalFilter, expected_ids: set[str]) -> None:
    page = list_evals(eval_tables, HERE, eval_filter, limit=10, offset=0)
    assert {one.id for one in page.evals} == expected_ids
    assert page.total == len(expected_ids)


def test_evals_are_paged_in_order_of_name(eval_tables: Tables) -> None:
    pages = [list_evals(eval_tables, HERE, EvalFilter(), limit=3, offset=offset) for offset in (0, 3, 6)]
    assert [one.id for page in pages for one in page.evals] == ["e3", "e0", "e1", "e2", "e4"], "by name"
    assert [page.total for page in pages] == [5, 5, 5]


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("1 = 1) OR (1 = 1", "line 1, column"),
        ("id = ", "line 1, column"),
        ("nobody = 1", "line 1, column 1: column nobody"),
        ("1 = 1; DELETE FROM agent_runs", "one SELECT"),
    ],
)
def test_invalid_where_condition_is_refused_with_its_position(eval_tables: Tables, where: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        list_evals(eval_tables, HERE, EvalFilter(where=where), limit=1, offset=0)


@pytest.mark.parametrize(
    ("path", "values"),
    [
        pytest.param("metadata_json->'a.b'->'c''d'", {"0": 3, "1": 2}, id="as-fields-spell-it"),
        pytest.param("nobody.has", {}, id="missing"),
    ],
)
def test_metadata_values_are_counted(eval_tables: Tables, path: str, values: dict[str, int]) -> None:
    assert {one.value: one.agent_runs for one in metadata_values(eval_tables, "c", path, 10)} == values


def test_metadata_path_cannot_inject_sql(eval_tables: Tables) -> None:
    with pytest.raises(UsageError):
        metadata_values(eval_tables, "c", "metadata_json)::text AS value FROM agent_runs) AS x; DROP TABLE runs --", 10)


def test_eval_text_has_marks_and_unknown_eval_is_refused(folder: Path) -> None:
    with closing(open_collection_records(folder)) as run_store, closing(open_store(folder)) as store:
        marks = [item.mark for item in eval_text(run_store, store, HERE, "e0").items]
        assert {"R0", "R0M", "T0", "T0B0"} <= set(marks)
        with pytest.raises(NotFoundError, match="eval 'e0' not found in collection 'other'"):
            eval_text(run_store, store, Collection(id="o", name="other"), "e0")


@pytest.mark.parametrize(("model", "total"), [("maker/gpt", 1), ("openrouter/maker/gpt", 1), ("gpt", 0)])
def test_model_filter_accepts_names_with_slashes(model: str, total: int, tmp_path: Path) -> None:
    with closing(open_collections(tmp_path)) as collections, closing(open_collection_records(tmp_path)) as records:
        collections.add_collection(HERE)
        records.add("c", [Run(id="run-1", provider="openrouter", model="maker/gpt")], [record(1)])
    with closing(open_tables(tmp_path)) as tables:
        assert list_evals(tables, HERE, EvalFilter(model=model), limit=10, offset=0).total == total
