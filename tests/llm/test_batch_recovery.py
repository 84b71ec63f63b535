"""Batches whose making or end was not heard: found again, and sent once."""

from datetime import UTC, datetime

import pytest

from batch_desk import Desk, ask, failing, sent, stored_intent, texts
from evalscribe.errors import AccessError, UnavailableError
from evalscribe.model.chat import BatchIntent, CallFailed


async def test_an_intent_without_a_batch_is_sent_once_it_is_sure_that_there_is_none(desk: Desk) -> None:
    stored_intent(desk, ask("q0"), ask("q1"))
    desk.server.add("theirs", "too")
    assert texts(await desk.ask(ask("q0"))) == ["to q0"]
    assert desk.server.calls["GET batches"] == 2, "what was cut off may still be on its way"
    assert desk.server.submitted[desk.keys(ask("q0"))[0]] == 1


async def test_its_batch_is_found_among_many_pages_of_others(desk: Desk) -> None:
    desk.server.page = 2
    for n in range(3):
        desk.server.add(f"theirs {n}", "too")
    mine = sent(desk, ask("q0"), ask("q1"))
    for n in range(5):
        desk.server.add(*(f"{n} {m}" for m in range(1 + n % 3)))
    stored_intent(desk, ask("q0"), ask("q1"))
    assert texts(await desk.ask(ask("q0"), ask("q1"))) == ["to q0", "to q1"]
    found = desk.intents.of(desk.keys(ask("q0"))[0])
    assert found is not None
    assert found.batch_id == mine
    assert {desk.server.submitted[key] for key in desk.keys(ask("q0"), ask("q1"))} == {1}


async def test_a_batch_that_arrives_late_is_found_at_the_second_look(desk: Desk) -> None:
    stored_intent(desk, ask("q0"))

    def arrive(moment: str) -> None:
        if moment == "looked" or (moment == "listed" and desk.server.calls["GET batches"] == 2):
            desk.server.batches or sent(desk, ask("q0"))

    desk.server.hook = arrive
    assert texts(await desk.ask(ask("q0"))) == ["to q0"]
    assert desk.server.calls["POST batches"] == 0


async def test_another_batch_of_the_same_size_is_waited_for_and_told_apart_by_its_keys(desk: Desk) -> None:
    theirs = desk.server.add("theirs")
    stored_intent(desk, ask("q0"))
    assert texts(await desk.ask(ask("q0"))) == ["to q0"]
    assert theirs.looks >= desk.server.looks
    assert desk.server.calls["POST batches"] == 1


async def test_a_batch_that_another_intent_has_is_not_looked_into(desk: Desk) -> None:
    other = sent(desk, ask("other"))
    intent = BatchIntent(id="other", keys=desk.keys(ask("other")), created=datetime.now(UTC))
    desk.intents.add(intent)
    desk.intents.submitted("other", other)
    stored_intent(desk, ask("q0"))
    await desk.ask(ask("q0"))
    assert desk.server.calls[f"GET batches/{other}"] == 0


@pytest.mark.parametrize("kind", ["POST", "look", "results"])
@pytest.mark.parametrize("statuses", [(429,), (529, 500), (-1,)])
async def test_what_may_pass_is_tried_again_and_nothing_is_sent_twice(
    desk: Desk, kind: str, statuses: tuple[int, ...]
) -> None:
    desk.server.refuse = failing(kind, *statuses)
    assert texts(await desk.ask(ask("q0"), ask("q1"))) == ["to q0", "to q1"]
    assert len(desk.server.batches) == 1


async def test_a_batch_whose_making_was_not_heard_is_found(desk: Desk) -> None:
    """The server makes the batch and the connection breaks before it can say so."""

    def make_and_break(method: str, path: str, number: int) -> int:
        if method == "POST" and number == 0:
            sent(desk, ask("q0"))
            return -1
        return 0

    desk.server.refuse = make_and_break
    assert texts(await desk.ask(ask("q0"))) == ["to q0"]
    assert desk.server.calls["POST batches"] == 1


@pytest.mark.parametrize(("status", "error"), [(401, AccessError), (403, AccessError), (400, CallFailed)])
async def test_a_batch_that_is_turned_away_leaves_no_intent(desk: Desk, status: int, error: type[Exception]) -> None:
    desk.server.refuse = failing("POST", status)
    (failure,) = await desk.ask(ask("q0"))
    assert isinstance(failure, error)
    assert desk.intents.of(desk.keys(ask("q0"))[0]) is None
    assert texts(await desk.ask(ask("q0"))) == ["to q0"]


@pytest.mark.parametrize("kind", ["POST", "look", "results", "list"])
async def test_a_service_that_stays_away_ends_the_command_and_the_next_one_goes_on(desk: Desk, kind: str) -> None:
    if kind == "list":
        stored_intent(desk, ask("q0"))
    desk.server.refuse = failing(kind, *([503] * 3))
    (failure,) = await desk.ask(ask("q0"))
    assert isinstance(failure, UnavailableError)
    assert "tried 3 times" in str(failure)
    desk.server.refuse = failing("none")
    assert texts(await desk.ask(ask("q0"))) == ["to q0"]
    assert set(desk.server.submitted.values()) == {1}
