"""Batches of model calls are stored, by several processes at once."""

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from evalscribe.errors import AccessError, DataError
from evalscribe.model.chat import BatchIntent, Reply, ToolCall, UnansweredQuestion, Usage
from evalscribe.store.results import BatchStore, open_batches

REPLY = Reply(
    text="ü",
    tool_calls=(ToolCall(id="t", name="submit", input={"a": [1, None]}),),
    stop="tool_use",
    usage=Usage(calls=1, input_tokens=3, cost_usd=0.1),
    raw=[{"type": "tool_use", "id": "t"}],
)


@pytest.fixture
def intents(place: Path | str) -> Iterator[BatchStore]:
    opened = open_batches(place)
    yield opened
    opened.close()


def intent(id: str, *keys: str) -> BatchIntent:
    return BatchIntent(id=id, keys=keys, created=datetime(2026, 11, 2, tzinfo=UTC))


def test_intent_is_found_by_each_of_its_keys(intents: BatchStore) -> None:
    added = intents.add(intent("i", "a", "b", "a"))
    assert added.keys == ("a", "b")
    assert intents.of("a") == intents.of("b") == added
    assert intents.of("c") is None


def test_key_belongs_to_the_first_intent_that_has_it(intents: BatchStore) -> None:
    intents.add(intent("i", "a", "b"))
    assert intents.add(intent("j", "b", "c")).keys == ("c",)
    assert intents.add(intent("k", "a", "c")).keys == ()
    owners = {key: found.id for key in "abc" if (found := intents.of(key))}
    assert owners == {"a": "i", "b": "i", "c": "j"}


def test_submitted_intent_has_its_batch_id(intents: BatchStore) -> None:
    intents.add(intent("i", "a"))
    intents.add(intent("j", "b"))
    assert intents.batch_ids() == frozenset()
    intents.submitted("i", "msgbatch_1")
    found = intents.of("a")
    assert found is not None
    assert found.batch_id == "msgbatch_1"
    assert intents.batch_ids() == {"msgbatch_1"}


def test_outcomes_are_read_as_they_were_stored(intents: BatchStore) -> None:
    intents.add(intent("i", "a", "b", "c"))
    intents.settle({"a": REPLY, "b": UnansweredQuestion(reason="expired"), "unknown": REPLY})
    assert [intents.outcome(key) for key in ("a", "b", "c", "unknown")] == [
        REPLY,
        UnansweredQuestion(reason="expired"),
        None,
        None,
    ]


def test_dropped_intent_releases_its_unanswered_keys(intents: BatchStore) -> None:
    intents.add(intent("i", "a", "b"))
    intents.settle({"a": REPLY})
    intents.drop("i")
    assert (intents.of("a"), intents.of("b")) == (None, None)
    assert intents.outcome("a") == REPLY
    assert intents.add(intent("j", "a", "b")).keys == ("b",)


def test_answer_is_taken_once_and_released_only_after_that(intents: BatchStore) -> None:
    intents.add(intent("i", "a", "b", "c"))
    intents.settle({"a": REPLY, "b": REPLY})
    assert [intents.take(key) for key in ("a", "a", "c", "unknown")] == [True, False, False, False]
    for key in "abc":
        intents.release(key)
    assert [intents.outcome(key) for key in "abc"] == [None, REPLY, None]
    assert [found.id if (found := intents.of(key)) else None for key in "abc"] == [None, "i", "i"]
    assert intents.add(intent("j", "a", "b", "c")).keys == ("a",)


def test_intent_is_claimed_by_one_process_at_a_time(intents: BatchStore) -> None:
    with intents.claim("i") as mine, intents.claim("i") as theirs, intents.claim("j") as another:
        assert (mine, theirs, another) == (True, False, True)
    with intents.claim("i") as mine:
        assert mine


def test_lock_file_of_a_claim_is_deleted(folder: Path) -> None:
    with closing(open_batches(folder)) as intents, intents.claim("../i"):
        assert [path.name for path in folder.glob("batch-*")] == ["batch-..-i.lock"]
    assert list(folder.glob("batch-*")) == []


def test_claim_is_released_after_an_error(intents: BatchStore) -> None:
    with pytest.raises(ValueError, match="no luck"), intents.claim("i"):
        raise ValueError("no luck")
    with intents.claim("i") as mine:
        assert mine


def test_symbolic_link_in_place_of_a_lock_is_not_followed(folder: Path, tmp_path: Path) -> None:
    intents = open_batches(folder)
    target = tmp_path / "precious"
    target.write_text("kept")
    (folder / "batch-i.lock").symlink_to(target)
    with pytest.raises(AccessError), intents.claim("i"):
        pass
    assert target.read_text() == "kept"
    intents.close()


def test_concurrent_intents_get_disjoint_keys(place: Path | str) -> None:
    def add_intent(n: int) -> tuple[str, ...]:
        opened = open_batches(place)
        try:
            return opened.add(intent(f"i{n}", *(f"k{m}" for m in range(50)), f"own{n}")).keys
        finally:
            opened.close()

    open_batches(place).close()
    with ThreadPoolExecutor(4) as pool:
        taken = [key for keys in pool.map(add_intent, range(8)) for key in keys]
    assert sorted(taken) == sorted([*(f"k{m}" for m in range(50)), *(f"own{n}" for n in range(8))])


@pytest.mark.parametrize("body", [b"no zlib", b"x\x9c\x03\x00\x00\x00\x00\x01"])
def test_damaged_answer_is_reported(folder: Path, body: bytes) -> None:
    intents = open_batches(folder)
    intents.add(intent("i", "a"))
    with closing(sqlite3.connect(folder / "store.db")) as raw:
        raw.execute("UPDATE batch_items SET body = ?", (body,))
        raw.commit()
    with pytest.raises(DataError, match="damaged"):
        intents.outcome("a")
    intents.close()
