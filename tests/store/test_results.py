"""Result sets, in a file and on a server."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from evalscribe.errors import DataError, UnavailableError
from evalscribe.model.result import AgentRunRef, Result, ResultCounts, ResultRef, ResultSet
from evalscribe.store.results import ResultSetStore, open_result_sets

SCHEMA = {"type": "object", "properties": {"z": {"type": "string"}, "a": {"type": "boolean"}}}
SET = ResultSet(id="s1", collection_id="c1", name="why/v1", output_schema=SCHEMA, created_at="2026-11-02T12:00:00.000Z")
FREE = ResultSet(id="s2", collection_id="c1", name="tags", created_at=SET.created_at)


def make_pending(number: int, of: str = "s1", id: str | None = None, text: str = "Why?") -> Result:
    return Result(
        id=id or f"{of}-{number}",
        result_set_id=of,
        number=number,
        request=f"sha256:{number}",
        prompt=(text, AgentRunRef(id="a", collection_id="c1"), ResultRef(id="r", result_set_id="s0")),
        user_metadata={"n": number, "deep": {"list": [1, None, "\u00fc"]}},
        model="openai/m",
        created_at=SET.created_at,
    )


def with_answer(result: Result, text: str = "Well.") -> Result:
    output = {"output": text, "citations": []}
    return result.model_copy(update={"key": "k1", "output": output, "input_tokens": 7, "cost_usd": 0.25, "error": None})


def with_error(result: Result) -> Result:
    return result.model_copy(update={"key": "k1", "error": "overloaded", "output": None})


@pytest.fixture
def sets(place: Path | str) -> Iterator[ResultSetStore]:
    with closing(open_result_sets(place)) as sets:
        yield sets


def test_results_are_read_as_they_were_stored(sets: ResultSetStore) -> None:
    rows = (make_pending(0), make_pending(1))
    sets.add(SET, rows)
    assert sets.find("c1", "why/v1") == sets.find("c1", "s1") == SET
    assert sets.results("s1") == rows
    assert sets.result("s1", "s1-1") == rows[1]
    assert sets.result("s2", "s1-1") is None
    sets.put(with_answer(rows[1]))
    assert sets.results("s1") == (rows[0], with_answer(rows[1]))
    assert sets.find("c2", "s1") is None


def test_results_are_added_to_an_existing_set(sets: ResultSetStore) -> None:
    sets.add(SET, [make_pending(0)])
    sets.add(SET, [])
    sets.add(SET, [make_pending(1)])
    assert [result.number for result in sets.results("s1")] == [0, 1]


def test_sets_are_listed_by_name_with_counts(sets: ResultSetStore) -> None:
    sets.add(SET, [make_pending(n) for n in range(3)])
    sets.add(FREE, [])
    sets.put(with_answer(make_pending(0)))
    sets.put(with_error(make_pending(1)))
    assert sets.sets("c1") == ((FREE, ResultCounts()), (SET, ResultCounts(requests=3, results=1, errors=1)))
    assert sets.sets("c2") == ()


def test_error_never_replaces_an_answer(sets: ResultSetStore) -> None:
    sets.add(SET, [make_pending(0)])
    sets.put(with_error(make_pending(0)))
    assert sets.answered("k1") is None
    sets.put(with_answer(make_pending(0)))
    sets.put(with_error(make_pending(0)))
    assert sets.results("s1") == (with_answer(make_pending(0)),)


def test_answer_is_found_by_its_key(sets: ResultSetStore) -> None:
    sets.add(SET, [make_pending(0), make_pending(1)])
    assert sets.answered("k1") is None
    sets.put(with_answer(make_pending(1)))
    assert sets.answered("k1") == with_answer(make_pending(1))
    assert sets.answered("k2") is None


def test_results_of_one_call_are_stored_all_or_none(sets: ResultSetStore) -> None:
    with pytest.raises(DataError):
        sets.add(SET, [make_pending(0), make_pending(1, text="half \ud800")])
    assert (sets.find("c1", "why/v1"), sets.results("s1")) == (None, ())


def test_nul_in_a_prompt_is_replaced(sets: ResultSetStore) -> None:
    sets.add(SET, [make_pending(0, text="nul \x00 byte")])
    (row,) = sets.results("s1")
    assert row.prompt[0] == "nul \ufffd byte"


def test_result_set_is_locked_by_one_process_at_a_time(sets: ResultSetStore, place: Path | str) -> None:
    with closing(open_result_sets(place)) as other, sets.lock("s1"):
        with (
            pytest.raises(UnavailableError, match="another process is already working on this result set"),
            other.lock("s1"),
        ):
            pass
        with other.lock("s2"):
            pass
    with sets.lock("s1"):
        pass


def test_missing_output_is_null_in_sql(server_url: str) -> None:
    """A JSON null would not be an SQL NULL."""
    with closing(open_result_sets(server_url)) as sets:
        sets.add(FREE, [make_pending(0, "s2")])
        sets.put(with_error(make_pending(0, "s2")))
    with psycopg.connect(server_url) as connection:
        from_clause = "SELECT count(*) FROM results JOIN result_sets s ON s.id = result_set_id"
        (found,) = connection.execute(f"{from_clause} WHERE output IS NULL AND output_schema IS NULL").fetchall()
    assert found == (1,)
