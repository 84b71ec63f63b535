"""Agent benchmark runs from file to report: order and certainty of findings, and cost estimates."""

import json
from pathlib import Path
from typing import Any

import pytest

from support.command import InProcessCommand
from support.messages_server import Answer, Call, MessagesServer, submit

POLICY = "# Library policy\nObtain explicit confirmation (yes) before you change anything.\n"
TASK = "You are eva_moss_41. Renew the loan LN4410 for another week."
MODEL = ("--judge", "anthropic/claude-opus-5-5")


def tool_call_message(name: str, arguments: dict[str, Any], number: int) -> dict[str, Any]:
    tool_call = {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    return {"role": "assistant", "content": None, "tool_calls": [tool_call]}


def entry(task: int, trial: int, reward: float, *, ends_early: bool = False) -> dict[str, Any]:
    renewed = {"loan": "LN4410", "days": 7}
    ending = [
        {"role": "assistant", "content": "I can renew LN4410. Do you confirm?"},
        {
            "role": "user",
            "content": "Yes, please go ahead. ###STOP###" if ends_early else f"No, thank you {task} {trial}.",
        },
    ]
    if not ends_early:
        ending += [{"role": "assistant", "content": f"Goodbye {task} {trial}."}]
    return {
        "task_id": task,
        "trial": trial,
        "reward": reward,
        "info": {
            "task": {"instruction": TASK, "actions": [{"name": "renew_loan", "kwargs": renewed}], "outputs": []},
            "reward_info": {"reward": reward, "info": {"r_actions": reward}},
        },
        "traj": [
            {"role": "system", "content": POLICY},
            {"role": "user", "content": "I am eva_moss_41. Please renew LN4410 by 7 days."},
            tool_call_message("get_member", {"id": "eva_moss_41"}, trial),
            {"role": "tool", "tool_call_id": f"c{trial}", "name": "get_member", "content": '{"loans": ["LN4410"]}'},
            *ending,
        ],
    }


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Task 0: one of three trials passes. Task 1: none of three passes, and one differs from the others."""
    entries = [entry(0, 0, 1.0), entry(0, 1, 0.0), entry(0, 2, 0.0)]
    entries += [entry(1, 0, 0.0), entry(1, 1, 0.0), entry(1, 2, 0.0, ends_early=True)]
    path = tmp_path / "library.json"
    path.write_text(json.dumps(entries))
    return path


def test_task_without_a_passing_trial_is_uncertain_and_listed_first(inside: InProcessCommand, runs: Path) -> None:
    report = json.loads(inside.run("analyze", runs, "--judge", "rules", "--json").out)
    findings = {one["eval"].rpartition("/")[2]: one for one in report["findings"]}
    assert [one["eval"].rpartition("/")[2] for one in report["findings"]][:3] == ["task-1#1", "task-1#2", "task-1#3"]
    assert {name: one["never_passed"] for name, one in findings.items()} == {
        "task-0#2": False,
        "task-0#3": False,
        "task-1#1": True,
        "task-1#2": True,
        "task-1#3": True,
    }
    assert all(findings[name]["uncertain"] for name in ("task-1#1", "task-1#2", "task-1#3"))
    odd = findings["task-1#3"]
    assert (odd["classification"], odd["cause_kind"], odd["message"]) == ("OVERLY_STRICT", "user", 6)
    assert "Only this trial has this label: trials 1, 2 of the task are labelled MODEL_FAULT." in odd["reasoning"]
    page = Path(report["report_path"]).read_text()
    assert (
        "- 1, 2 come first: no known trial of any model passed these tasks, so what they expect may be wrong." in page
    )
    assert "Look first at [1]" in page
    assert "(no known trial passed)" in page
    assert "OVERLY_STRICT** (user), uncertain" in page
    assert "went wrong at message 6" in page
    assert "Message 6" in inside.run("explain", runs, "task-1#3", "--judge", "rules").out
    assert inside.run("analyze", runs, "--judge", "rules").out.count("unchanged") == 1


def test_dry_run_estimates_trials_that_may_be_judged_again(inside: InProcessCommand, runs: Path) -> None:
    out = inside.run("analyze", runs, *MODEL, "--dry-run").out
    assert "for 5: up to about " in out
    assert "with up to 1 trial judged again" in out


def test_trial_labelled_differently_from_its_siblings_is_judged_again(inside: InProcessCommand, runs: Path) -> None:
    """The second prompt shows the verdicts on the other trials; the second answer is stored and reported."""

    def answers(call: Call) -> Answer:
        text = json.dumps(call.body["messages"])
        early, again = "###STOP###" in text, "What you concluded about other trials" in text
        return (
            submit(classification="OVERLY_STRICT", cause_kind="grader")
            if early and not again
            else submit(cause="no-call")
        )

    with MessagesServer(answers) as server:
        access = {"ANTHROPIC_API_KEY": "sk-ant-test-0000", "ANTHROPIC_BASE_URL": server.url}
        report = json.loads(inside.run("analyze", runs, *MODEL, "--json", **access).out)
        assert len(server.calls) == 6, "five failures, and one of them twice"
        again = [text for call in server.calls if "about other trials" in (text := json.dumps(call.body["messages"]))]
        assert len(again) == 1
        assert "MODEL_FAULT" in again[0]
        assert "no-call" in again[0]
        inside.run("analyze", runs, *MODEL, "--json", **access)
        assert len(server.calls) == 6, "the second verdict is stored"
    findings = {one["eval"].rpartition("/")[2]: one for one in report["findings"]}
    assert (findings["task-1#3"]["classification"], findings["task-1#3"]["cause"]) == ("MODEL_FAULT", "no-call")
    assert "OVERLY_STRICT" not in Path(report["report_path"]).read_text().partition("## Net impact")[0]


def test_failed_score_is_shown_with_its_threshold(inside: InProcessCommand, tmp_path: Path) -> None:
    table = tmp_path / "sums.csv"
    table.write_text("id,input,output,expected,score\na,2+2?,5,4,0.75\nb,3+3?,1,6,0.2\nc,1+1?,2,2,1\n")
    chosen = ("--threshold", "0.8", "--judge", "rules")
    report = json.loads(inside.run("analyze", table, *chosen, "--json").out)
    assert [one["scored"] for one in report["findings"]] == [
        {"score": 0.75, "threshold": 0.8},
        {"score": 0.2, "threshold": 0.8},
    ]
    page = Path(report["report_path"]).read_text()
    assert "scored 0.75, passes at 0.8" in page
    assert page.count("The score is close to the threshold.") == 1
    assert (
        "Score   scored 0.75, passes at 0.8, close to the threshold" in inside.run("explain", table, "a", *chosen).out
    )
