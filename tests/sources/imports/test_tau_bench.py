"""Import of tau-bench trajectories."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ACTION = {"name": "book_seat", "kwargs": {"user": "ann", "legs": [{"flight": "A1", "day": 3}], "bags": 1}}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": function}],
    }


def entry(*messages: dict[str, Any], reward: float | None = 0.0, **more: Any) -> dict[str, Any]:
    info = {
        "task": {"user_id": "ann", "actions": [ACTION], "instruction": "You are Ann. Book A1.", "outputs": []},
        "source": "user",
        "user_cost": 0.25,
        "reward_info": {"reward": reward, "info": {"r_actions": reward, "gt_data_hash": "e1"}, "actions": [ACTION]},
    }
    spoken = [{"role": "system", "content": "# Train Agent Policy\n\nBe kind."}, *messages]
    return {"task_id": 3, "reward": reward, "info": info, "traj": spoken, "trial": 0, **more}


def answer(text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": "c1", "name": "book_seat", "content": text}


BOOKED = ACTION["kwargs"]


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        pytest.param(
            (),
            '`book_seat` with user "ann" was never called',
            id="never",
        ),
        pytest.param(
            (call("book_seat", **{**BOOKED, "legs": [{"flight": "B2", "day": 3}]}),),
            '`book_seat` was called with legs[0].flight "B2" instead of "A1"',
            id="other argument, as deep as it is",
        ),
        pytest.param(
            (call("book_seat", user="ann", legs=BOOKED["legs"], meal="x"),),
            '`book_seat` was called with bags nothing instead of 1 and meal "x" instead of nothing',
            id="one too few and one too many",
        ),
        pytest.param(
            (call("book_seat", **BOOKED), answer("Error: no seat left")),
            '`book_seat` with user "ann" was never called with success',
            id="refused",
        ),
        pytest.param(
            (call("book_seat", **BOOKED), call("cancel_seat", user="ann"), call("get_user", user="ann")),
            '`cancel_seat` with user "ann" was called, which was not expected',
            id="one that should not be, reading aside",
        ),
        pytest.param(
            (call("book_seat", **BOOKED), call("book_seat", **BOOKED)),
            '`book_seat` with user "ann" was called 2 times instead of 1',
            id="twice",
        ),
        pytest.param(
            (call("book_seat", **BOOKED),),
            "every expected action was called, and yet the database differs from the expected one",
            id="nothing that shows",
        ),
    ],
)
def test_failure_reason_names_the_first_differing_action(
    read_value: Callable[..., Any], messages: tuple[Any, ...], reason: str
) -> None:
    (record,) = read_value([entry(*messages)]).records
    assert (record.eval.status, record.eval.failed_step, record.eval.reason) == ("failed", "actions", reason)
    assert record.steps[0].error == reason


def test_missing_output_is_the_failed_step(read_value: Callable[..., Any]) -> None:
    trajectory = entry({"role": "assistant", "content": "It costs 1,234 dollars."})
    trajectory["info"]["task"]["outputs"] = ["1234", "77"]
    trajectory["info"]["reward_info"]["info"] = {"r_outputs": 0.0, "outputs": {"1234": True, "77": False}}
    trajectory["traj"] += [call("book_seat", **BOOKED)]
    (record,) = read_value([trajectory]).records
    assert [(step.name, step.status) for step in record.steps] == [("actions", "passed"), ("outputs", "failed")]
    assert (record.eval.failed_step, record.eval.reason) == ("outputs", "the user was never told '77'")


@pytest.mark.parametrize(
    ("change", "status", "reason"),
    [
        pytest.param({"reward": 1}, "passed", None, id="passed"),
        pytest.param(
            {"reward": 0.5},
            "failed",
            '`book_seat` with user "ann" was never called',
            id="partly",
        ),
        pytest.param({"reward": None}, "incomplete", None, id="no reward"),
        pytest.param(
            {"info": {"error": "Rate\nlimit", "traceback": "Traceback\n  x"}, "traj": []},
            "error",
            "Rate\nlimit",
            id="broke",
        ),
        pytest.param({"info": {"error": "x"}, "traj": None}, "error", "x", id="broke before a word"),
        pytest.param({"info": None, "traj": None}, "failed", "reward 0.0", id="nothing known"),
    ],
)
def test_reward_and_error_decide_status_and_reason(
    read_value: Callable[..., Any], change: dict[str, Any], status: str, reason: str | None
) -> None:
    (record,) = read_value([{**entry(), **change}]).records
    assert (record.eval.status, record.eval.reason) == (status, reason)
    scores = {} if change.get("reward", 0) is None else {"reward": change.get("reward", 0.0)}
    assert record.metadata["scores"] == scores


def test_ungraded_conversation_fails_at_the_conversation_step(read_value: Callable[..., Any]) -> None:
    trajectory = entry({"role": "user", "content": "Wait"})
    trajectory["info"]["reward_info"] = None
    (record,) = read_value([trajectory]).records
    assert record.eval.failed_step == "conversation"
    assert (
        record.eval.reason
        == "the conversation ended after 2 messages, the last one the user's, before it could be graded"
    )


def test_entry_becomes_a_record_with_documents_and_transcript(read_value: Callable[..., Any]) -> None:
    read = read_value(
        [entry(call("book_seat", **BOOKED), answer("ok"), reward=1.0, termination_reason="done")], model="acme/m-1"
    )
    (record,) = read.records
    assert (read.run.provider, read.run.model, read.run.experiment) == ("acme", "m-1", "tau-bench")
    assert record.eval.path == "train-agent-policy/task-3"
    assert record.metadata["task"] == "3"
    assert record.metadata["agent"] == {"model_name": "m-1", "provider": "acme"}
    assert record.metadata["termination_reason"] == "done"
    assert record.metadata["info"]["user_cost"] == 0.25  # type: ignore[index,call-overload]
    assert [(one.role, one.path) for one in record.documents] == [
        ("task", "instruction"),
        ("expected", "actions"),
        ("expected", "outputs.json"),
    ]
    (spoken,) = record.transcripts
    assert spoken.messages[1].tool_calls[0].arguments == BOOKED  # type: ignore[union-attr]


def test_calls_in_text_or_legacy_function_call_form_are_read(read_value: Callable[..., Any]) -> None:
    def action(name: str, **arguments: Any) -> dict[str, Any]:
        told = json.dumps({"name": name, "arguments": arguments})
        return {"role": "assistant", "content": f"Thought:\nIt is time.\nAction:\n{told}"}

    final_answer = action("respond", content="Done")
    result = {"role": "user", "content": "API output: ok"}
    old = {
        "role": "assistant",
        "content": None,
        "function_call": call("book_seat", **BOOKED)["tool_calls"][0]["function"],
    }
    for messages in (
        (action("book_seat", **BOOKED), result, final_answer),
        (old, {"role": "function", "name": "book_seat", "content": "ok"}, {"role": "assistant", "content": "Done"}),
    ):
        read = read_value([entry(*messages)])
        (record,) = read.records
        *_, booked, told, _ = record.transcripts[0].messages
        assert (booked.tool_calls[0].function, booked.tool_calls[0].arguments) == ("book_seat", BOOKED)
        assert (told.role, told.tool_call_id) == ("tool", booked.tool_calls[0].id)
        assert "was never called" not in record.eval.reason
        assert read.left_out == {}
    torn = {"role": "assistant", "content": 'Action: {"name": "book_seat", '}
    assert "was never called" in read_value([entry(torn, result)]).records[0].eval.reason


def test_trials_are_numbered_and_have_unique_ids(read_value: Callable[..., Any]) -> None:
    entries = [entry(), entry(trial=2), entry(trial=2), entry(trial=None), entry(task_id="b c")]
    records = read_value(entries).records
    assert [one.eval.path.rpartition("/")[2] for one in records] == [
        "task-3#1",
        "task-3#3",
        "task-3#4",
        "task-3#2",
        "task-b c",
    ]
    assert len({one.eval.id for one in records}) == 5


def test_invalid_entries_and_messages_are_counted_as_left_out(read_value: Callable[..., Any]) -> None:
    bad = {"role": "ghost", "content": "boo"}
    deep: Any = "x"
    for _ in range(150):
        deep = [deep]
    read = read_value([entry(bad), 7, {"reward": 1}, entry(trial=1, extra=deep)])
    assert len(read.records) == 1
    assert read.left_out == {
        "a message that cannot be read (role 'ghost') (first: [0])": 1,
        "an entry that is not an object with a `task_id` (first: [1])": 2,
        "an entry that cannot be stored: JSON nested too deeply (first: [3])": 1,
    }


def test_change_of_any_field_changes_the_result(read_value: Callable[..., Any], leaves: Callable[..., Any]) -> None:
    trajectory = entry(
        call("book_seat", **BOOKED), answer("ok"), {"role": "user", "content": "thanks"}, extra={"a": [1]}
    )
    trajectory["info"]["task"]["outputs"] = ["5"]
    before = read_value([trajectory]).told
    for place, other in leaves(trajectory):
        assert read_value([other]).told != before, place


def test_real_file_is_read_completely(real_data: Path, read_file: Callable[..., Any]) -> None:
    path = real_data / "tau-bench" / "gpt-4o-airline-tasks-0-24.json"
    raw_entries = json.loads(path.read_text())
    read = read_file(path)
    assert read.left_out == {}
    assert [(one["task_id"], one["trial"] + 1, one["reward"], len(one["traj"])) for one in raw_entries] == [
        (
            int(str(one.metadata["task"])),
            one.eval.trial,
            one.metadata["scores"]["reward"],
            len(one.transcripts[0].messages),
        )  # type: ignore[index,call-overload]
        for one in read.records
    ]
    assert Counter(one.eval.status for one in read.records) == {"failed": 69, "passed": 31}
    assert {one.eval.trials for one in read.records} == {4}
    assert all(one.eval.reason and one.eval.failed_step for one in read.records if one.eval.status == "failed")
    assert not any("and yet the database differs" in (one.eval.reason or "") for one in read.records)
