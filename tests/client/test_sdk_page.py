"""The code of the SDK's page runs in the order of the page."""

import inspect
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from evalscribe import Client
from evalscribe.cli import run
from evalscribe.client.service import MAX_TOKENS
from support import chat_server, trajectories
from support.chat_server import Call, ChatServer

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "agent/docs/sdk.md").read_text("utf-8")
SHAPED = json.dumps({"cause": "policy", "why": "It says no [T0B2:<RANGE>says no</RANGE>]."})


def blocks(language: str) -> list[str]:
    return [token.content for token in MarkdownIt().parse(PAGE) if token.type == "fence" and token.info == language]


def answer(call: Call) -> chat_server.Answer:
    system, user = (message["content"] for message in call.body["messages"])
    if "JSON Schema" in system:
        return chat_server.says(f"<response>{SHAPED}</response>")
    return chat_server.says("They all refuse [A0]." if "have in common" in user else "It refused [T0B2].")


@pytest.fixture
def server(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    trajectories.write(workspace).rename(workspace / "runs.json")
    with ChatServer(answer) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "test-key")
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        yield server


def test_code_of_the_page_runs_in_order(server: ChatServer, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {"__name__": "page"}
    for code in blocks("python"):
        exec(compile(code, "sdk.md", "exec"), names)
    output = capsys.readouterr().out
    assert output.startswith("{'reward': 0.0} 3 messages\n")
    assert "'results': 3, 'errors': 0" in output
    assert output.endswith("They all refuse [A0].\n")
    assert "['endings/causes/v1', 'endings/v1']" in output
    assert "'why': 'It says no" in output, "SQL joins answers with runs"
    failed_with_a_success = 2
    assert len(server.calls) == 3 + 3 + failed_with_a_success + 1
    for line in blocks("bash")[0].splitlines():
        assert run(line.split()[1:]) == 0
    output = capsys.readouterr().out
    assert output.startswith("endings/causes/v1  3 results  20")
    assert 'why: It says no [T0B2 "says no"].' in output


def test_page_names_every_result_method_and_option() -> None:
    methods = [name for name in vars(Client) if "result" in name or "agent_run" in name or name == "import_file"]
    assert [name for name in methods if name not in PAGE] == []
    options = inspect.signature(Client.submit_llm_requests).parameters
    assert [name for name in options if name != "self" and name not in PAGE] == []
    assert f"{MAX_TOKENS:,}" in PAGE
