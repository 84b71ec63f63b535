"""Judging on Ray workers: same results as locally, one shared budget, and no loss when a process dies."""

import json
import os
import signal
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from support import run_snapshots
from support.command import InProcessCommand, Workspace, end
from support.messages_server import Answer, Call, MessagesServer, failure, says, submit
from support.ray_cluster import ClusterAddress
from support.waiting import wait_until

KEY = "sk-ant-test-0000"
POLITE = {"label": "polite", "because": "It greets [T0B1:<RANGE>Good morning</RANGE>]."}
RUBRIC = """\
rubric_text: Was the agent polite?
output_schema:
  type: object
  properties:
    label: {type: string, enum: [polite, rude]}
    because: {type: string, citations: true}
  required: [label, because]
  additionalProperties: false
"""
RAY = ("--engine", "ray")
DATED = ("--date", "2026-11-21", "--quiet")


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Workspace:
    folder = tmp_path / "workspace"
    (folder / ".git").mkdir(parents=True)
    return Workspace(folder, InProcessCommand(folder, monkeypatch, capsys))


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    return run_snapshots.write(tmp_path / "run", 12)


def access(server: MessagesServer) -> dict[str, str]:
    return {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": server.url, "EVALSCRIBE_JUDGE": "anthropic/claude-opus-5-5"}


def question_counts(server: MessagesServer) -> Counter[str]:
    """Return how often each question was sent."""
    return Counter(json.dumps(call.body["messages"]) for call in server.calls)


def workers() -> list[int]:
    """Return the ids of Ray worker processes below this process; parallel test runs have their own clusters."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
    processes = {
        int(pid): (int(parent), name) for pid, parent, name in (ln.split(None, 2) for ln in listed.splitlines())
    }

    def is_own(pid: int) -> bool:
        return pid == os.getpid() or (pid in processes and is_own(processes[pid][0]))

    return [pid for pid, (_, name) in processes.items() if name.startswith("ray::WorkerHost") and is_own(pid)]


def agent_run(number: int) -> dict[str, object]:
    turns = (("user", f"Hello, {number}."), ("assistant", "Good morning."))
    messages = [{"role": role, "content": content} for role, content in turns]
    return {"id": f"run-{number}", "transcripts": [{"id": f"t-{number}", "messages": messages}]}


@pytest.mark.usefixtures("cluster")
def test_ray_report_is_identical_to_the_local_one(workspace: Workspace, run_folder: Path, tmp_path: Path) -> None:
    def script(call: Call) -> Answer:
        return submit(confidence=0.3 + len(json.dumps(call.body["messages"])) % 7 / 10)

    with MessagesServer(script, latency_s=0.1) as server:
        server.gather(2)
        workspace.run("analyze", run_folder, *DATED, *RAY, "--concurrency", "6", **access(server))
        assert (len(server.calls), set(question_counts(server).values())) == (12, {1})
        assert 1 < server.peak <= 6
        distributed = workspace.report.read_bytes()
        again = json.loads(workspace.run("analyze", run_folder, "--json", *DATED[:2], *RAY, **access(server)).out)
        assert len(server.calls) == 12, "all is known"
        assert (again["changed"], again["usage"]["calls"]) == (False, 0)
        here = tmp_path / "here"
        workspace.run("analyze", run_folder, *DATED, "--reports", here, **access(server))
        (local,) = here.rglob("*/*/*_*.md")
    assert local.read_bytes() == distributed


@pytest.mark.usefixtures("cluster")
def test_killed_worker_loses_no_verdict(workspace: Workspace, run_folder: Path) -> None:
    killed: list[int] = []

    def script(call: Call) -> Answer:
        if call.number == 5:
            killed.extend(workers()[:1])
            os.kill(killed[0], signal.SIGKILL)
        return Answer(body=submit().body, delay_s=0.1)

    with MessagesServer(script) as server:
        done = workspace.run("analyze", run_folder, "--json", "--budget", "50", *RAY, **access(server))
        questions = question_counts(server)
    assert killed
    assert len(questions) == 12
    assert sum(questions.values()) - 12 <= 4, "only what the dead worker had is asked again"
    document = json.loads(done.out)
    assert document["usage"]["calls"] >= sum(questions.values()), "what the dead one asked counts"
    assert "Unclassified" not in workspace.report.read_text()


@pytest.mark.usefixtures("cluster")
def test_workers_together_never_exceed_the_budget(workspace: Workspace, run_folder: Path) -> None:
    def costly(_call: Call) -> Answer:
        return Answer(body=submit().body.replace(b'"output_tokens": 100', b'"output_tokens": 4000'), delay_s=0.05)

    with MessagesServer(costly) as server:
        result = workspace.run(
            "analyze", run_folder, "--json", "--budget", "0.9", *RAY, "--concurrency", "6", **access(server)
        )
        calls = len(server.calls)
    usage = json.loads(result.out)["usage"]
    assert usage["calls"] == calls
    assert 0 < calls < 12
    assert usage["cost_usd"] <= 0.9
    assert "has no room for another call" in workspace.report.read_text()


@pytest.mark.usefixtures("cluster")
def test_refused_api_key_ends_the_command(workspace: Workspace, run_folder: Path) -> None:
    with MessagesServer(failure(401, "authentication_error", "invalid x-api-key")) as server:
        ended = workspace.run("analyze", run_folder, *RAY, "--concurrency", "1", code=77, **access(server))
    assert "refused the key" in ended.err
    assert KEY not in ended.err
    assert workspace.reports == []


@pytest.mark.usefixtures("cluster")
def test_ray_and_local_rubric_judging_give_the_same_results(workspace: Workspace) -> None:
    rubric, runs = workspace.folder / "polite.yaml", workspace.folder / "runs.jsonl"
    rubric.write_text(RUBRIC)
    runs.write_text("\n".join(json.dumps(agent_run(n)) for n in range(6)))
    with MessagesServer(says(f"<response>{json.dumps(POLITE)}</response>")) as server:
        words = ("judge", rubric, runs, "--json")
        distributed = json.loads(workspace.run(*words, *RAY, "--concurrency", "1", **access(server)).out)
        assert len(server.calls) == 6
        cached = json.loads(workspace.run(*words, **access(server)).out)
        assert len(server.calls) == 6, "what a worker found is known here"
        local = json.loads(workspace.run(*words, "--fresh", "--concurrency", "1", **access(server)).out)
    results = distributed["results"] if isinstance(distributed, dict) else distributed
    assert {result["result_type"] for result in results} == {"direct_result"}
    assert distributed == local
    assert json.dumps(cached) == json.dumps(distributed).replace('"cached": false', '"cached": true')


def test_killed_command_repeats_only_questions_in_flight(
    workspace: Workspace, run_folder: Path, address: ClusterAddress
) -> None:
    """The command joins a cluster by its address, and its workers end with it."""
    joins = (*RAY, "--ray-address", address.head)
    answer = submit()
    with MessagesServer(lambda call: answer if call.number < 6 else replace(answer, held=True)) as server:
        process = workspace.start(
            "analyze", run_folder, "--concurrency", "2", *joins, **access(server), **address.token
        )
        wait_until(lambda: len(server.calls) == 6 + 2, "half of the answers and two more questions")
        killed, _ = end(process, signal.SIGKILL)
        assert killed.code == -signal.SIGKILL
        assert workspace.reports == []
        server._script = answer
        workspace.run("analyze", run_folder, **access(server))
        questions = question_counts(server)
    assert len(questions) == 12
    assert sum(questions.values()) - 12 <= 2
    wait_until(lambda: not workers(), "the end of its workers")
