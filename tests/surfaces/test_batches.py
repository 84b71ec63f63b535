"""`evalscribe analyze --batch`: investigations whose turns go out in waves."""

import re
from pathlib import Path
from typing import Any

import pytest

from batches_server import BatchesServer, answer
from evalscribe.llm.batch_delivery import Pace
from messages_server import VERDICT
from surfaces.command import Inside, Workspace

FAILURES = 10
"""Of the sample run, each a group of its own."""


@pytest.fixture
def analysing(workspace: Workspace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Inside:
    monkeypatch.setattr("evalscribe.llm.batch.Pace", lambda: Pace(quiet_s=0.3, poll_s=0.05))
    return Inside(workspace.folder, monkeypatch, capsys)


def looks_first(_key: str, params: dict[str, Any]) -> dict[str, Any]:
    """Asks for the documents, then submits."""
    turn = len(params["messages"]) // 2
    call = {"name": "submit", "input": VERDICT} if turn else {"name": "list_documents", "input": {}}
    content = [{"type": "tool_use", "id": f"call_{turn}", **call}]
    return {"type": "succeeded", "message": {**answer(), "content": content, "stop_reason": "tool_use"}}


def analyze(analysing: Inside, server: BatchesServer, *more: str) -> str:
    reports = ("--reports", analysing.folder / "reports", "--judge", "anthropic/claude-opus-5-5")
    chosen = ("analyze", "sample", "--batch", "--budget", "20", *reports, *more)
    return analysing.run(*chosen, ANTHROPIC_API_KEY="sk-ant-test-0000", ANTHROPIC_BASE_URL=server.url).out


def test_every_turn_of_an_analysis_is_a_batch_of_all_its_failures(analysing: Inside) -> None:
    with BatchesServer(looks_first) as server:
        first = analyze(analysing, server)
        assert [len(batch.requests) for batch in server.batches] == [FAILURES, FAILURES]
        assert server.singles == []
        assert f"judge {2 * FAILURES} calls" in first
        again = analyze(analysing, server)
        assert len(server.batches) == 2
    assert "unchanged" in again
    assert len(list(Path(analysing.folder).rglob("smp7q2ka_*.md"))) == 1


def test_a_plan_of_batches_costs_half(analysing: Inside) -> None:
    with BatchesServer() as server:
        costs = [
            float(re.findall(r"\$([\d.]+)", analysing.run(*command, **access(server)).out)[0])
            for command in (("analyze", "sample", "--dry-run"), ("analyze", "sample", "--dry-run", "--batch"))
        ]
    assert costs[1] == pytest.approx(costs[0] / 2, abs=0.01)


def test_rules_need_no_batch(analysing: Inside) -> None:
    ended = analysing.run("analyze", "sample", "--judge", "rules", "--batch", code=64)
    assert "--batch asks a model" in ended.err


def access(server: BatchesServer) -> dict[str, str]:
    return {"ANTHROPIC_API_KEY": "sk-ant-test-0000", "ANTHROPIC_BASE_URL": server.url}
