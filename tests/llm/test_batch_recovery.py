"""Recovery of batches after lost responses and failures: they are found again and sent once."""

from datetime import UTC, datetime

import pytest

from evalscribe.errors import AccessError, UnavailableError
from evalscribe.model.chat import BatchIntent, CallFailed
from support.batch_sessions import BatchSessions, fail_calls, make_request, sent_key, stored_intent, texts


async def test_intent_without_a_batch_is_sent_after_a_second_check(sessions: BatchSessions) -> None:
    stored_intent(sessions, make_request("q0"), make_request("q1"))
    sessions.server.add("theirs", "too")
    assert texts(await sessions.ask(make_request("q0"))) == ["to q0"]
    assert sessions.server.calls["GET batches"] == 2, "what was cut off may still be on its way"
    assert sessions.server.submitted[sessions.keys(make_request("q0"))[0]] == 1


async def test_batch_of_an_intent_is_found_across_pages(sessions: BatchSessions) -> None:
    sessions.server.page = 2
    for n in range(3):
        sessions.server.add(f"theirs {n}", "too")
    mine = sent_key(sessions, make_request("q0"), make_request("q1"))
    for n in range(5):
        sessions.server.add(*(f"{n} {m}" for m in range(1 + n % 3)))
    stored_intent(sessions, make_request("q0"), make_request("q1"))
    assert texts(await sessions.ask(make_request("q0"), make_request("q1"))) == ["to q0", "to q1"]
    intent = sessions.intents.of(sessions.keys(make_request("q0"))[0])
    assert intent is not None
    assert intent.batch_id == mine
    assert {sessions.server.submitted[key] for key in sessions.keys(make_request("q0"), make_request("q1"))} == {1}


async def test_late_batch_is_found_at_the_second_check(sessions: BatchSessions) -> None:
    stored_intent(sessions, make_request("q0"))

    def arrive(moment: str) -> None:
        if moment == "looked" or (moment == "listed" and sessions.server.calls["GET batches"] == 2):
            sessions.server.batches or sent_key(sessions, make_request("q0"))

    sessions.server.hook = arrive
    assert texts(await sessions.ask(make_request("q0"))) == ["to q0"]
    assert sessions.server.calls["POST batches"] == 0


async def test_foreign_batch_of_the_same_size_is_distinguished_by_its_keys(sessions: BatchSessions) -> None:
    theirs = sessions.server.add("theirs")
    stored_intent(sessions, make_request("q0"))
    assert texts(await sessions.ask(make_request("q0"))) == ["to q0"]
    assert theirs.looks >= sessions.server.looks
    assert sessions.server.calls["POST batches"] == 1


async def test_batch_of_another_intent_is_not_inspected(sessions: BatchSessions) -> None:
    other = sent_key(sessions, make_request("other"))
    intent = BatchIntent(id="other", keys=sessions.keys(make_request("other")), created=datetime.now(UTC))
    sessions.intents.add(intent)
    sessions.intents.submitted("other", other)
    stored_intent(sessions, make_request("q0"))
    await sessions.ask(make_request("q0"))
    assert sessions.server.calls[f"GET batches/{other}"] == 0


@pytest.mark.parametrize("kind", ["POST", "look", "results"])
@pytest.mark.parametrize("statuses", [(429,), (529, 500), (-1,)])
async def test_transient_failures_are_retried_without_submitting_twice(
    sessions: BatchSessions, kind: str, statuses: tuple[int, ...]
) -> None:
    sessions.server.refuse = fail_calls(kind, *statuses)
    assert texts(await sessions.ask(make_request("q0"), make_request("q1"))) == ["to q0", "to q1"]
    assert len(sessions.server.batches) == 1


async def test_batch_is_found_when_the_create_response_was_lost(sessions: BatchSessions) -> None:
    """The server creates the batch but the connection breaks before it can answer."""

    def make_and_break(method: str, path: str, number: int) -> int:
        if method == "POST" and number == 0:
            sent_key(sessions, make_request("q0"))
            return -1
        return 0

    sessions.server.refuse = make_and_break
    assert texts(await sessions.ask(make_request("q0"))) == ["to q0"]
    assert sessions.server.calls["POST batches"] == 1


@pytest.mark.parametrize(("status", "error"), [(401, AccessError), (403, AccessError), (400, CallFailed)])
async def test_rejected_batch_leaves_no_intent(sessions: BatchSessions, status: int, error: type[Exception]) -> None:
    sessions.server.refuse = fail_calls("POST", status)
    (failure,) = await sessions.ask(make_request("q0"))
    assert isinstance(failure, error)
    assert sessions.intents.of(sessions.keys(make_request("q0"))[0]) is None
    assert texts(await sessions.ask(make_request("q0"))) == ["to q0"]


@pytest.mark.parametrize("kind", ["POST", "look", "results", "list"])
async def test_persistent_outage_ends_the_command_and_the_next_one_continues(
    sessions: BatchSessions, kind: str
) -> None:
    if kind == "list":
        stored_intent(sessions, make_request("q0"))
    sessions.server.refuse = fail_calls(kind, *([503] * 3))
    (failure,) = await sessions.ask(make_request("q0"))
    assert isinstance(failure, UnavailableError)
    assert "tried 3 times" in str(failure)
    sessions.server.refuse = fail_calls("none")
    assert texts(await sessions.ask(make_request("q0"))) == ["to q0"]
    assert set(sessions.server.submitted.values()) == {1}
