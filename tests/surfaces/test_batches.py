"""`--batch`: each turn of all conversations is sent as one batch."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from evalscribe.llm.batch import BatchPacing
from support.batches_server import BatchesServer, Result, answer
from support.command import InProcessCommand, Workspace
from support.messages_server import VERDICT

FAILURES = 10
"""Failures of the sample run; each forms a group of its own."""


@pytest.fixture
def analysing(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> InProcessCommand:
    monkeypatch.setattr("evalscribe.llm.batch.BatchPacing", lambda: BatchPacing(quiet_s=1.0, poll_s=0.05))
    return InProcessCommand(workspace.folder, monkeypatch, capsys)


RUBRIC = """\
rubric_text: Was the agent polite?
output_schema:
  type: object
  properties:
    label: {type: string, enum: [polite, rude]}
  required: [label]
  additionalProperties: false
"""


def text_result(text: str) -> Result:
    return lambda _key, _params: {"type": "succeeded", "message": answer(text)}


def submit_after_listing(_key: str, params: dict[str, Any]) -> dict[str, Any]:
    """Answer the first turn by listing the documents and the second by submitting a verdict."""
    turn = len(params["messages"]) // 2
    call = {"name": "submit", "input": VERDICT} if turn else {"name": "list_documents", "input": {}}
    content = [{"type": "tool_use", "id": f"call_{turn}", **call}]
    return {"type": "succeeded", "message": {**answer(), "content": content, "stop_reason": "tool_use"}}


def analyze(analysing: InProcessCommand, server: BatchesServer, *more: str, code: int = 0) -> str:
    reports = ("--reports", analysing.folder / "reports", "--judge", "anthropic/claude-opus-5-5")
    chosen = ("analyze", "sample", "--batch", "--budget", "20", *reports, *more)
    return analysing.run(*chosen, code=code, ANTHROPIC_API_KEY="sk-ant-test-0000", ANTHROPIC_BASE_URL=server.url).out


def test_each_analysis_turn_is_one_batch_of_all_failures(analysing: InProcessCommand) -> None:
    with BatchesServer(submit_after_listing) as server:
        first = analyze(analysing, server)
        assert [len(batch.requests) for batch in server.batches] == [FAILURES, FAILURES]
        assert server.singles == []
        assert f"judge {2 * FAILURES} calls" in first
        again = analyze(analysing, server)
        assert len(server.batches) == 2
    assert "unchanged" in again
    assert len(list(Path(analysing.folder).rglob("smp7q2ka_*.md"))) == 1


def test_failed_investigations_are_repeated_by_the_next_analysis(analysing: InProcessCommand) -> None:
    with BatchesServer(text_result("no idea")) as server:
        assert "MODEL_FAULT" not in analyze(analysing, server, code=65)
        batch_count = len(server.batches)
        assert batch_count > 1, "the model is told what is missing"
        server.result = submit_after_listing
        second = analyze(analysing, server)
        assert [len(batch.requests) for batch in server.batches[batch_count:]] == [FAILURES, FAILURES]
    assert f"judge {2 * FAILURES} calls" in second


def test_failed_cascade_questions_are_asked_again_once(analysing: InProcessCommand) -> None:
    with BatchesServer(text_result("no idea")) as server:
        analyze(analysing, server, "--cascade", "--yes")
        batch_count = len(server.batches)
        server.result = submit_after_listing
        analyze(analysing, server, "--cascade", "--yes")
        models = [{params["model"] for params in batch.requests.values()} for batch in server.batches[batch_count:]]
        assert models[0] == {"claude-haiku-5-5"}
        again = len(server.batches)
        analyze(analysing, server, "--cascade", "--yes")
        assert len(server.batches) == again
        assert server.singles == []


def test_failed_rubric_judgements_are_asked_again_once(analysing: InProcessCommand) -> None:
    rubrics = analysing.folder / "prompts" / "rubrics"
    rubrics.mkdir(parents=True)
    (analysing.folder / "evalscribe.toml").touch()
    (rubrics / "polite.yaml").write_text(RUBRIC)
    messages = [{"role": "user", "content": f"Good morning, {n}."} for n in range(3)]
    lines = [{"id": f"run-{n}", "transcripts": [{"messages": [message]}]} for n, message in enumerate(messages)]
    (analysing.folder / "runs.jsonl").write_text("\n".join(map(json.dumps, lines)))
    with BatchesServer(text_result("no idea")) as server:
        failed = analysing.run("judge", "polite", "runs.jsonl", "--batch", **access(server), code=65)
        server.result = text_result('<response>{"label": "polite"}</response>')
        second = analysing.run("judge", "polite", "runs.jsonl", "--batch", **access(server))
        cached = analysing.run("judge", "polite", "runs.jsonl", "--batch", **access(server))
        assert [len(batch.requests) for batch in server.batches] == [3, 3, 3], "question, correction, question"
    assert "3 could not be judged" in failed.out
    assert "3 results, 0 could not be judged" in second.out
    assert "Spent: judge 3 calls" in second.out
    assert "Spent: nothing" in cached.out


def test_batch_dry_run_estimates_half_the_cost(analysing: InProcessCommand) -> None:
    with BatchesServer() as server:
        costs = [
            float(re.findall(r"\$([\d.]+)", analysing.run(*command, **access(server)).out)[0])
            for command in (("analyze", "sample", "--dry-run"), ("analyze", "sample", "--dry-run", "--batch"))
        ]
    assert costs[1] == pytest.approx(costs[0] / 2, abs=0.01)


def test_batch_option_with_the_rules_judge_is_refused(analysing: InProcessCommand) -> None:
    ended = analysing.run("analyze", "sample", "--judge", "rules", "--batch", code=64)
    assert "--batch needs a model" in ended.err


def access(server: BatchesServer) -> dict[str, str]:
    return {
        "ANTHROPIC_API_KEY": "sk-ant-test-0000",
        "ANTHROPIC_BASE_URL": server.url,
        "EVALSCRIBE_JUDGE": "anthropic/claude-opus-5-5",
    }
