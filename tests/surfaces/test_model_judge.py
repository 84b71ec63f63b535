"""The model judge from the command line, against a Messages API on loopback: concurrency, signals, budgets, keys."""

import json
import shutil
import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from support import run_snapshots
from support.command import NEXT, Workspace, end, known
from support.messages_server import Answer, Call, MessagesServer, failure, submit
from support.report_pages import report_at
from support.waiting import wait_until

KEY = "sk-ant-test-0000"
MANY = 40
CONCURRENCY = 4
LATENCY_S = 0.5
IDEAL_S = MANY / CONCURRENCY * LATENCY_S
MAX_OVERHEAD = 1.15
"""Longest time allowed, as a multiple of the ideal time."""


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_snapshots.write(tmp_path_factory.mktemp("many") / "run", MANY)


def access(server: MessagesServer) -> dict[str, str]:
    return {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": server.url, "EVALSCRIBE_JUDGE": "anthropic/claude-opus-5-5"}


def requests_sent(server: MessagesServer) -> Counter[str]:
    """How often each request was sent, by its messages."""
    return Counter(json.dumps(call.body["messages"]) for call in server.calls)


def analysis_seconds(folder: Path, run: Path) -> float:
    """Seconds from the first request to the last answer of an analysis."""
    folder.mkdir()
    with MessagesServer(latency_s=LATENCY_S) as server:
        Workspace(folder).run("analyze", run, "--quiet", "--budget", "50", **access(server))
        assert len(server.calls) == MANY
        assert set(requests_sent(server).values()) == {1}
        assert server.peak == CONCURRENCY
        return server.finished[-1] - server.calls[0].at


@pytest.mark.benchmark
def test_four_workers_judge_forty_failures_in_about_the_ideal_time(tmp_path: Path, many: Path) -> None:
    """Takes the faster of two analyses, to discount other load on the machine."""
    fastest = IDEAL_S * 99
    for n in range(2):
        fastest = min(fastest, analysis_seconds(tmp_path / str(n), many))
        if fastest <= MAX_OVERHEAD * IDEAL_S:
            break
    print(f"{fastest:.2f} s for an ideal of {IDEAL_S} s")
    assert IDEAL_S <= fastest <= MAX_OVERHEAD * IDEAL_S


def test_concurrency_option_limits_parallel_requests(workspace: Workspace, made: Path) -> None:
    with MessagesServer(latency_s=0.2) as server:
        server.gather(2)
        workspace.run("analyze", made, "--quiet", "--concurrency", "2", **access(server))
        assert (server.peak, len(server.calls)) == (2, 8)


def test_killed_analysis_repeats_only_requests_in_flight(workspace: Workspace, many: Path) -> None:
    with MessagesServer(lambda call: submit() if call.number < MANY // 2 else held()) as server:
        process = workspace.start("analyze", many, "--budget", "50", **access(server))
        wait_until(lambda: len(server.calls) == MANY // 2 + CONCURRENCY, "half of the answers and four more questions")
        killed, _ = end(process, signal.SIGKILL)
        assert killed.code == -signal.SIGKILL
        assert workspace.reports == []
        before = len(server.calls)
        quick(server)
        ended = workspace.run("analyze", many, "--budget", "50", **access(server))
        questions = requests_sent(server)
        assert len(questions) == MANY
        assert sum(questions.values()) - MANY <= CONCURRENCY
        assert len(server.calls) - before <= MANY // 2 + CONCURRENCY
        assert known(ended) >= MANY // 2 - CONCURRENCY
        calls = len(server.calls)
        document = json.loads(workspace.run("analyze", many, "--json", **access(server)).out)
        assert len(server.calls) == calls, "all is known"
        assert document["usage"]["calls"] == 0
        assert document["changed"] is False
    report = report_at(workspace.report)
    assert [entry.classification for entry in report.entries] == ["MODEL_FAULT"] * MANY


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_stops_the_analysis_and_keeps_verdicts(
    number: signal.Signals, code: int, workspace: Workspace, made: Path
) -> None:
    with MessagesServer(lambda call: submit() if call.number < 4 else held()) as server:
        process = workspace.start("analyze", made, **access(server))
        wait_until(lambda: len(server.calls) == 8, "the second four asked")
        ended, _ = end(process, number)
        assert ended.code == code, ended
        assert "run the same command again" in ended.err
        assert "Traceback" not in ended.err
        assert workspace.reports == []
        again = workspace.run("analyze", made, "--judge", "anthropic/claude-opus-5-5", **access(quick(server)))
        assert known(again) == 4


def held() -> Answer:
    return replace(submit(), held=True)


def costly() -> Answer:
    """A verdict that costs about ten cents."""
    return Answer(body=submit().body.replace(b'"output_tokens": 100', b'"output_tokens": 4000'))


def quick(server: MessagesServer) -> MessagesServer:
    """Make the server answer at once from now on, and return it."""
    server._script = submit()
    return server


def test_second_analysis_names_the_running_process_and_stops(workspace: Workspace, made: Path) -> None:
    with MessagesServer(held()) as server:
        process = workspace.start("analyze", made, **access(server))
        wait_until(lambda: len(server.calls) == CONCURRENCY, "four asked")
        second = workspace.run("analyze", made, code=69, **access(server))
        assert f"process {process.pid}" in second.err
        assert run_snapshots.RUN_ID in second.err
        assert len(server.calls) == CONCURRENCY
        end(process, signal.SIGKILL)
        assert workspace.run("analyze", made, **access(quick(server))).out.splitlines()[-1].startswith(NEXT)


def test_wrong_key_stops_the_analysis_without_a_report(workspace: Workspace, made: Path) -> None:
    with MessagesServer(failure(401, "authentication_error", "invalid x-api-key")) as server:
        ended = workspace.run("analyze", made, code=77, **access(server))
        assert len(server.calls) <= CONCURRENCY
    assert workspace.reports == []
    assert KEY not in ended.err
    assert "key" in ended.err
    assert workspace.holding(KEY) == []


def test_unknown_model_stops_the_analysis_without_a_report(workspace: Workspace, made: Path) -> None:
    with MessagesServer(failure(404, "not_found_error", "model: claude-nine")) as server:
        chosen = ("--judge", "anthropic/claude-nine", "--max-tokens", "900000")
        ended = workspace.run("analyze", made, *chosen, code=64, **access(server))
    assert "claude-nine" in ended.err
    assert workspace.reports == []


def test_model_without_a_price_needs_max_tokens(workspace: Workspace, made: Path, anthropic: MessagesServer) -> None:
    ended = workspace.run("analyze", made, "--judge", "anthropic/claude-nine", code=64, **access(anthropic))
    assert "--max-tokens" in ended.err
    assert anthropic.calls == []


def test_budget_is_kept_and_the_next_analysis_continues(
    workspace: Workspace, made: Path, anthropic: MessagesServer
) -> None:
    anthropic._script = costly()
    poor = workspace.run("analyze", made, "--budget", "0.01", code=64, **access(anthropic))
    assert anthropic.calls == []
    assert f"no verdict on any of 8 failures of run {run_snapshots.RUN_ID}: the budget of $0.01 has no room" in poor.err
    assert "nothing was written; raise --budget" in poor.err
    assert poor.out == ""
    assert workspace.reports == []
    estimate = next(line for line in poor.err.splitlines() if "for 8 of 8 verdicts" in line)
    assert "$" in estimate
    some = json.loads(workspace.run("analyze", made, "--budget", "0.35", "--json", **access(anthropic)).out)
    unclassified = [finding for finding in some["findings"] if finding["unclassified"]]
    assert 0 < len(unclassified) < 8
    assert some["usage"]["cost_usd"] <= 0.35
    assert some["usage"]["calls"] == len(anthropic.calls) == 8 - len(unclassified)
    whole = json.loads(workspace.run("analyze", made, "--json", **access(anthropic)).out)
    assert [finding["unclassified"] for finding in whole["findings"]] == [None] * 8
    assert set(requests_sent(anthropic).values()) == {1}
    assert whole["revision"] == 2


def test_refused_failure_is_unclassified_and_the_others_are_judged(workspace: Workspace, made: Path) -> None:
    def script(call: Call) -> Answer:
        refused = "003-mutations/003-task_3" in json.dumps(call.body["messages"])
        return failure(400, "invalid_request_error", "no") if refused else submit()

    with MessagesServer(script) as server:
        document = json.loads(workspace.run("analyze", made, "--json", **access(server)).out)
    unclassified = [f["eval"] for f in document["findings"] if f["unclassified"]]
    assert unclassified == ["003-mutations/003-task_3"]
    assert document["usage"]["calls"] >= 7


def test_invented_quotations_are_marked(workspace: Workspace, made: Path) -> None:
    invented = {"role": "output", "path": "convex/index.ts", "first": 1, "last": 1, "text": "const invented = 1;"}
    with MessagesServer(submit(citations=[invented])) as server:
        document = json.loads(workspace.run("analyze", made, "--json", **access(server)).out)
    statuses = {citation["status"] for finding in document["findings"] for citation in finding["citations"]}
    assert statuses == {"unverified"}
    text = workspace.report.read_text()
    assert "All 8 quotations are verified" not in text
    for line in text.splitlines():
        if "const invented" in line:
            assert line.lstrip("-` ").startswith("(unverified)")


def test_workspace_prompts_are_used_and_reported(workspace: Workspace, made: Path, anthropic: MessagesServer) -> None:
    shipped = Path(__file__).parents[2] / "prompts" / "classify"
    shutil.copytree(shipped, workspace.folder / "prompts" / "classify")
    system = workspace.folder / "prompts" / "classify" / "system.md.j2"
    system.write_text(f"{system.read_text()}\nAlways be kind to the model.\n")
    ended = workspace.run("analyze", made, **access(anthropic))
    assert "Always be kind to the model." in json.dumps(anthropic.calls[0].body["system"])
    assert "own prompts" in ended.err.lower()
    assert "own prompts" in workspace.report.read_text().lower()


def test_explain_asks_about_one_failure(workspace: Workspace, made: Path, anthropic: MessagesServer) -> None:
    ended = workspace.run("explain", made, "000-fundamentals/000-task_0", **access(anthropic))
    assert len(anthropic.calls) == 1
    assert "anthropic/claude-opus-5-5 for 1 of 1 verdicts: about" in ended.err
    assert ended.out.startswith("000-fundamentals/000-task_0: MODEL_FAULT (model)")
    assert workspace.reports == []
