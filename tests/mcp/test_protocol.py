"""What a client may do to a server: cancel, ask at once, spend, be killed, send nonsense."""

import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client import Client
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult

from evalscribe.cli import run
from evalscribe.errors import UsageError
from evalscribe.ids import Frozen
from evalscribe.mcp import collections
from evalscribe.mcp.context import ServerWorkspace
from evalscribe.mcp.server import Server
from evalscribe.mcp.tool import BUG, READS, tool
from support.fork_server import Process, fork_server
from support.mcp_session import KEY, environment
from support.messages_server import MessagesServer, submit
from support.waiting import PATIENCE_S, until

MODEL = "anthropic/claude-opus-5-5"
MODES = pytest.mark.parametrize("mode", ["auto", "legacy"])


@asynccontextmanager
async def client(mode: str = "auto") -> AsyncIterator[Client]:
    async with Client(Server(ServerWorkspace()), mode=mode) as connected:
        yield connected


async def said(connected: Client, name: str, **arguments: Any) -> Any:
    result = await connected.call_tool(name, arguments)
    assert isinstance(result, CallToolResult)
    assert not result.is_error, result.content
    return result.structured_content


def asked_at(anthropic: MessagesServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", anthropic.url)


@MODES
async def test_both_protocols_list_call_and_read(mode: str, place: ServerWorkspace) -> None:
    async with client(mode) as connected:
        assert (connected.protocol_version < "2026") is (mode == "legacy")
        assert len((await connected.list_tools()).tools) == 30
        assert (await said(connected, "list_collections"))["collections"] == []
        assert (await said(connected, "sql_schema"))["tables"]
        assert "collection" in (await connected.read_resource("schema://sql")).contents[0].text
        prompt = await connected.get_prompt("review-report", {"report": "smp7"})
        assert "smp7" in prompt.messages[0].content.text
        with pytest.raises(Exception, match="Unknown resource"):
            await connected.read_resource("report://../evalscribe.toml")


async def test_a_model_is_asked_only_with_a_budget(place: ServerWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    with MessagesServer() as anthropic:
        asked_at(anthropic, monkeypatch)
        async with client() as connected:
            assert (await said(connected, "analyze", run="sample"))["spent"]["calls"] == 0
            plan = await said(connected, "analyze", run="sample", judge=MODEL)
            assert plan["outcome"] == "plan"
            assert plan["estimate"]["cost_usd"] > 0
            free = await said(connected, "explain", run="sample", eval="cli/001-args", judge=MODEL)
            assert free["finding"]["judge"]["id"] == "rules@5"
            assert not anthropic.calls
            paid = await said(connected, "explain", run="sample", eval="cli/001-args", judge=MODEL, budget_usd=1)
            assert paid["spent"]["cost_usd"] > 0
            assert len(anthropic.calls) == 1
            again = await said(connected, "explain", run="sample", eval="cli/001-args", judge=MODEL, budget_usd=1)
            assert again["spent"]["calls"] == 0, "nothing is paid for twice"


async def test_an_analysis_that_decides_nothing_is_an_error_and_no_report(
    place: ServerWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    with MessagesServer() as anthropic:
        asked_at(anthropic, monkeypatch)
        async with client() as connected:
            await said(connected, "analyze", run="sample", write_report=True)
            reports = {path: path.read_bytes() for path in Path.cwd().rglob("*.md")}
            result = await connected.call_tool(
                "analyze", {"run": "sample", "judge": MODEL, "budget_usd": 0.01, "write_report": True}
            )
            assert isinstance(result, CallToolResult)
            assert result.is_error
            (content,) = result.content
            assert "no verdict on any of 10 failures" in content.text
            assert "raise `budget_usd`" in content.text
            assert {path: path.read_bytes() for path in Path.cwd().rglob("*.md")} == reports
            assert not anthropic.calls


@MODES
async def test_a_cancelled_call_stops_and_leaves_the_run_free(
    mode: str, place: ServerWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    with MessagesServer(lambda _: submit(), latency_s=3600) as anthropic:
        asked_at(anthropic, monkeypatch)
        async with client(mode) as connected:
            async with asyncio.TaskGroup() as tasks:
                asking = tasks.create_task(
                    said(connected, "analyze", run="sample", judge=MODEL, budget_usd=1), name="asking"
                )
                await until(lambda: bool(anthropic.calls))
                assert (await said(connected, "list_collections"))["collections"] == [], "others are answered meanwhile"
                asking.cancel()
            await said(connected, "analyze", run="sample")


async def test_calls_for_one_run_wait_for_each_other(place: ServerWorkspace) -> None:
    async with client() as connected:
        both = await asyncio.gather(*(said(connected, "analyze", run="sample") for _ in range(2)))
    assert both[0]["labels"] == both[1]["labels"]


def leading_out() -> None:
    """A folder and a snapshot with links to what lies beside the workspace."""
    beside = Path("..").resolve()
    (beside / "secrets").mkdir()
    for name in ("a.jsonl", "failed_evals.json"):
        (beside / "secrets" / name).write_text(Path("hostile.jsonl").read_text())
    for folder in ("runs", "shot"):
        Path(folder).mkdir()
    Path("runs/own.jsonl").write_text(Path("hostile.jsonl").read_text())
    Path("runs/file.jsonl").symlink_to(beside / "secrets" / "a.jsonl")
    Path("runs/folder").symlink_to(beside / "secrets")
    Path("shot/failed_evals.json").symlink_to(beside / "secrets" / "failed_evals.json")


async def test_no_link_leads_an_import_out_of_the_workspace(place: ServerWorkspace) -> None:
    """A folder's links are passed over, and a snapshot's are refused."""
    leading_out()
    async with client() as connected:
        done = await said(connected, "import_file", path="runs")
        assert [file["name"] for file in done["files"]] == ["runs/own.jsonl"]
        for path, words in (
            ("shot", "points outside the snapshot"),
            ("shot/failed_evals.json", "outside the workspace"),
            ("runs/folder", "outside the workspace"),
            ("runs/folder/a.jsonl", "outside the workspace"),
        ):
            refused = await connected.call_tool("import_file", {"path": path})
            assert refused.is_error, path
            assert words in refused.content[0].text
    assert not place.has_store(), "what is only read makes no store"


@pytest.fixture
def odd_table(place: ServerWorkspace) -> str:
    Path("odd.csv").write_text("qestion,model_answer,correct\nq,a,0\n")
    return "odd.csv"


async def test_a_tool_names_an_argument_and_not_an_option(odd_table: str) -> None:
    async with client() as connected:
        (note,) = [one for one in (await said(connected, "analyze", run=odd_table))["notes"] if "qestion" in one]
    assert note.endswith("did you mean `map` input=qestion?")


async def test_slow_sql_stops_nobody(place: ServerWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collections, "TIMEOUT_S", 2.0)
    slow = (
        "SELECT count(*) AS n FROM agent_runs AS a, agent_runs AS b, agent_runs AS c, agent_runs AS d, agent_runs AS e"
    )
    async with client() as connected:
        await said(connected, "import_file", path="sample", write=True)
        with anyio.move_on_after(0.7) as scope:
            await connected.call_tool("execute_sql", {"sql": slow})
        assert scope.cancelled_caught
        assert (await said(connected, "list_runs"))["total"] == 2


class Found(Frozen):
    text: str


async def test_a_bug_is_masked_and_logged_without_secrets(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("evalscribe.mcp"), "disabled", False)  # what checks the layers disables all

    def broken() -> Found:
        """Break."""
        raise ValueError(f"the key is {KEY}")

    with caplog.at_level(logging.ERROR), pytest.raises(ToolError) as raised:
        await tool(broken, READS).run({}, None)
    assert str(raised.value) == f"Error executing tool broken: {BUG}"
    assert "the key is" in caplog.text
    assert KEY not in caplog.text


async def test_an_error_names_arguments_of_the_tool_and_other_options_as_flags() -> None:
    def costly(budget_usd: float = 0) -> Found:
        """Spend."""
        raise UsageError("raise `budget`, give `key_file` F or `via` npx", fields=("budget", "key_file", "via"))

    with pytest.raises(ToolError) as raised:
        await tool(costly, READS).run({}, None)
    assert str(raised.value) == (
        "Error executing tool costly: raise `budget_usd`, give --key-file F or --via npx\n"
        "--key-file, --via are options of the command line, not of this tool."
    )


def server(folder: Path, *options: str) -> Process:
    program = ["-m", "evalscribe", "mcp", *options]
    return fork_server.start(program, folder, environment(folder), stdin=subprocess.PIPE)


def test_it_starts_answers_nonsense_and_ends_with_its_client(tmp_path: Path) -> None:
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    process = server(tmp_path)
    assert process.stdin
    assert process.stdout
    process.stdin.write("no json\n")
    process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}) + "\n")
    process.stdin.flush()
    answers = [json.loads(process.stdout.readline())]
    while answers[-1].get("id") != 1:
        answers.append(json.loads(process.stdout.readline()))
    assert answers[-1]["result"]["serverInfo"]["name"] == "evalscribe"
    call = {"name": "import_file", "arguments": {"path": "sample", "write": True}}
    process.stdin.write(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}) + "\n")
    process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}) + "\n")
    process.stdin.flush()
    process.stdin.close()
    process.stdin = None
    out, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, errors
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in out.splitlines())
    assert "Traceback" not in errors


def test_without_the_sdk_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    assert run(["mcp"]) == 64
    said = capsys.readouterr()
    assert said.out == ""
    assert "pip install 'evalscribe[mcp]'" in said.err


def test_a_folder_that_is_none_is_told(tmp_path: Path) -> None:
    process = server(tmp_path, "--folder", "nowhere")
    out, errors = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out) == (66, "")
    assert "--folder nowhere" in errors
