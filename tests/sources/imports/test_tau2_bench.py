"""Import of tau2-bench results."""

from collections.abc import Callable
from typing import Any

BOOKED = {"user": "ann", "flight": "A1"}


def results(*messages: dict[str, Any], **reward: Any) -> dict[str, Any]:
    action = {"action_id": "1_0", "requestor": "assistant", "name": "book", "arguments": BOOKED, "info": None}
    criteria = {"actions": [action], "communicate_info": ["42"], "nl_assertions": ["is kind"], "reward_basis": ["DB"]}
    scenario = {"persona": None, "instructions": {"reason_for_call": "book A1"}}
    parts = {"reward": 0.0, "reward_breakdown": {"DB": 0.0, "COMMUNICATE": 1.0}, "info": None}
    simulation = {
        "id": "s-1",
        "task_id": "7",
        "trial": 0,
        "termination_reason": "user_stop",
        "agent_cost": 0.1,
        "reward_info": {**parts, **reward},
        "messages": [{"role": "assistant", "content": "It is 42", "turn_idx": 0}, *messages],
    }
    return {
        "timestamp": "2026-01-02",
        "info": {"agent_info": {"llm": "acme/m-1"}, "environment_info": {"domain_name": "airline"}},
        "tasks": [{"id": "7", "user_scenario": scenario, "evaluation_criteria": criteria, "ticket": None}],
        "simulations": [simulation],
    }


def call(error: bool, **arguments: str) -> tuple[dict[str, Any], ...]:
    tool_call = {"id": "c1", "name": "book", "arguments": arguments, "requestor": "assistant"}
    answer = {"id": "c1", "role": "tool", "content": "done", "requestor": "assistant", "error": error}
    return {"role": "assistant", "content": None, "tool_calls": [tool_call]}, answer


def test_simulation_becomes_a_record_with_documents_and_transcript(read_value: Callable[..., Any]) -> None:
    read = read_value(results(*call(False, **{**BOOKED, "flight": "B2"})))
    assert (read.format, read.run.provider, read.run.model) == ("tau2-bench", "acme", "m-1")
    assert read.left_out == {"the file's field `timestamp`": 1, "the file's field `info`": 1}
    (record,) = read.records
    assert (record.eval.path, record.eval.failed_step) == ("airline/task-7", "actions")
    assert record.eval.reason == '`book` was called with flight "B2" instead of "A1"'
    assert record.metadata["termination_reason"] == "user_stop"
    assert (record.metadata["task"], record.metadata["scores"]) == ("7", {"reward": 0.0})
    assert [(one.role, one.path) for one in record.documents] == [
        ("task", "instruction"),
        ("expected", "actions"),
        ("expected", "outputs.json"),
    ]
    assert "book A1" in record.documents[0].text
    _, request, tool = record.transcripts[0].messages
    assert (request.tool_calls[0].function, tool.tool_call_id, tool.error) == ("book", "c1", None)
    assert [(step.name, step.status) for step in record.steps] == [("actions", "failed"), ("outputs", "passed")]


def test_failed_tool_call_does_not_count_as_the_expected_action(read_value: Callable[..., Any]) -> None:
    (record,) = read_value(results(*call(True, **BOOKED))).records
    assert record.eval.reason == '`book` with user "ann" was never called with success'


def test_unmet_assertion_is_the_failed_step(read_value: Callable[..., Any]) -> None:
    checks = [{"nl_assertion": "is kind", "met": False, "justification": "rude"}]
    file_content = results(
        *call(False, **BOOKED), reward_breakdown={"DB": 1.0, "NL_ASSERTION": 0.0}, nl_assertions=checks
    )
    (record,) = read_value(file_content).records
    assert (record.eval.failed_step, "rude" in record.eval.reason) == ("nl_assertion", True)


def test_simulation_without_a_reward_is_incomplete(read_value: Callable[..., Any]) -> None:
    file_content = results()
    file_content["simulations"][0]["reward_info"] = None
    (record,) = read_value(file_content).records
    assert (record.eval.status, record.metadata["scores"]) == ("incomplete", {})


def test_change_of_any_field_changes_the_result(read_value: Callable[..., Any], leaves: Callable[..., Any]) -> None:
    file_content = results(*call(False, **BOOKED))
    before = read_value(file_content).told
    for place, other in leaves(file_content):
        if not place.startswith((".timestamp", ".info")):
            assert read_value(other).told != before, place


def test_termination_reason_decides_failed_or_error_without_grading(read_value: Callable[..., Any]) -> None:
    def ended(reason: str) -> Any:
        note = f"Simulation terminated prematurely. Termination reason: {reason}"
        file_content = results(reward_breakdown=None, info={"note": note})
        file_content["simulations"][0]["termination_reason"] = reason
        return read_value(file_content).records[0].eval

    steps = ended("max_steps")
    assert (steps.status, steps.failed_step) == ("failed", "conversation")
    assert steps.reason.startswith("Simulation terminated prematurely. Termination reason: max_steps: the conversation")
    broken = ended("infrastructure_error")
    assert (broken.status, broken.reason) == ("error", "the simulation ended with infrastructure_error")


def test_results_of_several_calls_become_separate_messages(read_value: Callable[..., Any]) -> None:
    request, answer = call(False, **BOOKED)
    several = {"role": "tool", "tool_messages": [answer, {**answer, "id": "c2", "error": True}]}
    (record,) = read_value(results(request, several)).records
    assert [(one.tool_call_id, one.error is None) for one in record.transcripts[0].messages[2:]] == [
        ("c1", True),
        ("c2", False),
    ]


def test_tasks_may_follow_the_simulations(read_value: Callable[..., Any]) -> None:
    document = results()
    reordered = {name: document[name] for name in ("simulations", "tasks", "info", "timestamp")}
    (usual,), (record,) = (list(read_value(value).records) for value in (document, reordered))
    assert record.documents == usual.documents
