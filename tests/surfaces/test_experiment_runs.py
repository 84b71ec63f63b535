"""Experiments on the command line: creation, runs in a worker process, kill, resume and cancel."""

import json
import os
import signal
from pathlib import Path

import pytest

from support.command import Workspace
from support.waiting import wait_until

COMPONENT = """\
import os
import pathlib
import time

CALLS = pathlib.Path(__file__).parent / "calls"
HOLD = CALLS.with_name("hold")


def agent(question, context):
    key = context.idempotency_key.partition("/")[2]
    with CALLS.open("a") as calls:
        calls.write(key + "\\n")
    while HOLD.exists() and CALLS.read_text().split().index(key) >= int(HOLD.read_text()):
        time.sleep(0.01)
    return "no" if question == "q1" else question


def stuck(question):
    with (CALLS.parent / "children").open("a") as children:
        children.write(f"{os.getpid()}\\n")
    time.sleep(3600)
"""
ITEMS = 48


@pytest.fixture
def ready(workspace: Workspace) -> Workspace:
    """A workspace with a published dataset and a deployment."""
    (workspace.folder / "evalscribe.toml").touch()
    (workspace.folder / "suite.py").write_text(COMPONENT)
    lines = [json.dumps({"key": f"k{n}", "input": f"q{n}", "expected_output": f"q{n}"}) for n in range(ITEMS)]
    (workspace.folder / "items.jsonl").write_text("\n".join(lines))
    workspace.run("datasets", "create", "--name", "questions")
    workspace.run("datasets", "upload", "questions", "items.jsonl")
    workspace.run("datasets", "publish", "questions")
    components = ("--component", "agent=python:suite:agent", "--component", "stuck=python:suite:stuck")
    workspace.run("experiments", "deployments", "create", "--name", "base", *components)
    return workspace


def create(ready: Workspace, name: str, component: str = "agent", *more: str) -> str:
    target = ("--target-type", "component", "--deployment-id", "base", "--component-name", component)
    ended = ready.run(
        *("experiments", "create", "--name", name, "--dataset-id", "questions", *target),
        *("--component-type", "agent", "--builtin-scorer", "exact_match", *more),
    )
    return ended.out.strip()


def state(ready: Workspace, run: str) -> dict[str, object]:
    return dict(json.loads(ready.run("experiments", "runs", "summary", run, "--format", "json").out)["summary"])


def test_experiments_are_created_updated_listed_and_shown(ready: Workspace) -> None:
    id = create(ready, "quality", "agent", "--config", '{"passed_threshold": 1}')
    assert id.startswith("exp-")
    assert "quality" in ready.run("experiments", "list").out
    shown = ready.run("experiments", "show", "quality").out
    assert "exact_match" in shown
    assert '"passed_threshold":1.0' in shown
    ready.run("experiments", "update", id, "--config", '{"repetitions": 2}')
    version = json.loads(ready.run("experiments", "show", id, "--format", "json").out)
    assert (version["number"], version["config"]["repetitions"], version["config"]["passed_threshold"]) == (2, 2, 1.0)
    assert json.loads(ready.run("experiments", "show", id, "--version", "1", "--format", "json").out)["number"] == 1
    ready.run("experiments", "archive", id)
    assert json.loads(ready.run("experiments", "list", "--status", "active", "--format", "json").out) == []
    assert "is unknown; use one of active" in ready.run("experiments", "list", "--status", "old", code=64).err
    _assert_missing_options_are_refused(ready)


def _assert_missing_options_are_refused(ready: Workspace) -> None:
    """Errors name the missing option; a flag also accepts a value."""
    assert "--name" in ready.run("experiments", "create", code=64).err
    assert "--dataset-id" in ready.run("experiments", "create", "--name", "n", code=64).err
    error = ready.run("experiments", "create", "--name", "n", "--dataset-id", "questions", code=64).err
    assert "--builtin-scorer" in error
    options = ("--dataset-id", "questions", "--builtin-scorer", "exact_match", "--target-type", "component")
    again = ("experiments", "create", "--name", "quality", *options, "--deployment-id", "base")
    assert "--component-name" in ready.run(*again, code=64).err
    assert "quality" in ready.run(*again, "--component-name", "agent", code=64).err
    ready.run("experiments", "runs", "wait", "nothing", "--fail-on-gate=false", code=66)
    ready.run("experiments", "runs", "wait", "nothing", "--fail-on-gate=perhaps", code=64)


def test_other_commands_accept_an_experiment_run_by_name(ready: Workspace) -> None:
    create(ready, "quality")
    run = ready.run("experiments", "run", "quality", "--name", "pr-1", "--wait", code=2).out.split()[0]
    report_text = ready.run("analyze", "pr-1", "--judge", "rules", "--full").out
    assert f"| Run | `{run}`" in report_text
    assert "`exact_match`" in report_text
    ready.run("explain", "pr-1", "k1", "--judge", "rules")
    assert run in ready.run("compare", "pr-1", run, code=64).err
    for words in (
        ("reports", "show", "pr-1"),
        ("reports", "parse", "pr-1"),
        ("reports", "check", "pr-1"),
        ("review", "label", "pr-1", "1", "MODEL_FAULT"),
        ("discuss", "pr-1", "--judge", "rules", "--ask", "1"),
    ):
        ready.run(*words)
    assert "report 'pr-2' not found" in ready.run("reports", "show", "pr-2", code=66).err


def test_regression_dataset_reruns_failures_and_prints_one_document(ready: Workspace) -> None:
    create(ready, "quality")
    ready.run("experiments", "run", "quality", "--name", "pr-1", "--wait", code=2)
    words = ("experiments", "runs", "regression-dataset", "pr-1", "--name", "again", "--start-run", "--wait")
    document = json.loads(ready.run(*words, "--format", "json", code=2).out)
    assert (document["items"], document["report"]["summary"]["run_id"]) == (1, document["run_id"])
    assert document["report"]["gate"]["passed"] is False


def test_resume_after_a_killed_worker_repeats_only_trials_in_flight(ready: Workspace) -> None:
    """The component holds every trial after the first 33."""
    (ready.folder / "hold").write_text("33")
    create(ready, "quality", "agent", "--config", '{"concurrency": 3, "passed_threshold": 0.9}')
    run = ready.run("experiments", "run", "quality", "--name", "pr-1").out.strip()
    calls = ready.folder / "calls"
    wait_until(lambda: calls.exists() and len(calls.read_text().split()) == 33 + 3, "some tries")
    log = ready.folder / ".evalscribe" / "logs" / f"{run}.log"
    worker = int(log.read_text().split("process ")[1].split()[0])
    os.kill(worker, signal.SIGKILL)
    wait_until(lambda: not _alive(worker), "the worker ends")
    stored = state(ready, run)
    done = json.loads(ready.run("experiments", "scores", "list", "--run-id", run, "--format", "json").out)
    before = calls.read_text().split()
    assert stored["state"] == "running"
    assert 0 < len(done) < ITEMS
    assert "has not ended" in ready.run("analyze", run, "--judge", "rules", code=64).err, "a part of it is archived"
    assert "has not ended" in ready.run("compare", run, run, code=64).err
    (ready.folder / "hold").unlink()
    ended = ready.run("experiments", "runs", "resume", run, "--wait", "--timeout", "15m")
    assert "gate passed" in ended.out
    every = calls.read_text().split()
    again = [key for key in every[len(before) :] if key in before]
    assert not {f"{one['item_key']}/{one['repetition']}" for one in done} & set(again), "what is stored is not repeated"
    assert len(again) <= 3, "at most what was under way"
    assert len(set(every)) == ITEMS
    assert state(ready, "pr-1")["state"] == "completed"


def test_cancelled_run_leaves_no_child_processes(ready: Workspace) -> None:
    create(ready, "stuck", "stuck")
    run = ready.run("experiments", "run", "stuck").out.strip()
    child = ready.folder / "children"
    wait_until(lambda: child.exists() and "\n" in child.read_text(), "a try under way")
    pid = int(child.read_text().split()[0])
    assert "is cancelled" in ready.run("experiments", "runs", "cancel", "stuck", run).out
    wait_until(lambda: not _alive(pid), "the component's process ends")
    assert "cancelled" in ready.run("experiments", "runs", "gate", run, code=3).out


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
