"""Workspace templates are used wherever a subject beyond the context window is read in parts."""

import asyncio
import json
from pathlib import Path

import pytest

from evalscribe import AgentRun, BaseLLMService, Client, Rubric, Transcript, UserMessage, build_judge
from support.command import InProcessCommand, Workspace
from support.messages_server import Answer, Call, MessagesServer, says

OWN = "OUR WORDS about part {{ number }}: {{ part }}"
WHOLE, PART = '{"label": "match", "explanation": "See [T0B1]."}', '{"observations": ["It goes on [T0B1]."]}'
LONG = [{"role": "user", "content": "It goes on and on. " * 40_000} for _ in range(5)]


def script(call: Call) -> Answer:
    return says(f"<response>{PART if 'OUR WORDS' in json.dumps(call.body) else WHOLE}</response>")


@pytest.fixture
def folder(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = workspace.folder
    (folder / "prompts" / "judging").mkdir(parents=True)
    (folder / "prompts" / "judging" / "observe.md.j2").write_text(OWN)
    (folder / "prompts" / "rubrics").mkdir()
    (folder / "prompts" / "rubrics" / "on.yaml").write_text("rubric_text: Does it go on?\n")
    (folder / "evalscribe.toml").write_text('[cascade.tags.loops]\nabout = "goes in circles"\nrubric = "on"\n')
    (folder / "long.json").write_text(json.dumps({"id": "long", "transcripts": [{"messages": LONG}]}))
    monkeypatch.chdir(folder)
    return folder


def judged_by_own_templates(server: MessagesServer) -> bool:
    read = ["OUR WORDS about part" in json.dumps(call.body) for call in server.calls]
    return read.count(True) > 5 and read.count(False) == 1


def environment(server: MessagesServer) -> dict[str, str]:
    return {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": server.url, "EVALSCRIBE_JUDGE": "anthropic/claude-opus-5-5"}


def test_judge_command_uses_workspace_templates(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with MessagesServer(script) as server:
        command = InProcessCommand(folder, monkeypatch, capsys)
        ended = command.run("judge", "on", "long.json", "--budget", "90", **environment(server))
    assert "long: match" in ended.out
    assert judged_by_own_templates(server)


def test_sdk_judges_use_workspace_templates(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user_messages = tuple(UserMessage(content=message["content"]) for message in LONG)
    run, rubric = AgentRun(transcripts=(Transcript(messages=user_messages),)), Rubric(rubric_text="Does it go on?")
    with MessagesServer(script) as server:
        for name, value in environment(server).items():
            monkeypatch.setenv(name, value)
        service = BaseLLMService(max_tokens=20_000_000)
        assert asyncio.run(build_judge(rubric, service)(run)).output["label"] == "match"
        service.stop()
    assert judged_by_own_templates(server)
    with MessagesServer(script) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        with Client(max_tokens=20_000_000) as client:
            collection = client.create_collection("c")
            judge = client.get_judge(collection, client.create_rubric(collection, rubric))
            assert asyncio.run(judge(run)).output["label"] == "match"
    assert judged_by_own_templates(server)


def test_cascade_uses_workspace_templates(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def step(call: Call) -> Answer:
        if "OUR WORDS" not in json.dumps(call.body) and "first pass" in json.dumps(call.body):
            return says(f'<response>{{"tags": [], "sure": true, "answer": {WHOLE}}}</response>')
        return script(call)

    with MessagesServer(step) as server:
        command = InProcessCommand(folder, monkeypatch, capsys)
        ended = command.run("judge", "on", "long.json", "--cascade", "--yes", "--budget", "90", **environment(server))
    assert "long: match" in ended.out
    assert judged_by_own_templates(server)
