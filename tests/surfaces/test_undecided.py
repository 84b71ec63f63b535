"""Failures without a new verdict keep the earlier one; an analysis without verdicts exits with the cause's code."""

import json
from pathlib import Path
from typing import Any

import pytest

from support import run_snapshots
from support.command import Workspace
from support.messages_server import Answer, Call, MessagesServer, failure, says, submit

KEY = "sk-ant-test-0000"
RULES = ("--judge", "rules")
MODEL = ("--judge", "anthropic/claude-opus-5-5", "--budget", "50")


def access(server: MessagesServer) -> dict[str, str]:
    return {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": server.url}


def about(call: Call, n: int) -> bool:
    return run_snapshots.eval_path(n) in json.dumps(call.body["messages"])


def findings(out: str) -> dict[str, dict[str, Any]]:
    return {finding["eval"]: finding for finding in json.loads(out)["findings"]}


CAUSES = [
    pytest.param(failure(529, "overloaded_error", "busy", retry_after="900"), (), 69, "is overloaded", id="provider"),
    pytest.param(failure(401, "authentication_error", "no"), (), 77, "refused the key", id="key"),
    pytest.param(submit(), ("--budget", "0.01"), 64, "raise --budget", id="budget"),
    pytest.param(says("I cannot say."), (), 65, "the model gave no verdict", id="no verdict"),
    pytest.param(failure(400, "invalid_request_error", "no"), (), 65, "rejected the request", id="refused"),
]


@pytest.mark.parametrize(("script", "more", "code", "words"), CAUSES)
@pytest.mark.parametrize("earlier", [True, False], ids=["earlier report", "no report"])
def test_analysis_without_a_verdict_exits_with_the_code_of_its_cause(
    script: Any, more: tuple[str, ...], code: int, words: str, earlier: bool, workspace: Workspace, tmp_path: Path
) -> None:
    run = run_snapshots.write(tmp_path / "run", 2)
    if earlier:
        workspace.run("analyze", run, *RULES)
    before = {path: path.read_bytes() for path in workspace.reports}
    with MessagesServer(script) as server:
        for as_json in ((), ("--json",)):
            result = workspace.run("analyze", run, *MODEL, *more, *as_json, code=code, **access(server))
            assert result.out == ""
            message = result.err[result.err.index("evalscribe: ") :].splitlines()
            assert len(message) <= 2
            assert words in "\n".join(message)
    assert {path: path.read_bytes() for path in workspace.reports} == before
    assert len(before) == earlier


def test_analysis_succeeds_once_the_cause_is_gone(workspace: Workspace, tmp_path: Path) -> None:
    run = run_snapshots.write(tmp_path / "run", 2)
    workspace.run("analyze", run, *RULES)
    with MessagesServer(submit()) as server:
        workspace.run("analyze", run, *MODEL, "--budget", "0.01", code=64, **access(server))
        out = workspace.run("analyze", run, *MODEL, "--json", **access(server)).out
    assert {finding["judge"]["id"] for finding in findings(out).values()} == {"anthropic/claude-opus-5-5"}


def test_fresh_analysis_without_answers_keeps_the_report(workspace: Workspace, tmp_path: Path) -> None:
    run = run_snapshots.write(tmp_path / "run", 2)
    with MessagesServer(submit()) as server:
        workspace.run("analyze", run, *MODEL, **access(server))
        before = workspace.report.read_bytes()
        server._script = failure(529, "overloaded_error", "busy", retry_after="900")
        workspace.run("analyze", run, *MODEL, "--fresh", code=69, **access(server))
        assert workspace.report.read_bytes() == before
        cached = findings(workspace.run("analyze", run, *MODEL, "--json", **access(server)).out)
    assert {finding["classification"] for finding in cached.values()} == {"MODEL_FAULT"}, "stored verdicts stay too"


def test_failures_without_a_verdict_keep_the_earlier_one(workspace: Workspace, tmp_path: Path) -> None:
    run = run_snapshots.write(tmp_path / "run", 4)
    before = findings(workspace.run("analyze", run, *RULES, "--json").out)

    def script(call: Call) -> Answer:
        return failure(400, "invalid_request_error", "no") if about(call, 1) or about(call, 2) else submit()

    with MessagesServer(script) as server:
        result = workspace.run("analyze", run, *MODEL, "--json", **access(server))
    after = findings(result.out)
    kept_paths = [run_snapshots.eval_path(n) for n in (1, 2)]
    compared = ("classification", "cause", "cause_kind", "uncertain", "judge", "error", "reasoning", "output_snippet")
    for path in kept_paths:
        assert {name: after[path][name] for name in compared} == {name: before[path][name] for name in compared}
        assert after[path]["unclassified"] is None
    assert {after[path]["judge"]["id"] for path in after if path not in kept_paths} == {"anthropic/claude-opus-5-5"}
    assert f"earlier verdict kept: {', '.join(kept_paths)}" in result.err
    assert "UNCLASSIFIED" not in workspace.report.read_text()
    workspace.run("reports", "check")


def test_correction_of_a_kept_verdict_is_kept(workspace: Workspace, tmp_path: Path) -> None:
    run = run_snapshots.write(tmp_path / "run", 2)
    workspace.run("analyze", run, *RULES)
    report = workspace.report
    text = report.read_text()
    heading = next(line for line in text.splitlines() if line.startswith("### ") and run_snapshots.eval_path(1) in line)
    before, _, after = text.partition(f"{heading}\n**")
    report.write_text(f"{before}{heading}\n**AMBIGUOUS_TASK**{after[after.index('**') + 2 :]}")

    def script(call: Call) -> Answer:
        return failure(400, "invalid_request_error", "no") if about(call, 1) else submit()

    with MessagesServer(script) as server:
        after = findings(workspace.run("analyze", run, *MODEL, "--json", **access(server)).out)
    corrected = after[run_snapshots.eval_path(1)]
    assert (corrected["classification"], corrected["judge"]["id"]) == ("AMBIGUOUS_TASK", "rules@6")
    assert after[run_snapshots.eval_path(0)]["judge"]["id"] == "anthropic/claude-opus-5-5"


def test_deleted_evidence_keeps_the_verdict(workspace: Workspace, tmp_path: Path) -> None:
    run = run_snapshots.write(tmp_path / "run", 2)
    workspace.run("analyze", run, *RULES)
    before = workspace.report.read_bytes()
    for path in (run / "debug").iterdir():
        path.unlink()
    workspace.run("analyze", run, *RULES)
    assert workspace.report.read_bytes() == before


def test_unreadable_evidence_writes_no_report(workspace: Workspace, tmp_path: Path) -> None:
    run = run_snapshots.write(tmp_path / "run", 2)
    for path in (run / "debug").iterdir():
        path.unlink()
    result = workspace.run("analyze", run, *RULES, code=65)
    assert "no verdict on any of 2 failures" in result.err
    assert "the snapshot has no debug/" in result.err
    assert workspace.reports == []


def test_analysis_of_outages_only_succeeds(workspace: Workspace, tmp_path: Path) -> None:
    run = run_snapshots.write(tmp_path / "run", 3)
    for path in (run / "debug").iterdir():
        payload = json.loads(path.read_text())
        payload["eval"]["status"] = {"kind": "failed", "failureReason": "[rate_limit] error: 429 Too Many Requests"}
        path.write_text(json.dumps(payload | {"outputFiles": None, "steps": []}))
    summary = json.loads((run / "failed_evals.json").read_text())
    for listed in summary["failedEvals"]:
        listed |= {"failureReason": "[rate_limit] error: 429 Too Many Requests", "failedStep": None}
    (run / "failed_evals.json").write_text(json.dumps(summary))
    document = findings(workspace.run("analyze", run, *RULES, "--json").out)
    assert {finding["cause_kind"] for finding in document.values()} == {"infrastructure"}
    assert len(workspace.reports) == 1
