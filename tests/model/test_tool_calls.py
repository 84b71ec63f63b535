"""Comparison of expected and actual tool calls."""

import pytest

from evalscribe.model.tool_calls import Action, compare_calls, describe_difference

BOOK = Action("book_room", {"room": "Oak", "seats": [{"row": 1, "n": 2}]})
CANCEL = Action("cancelBooking", {"id": "B7"})
READ = Action("get_room", {"room": "Oak"})


def with_arguments(action: Action, **changed: object) -> Action:
    return action._replace(arguments={**action.arguments, **changed})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("expected", "calls", "descriptions"),
    [
        pytest.param([BOOK], [BOOK], [], id="equal"),
        pytest.param(
            [BOOK], [with_arguments(BOOK, seats=[{"row": 1, "n": 2, "note": "x"}])], [], id="a member more inside"
        ),
        pytest.param([BOOK], [], ['`book_room` with room "Oak" was never called'], id="never"),
        pytest.param(
            [BOOK],
            [BOOK._replace(failed=True)],
            ['`book_room` with room "Oak" was never called with success'],
            id="refused",
        ),
        pytest.param(
            [BOOK],
            [with_arguments(BOOK, seats=[{"row": 1, "n": 3}])],
            ["`book_room` was called with seats[0].n 3 instead of 2"],
            id="otherwise, as deep as it is",
        ),
        pytest.param(
            [BOOK],
            [with_arguments(BOOK, room="Elm", seats=[])],
            ['`book_room` was called with room "Elm" instead of "Oak" and seats [] instead of [{"row": 1, "n": 2}]'],
            id="plain values first",
        ),
        pytest.param(
            [READ, BOOK],
            [with_arguments(READ, room="Elm"), BOOK, CANCEL],
            ['`cancelBooking` with id "B7" was called, which was not expected'],
            id="what only reads does not matter beside what changes",
        ),
        pytest.param([READ], [], ['`get_room` with room "Oak" was never called'], id="but alone it does"),
        pytest.param([BOOK], [BOOK, CANCEL._replace(failed=True)], [], id="a refused call changes nothing"),
        pytest.param([], [READ, Action("transfer_to_human", {})], [], id="handing over is no change"),
        pytest.param(
            [with_arguments(BOOK, room=1)],
            [with_arguments(BOOK, room=True)],
            ["`book_room` was called with room true instead of 1"],
            id="true is not 1",
        ),
        pytest.param(
            [with_arguments(BOOK, seats=[]), BOOK],
            [BOOK],
            ["`book_room` with seats [] was never called"],
            id="what no call has tells the missing one",
        ),
        pytest.param(
            [BOOK, BOOK], [BOOK], ['`book_room` with room "Oak" was called 1 time instead of 2'], id="too few"
        ),
        pytest.param(
            [with_arguments(BOOK, seats=[], floor=1), with_arguments(BOOK, floor=2)],
            [with_arguments(BOOK, floor=3)],
            ["`book_room` was called with floor 3 instead of 2", "`book_room` with floor 1 was never called"],
            id="the call that agrees best is paired first",
        ),
        pytest.param(
            [CANCEL, with_arguments(CANCEL, id="C8")],
            [with_arguments(CANCEL, id="C8")._replace(failed=True), CANCEL],
            ['`cancelBooking` with id "C8" was never called with success'],
            id="a success after a refusal",
        ),
    ],
)
def test_differences_between_expected_and_actual_calls_are_described(
    expected: list[Action], calls: list[Action], descriptions: list[str]
) -> None:
    assert [describe_difference(one, expected, calls) for one in compare_calls(expected, calls)] == descriptions


def test_each_call_is_paired_once_with_the_most_similar_expected_call() -> None:
    wanted = [with_arguments(BOOK, room="Oak"), with_arguments(BOOK, room="Elm")]
    calls = [with_arguments(BOOK, room="Elm"), with_arguments(BOOK, room="Ash")]
    (one,) = compare_calls(wanted, calls)
    assert (one.kind, one.expected, one.actual, one.arguments) == ("otherwise", 0, 1, ("room",))
