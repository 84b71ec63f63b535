"""Every tool answers any argument that a client sends to a server process over pipes."""

import json
import queue
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evalscribe.cli import run
from evalscribe.mcp.context import ServerWorkspace
from evalscribe.mcp.server import as_readable, id_of, tools
from support.fork_server import fork_server

PATIENCE_S = 1200
"""Seconds after which a server that does not answer fails the test."""
DEEP = 5_000
HOSTILE = {
    "an invalid character": '"\\ud800"',
    "NUL": '"a\\u0000b"',
    "huge number": "1" + "0" * 400,
    "endless number": "-1" + "0" * 5_000,
    "not a number": "NaN",
    "beyond 64 bits": "9223372036854775808",
    "deep": "[" * DEEP + "]" * DEEP,
    "long": json.dumps("x" * 1_000_000),
    "wrong type": '{"a": [null, true]}',
    "orders": json.dumps("\x1b]0;x\x07\n::error::x ##[x] %s %n {{1}} ' OR 1=1 --"),
}
PLAIN = {"start": "false", "write": "false", "write_report": "false", "sides": '["room-desk-c1"]'}
"""Values of the other required arguments; those not listed are "sample"."""
TOOLS = [tool.name for tool in tools(ServerWorkspace())]


class Server:
    """A server process that receives lines which no client library would send."""

    def __init__(self, folder: Path) -> None:
        program = ["-m", "evalscribe", "mcp"]
        self._process = fork_server.start(program, folder, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, text=False)
        self._answers: queue.Queue[dict[str, Any]] = queue.Queue()
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()
        self._number = 0
        about = '{"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}'
        self.answer("initialize", about)
        self.send('{"jsonrpc": "2.0", "method": "notifications/initialized"}')

    def send(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()

    def answer(self, method: str, params: str) -> dict[str, Any]:
        """Send a request with these literal parameters and return its answer."""
        self._number += 1
        # The id follows the unreadable part, because some clients write it last.
        self.send(f'{{"jsonrpc": "2.0", "method": "{method}", "params": {params}, "id": {self._number}}}')
        while True:
            answer = self._answers.get(timeout=PATIENCE_S)
            if answer.get("id") == self._number:
                return answer

    def heard(self) -> dict[str, Any]:
        return self._answers.get(timeout=PATIENCE_S)

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=PATIENCE_S)
        self._listener.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(json.loads(line))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("hostile")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        assert run(["import", "sample"]) == 0
    server = Server(folder)
    yield server
    server.end()


def tool_call(name: str, arguments: str) -> str:
    return f'{{"name": "{name}", "arguments": {arguments}}}'


@pytest.mark.parametrize("name", TOOLS)
def test_hostile_value_of_any_argument_is_answered(server: Server, name: str) -> None:
    tool = next(tool for tool in tools(ServerWorkspace()) if tool.name == name)
    required = tool.parameters.get("required", [])
    for argument in tool.parameters["properties"]:
        for kind, value in HOSTILE.items():
            others = {other: PLAIN.get(other, '"sample"') for other in required if other != argument}
            arguments = ", ".join(f'"{key}": {text}' for key, text in {**others, argument: value}.items())
            answer = server.answer("tools/call", tool_call(name, f"{{{arguments}}}"))
            assert ("result" in answer) != ("error" in answer), (argument, kind)
            if "result" in answer:
                assert "this is a bug" not in answer["result"]["content"][0]["text"], (argument, kind)


@pytest.mark.parametrize("arguments", ['{"\\ud800": 1}', "[]", '"x"', "null", "7"])
def test_arguments_that_are_no_object_are_answered(server: Server, arguments: str) -> None:
    answer = server.answer("tools/call", tool_call("list_evals", arguments))
    assert ("result" in answer) != ("error" in answer)


def test_unreadable_message_gets_an_error_and_the_server_continues(server: Server) -> None:
    answer = server.answer("tools/call", tool_call("list_evals", f'{{"limit": {HOSTILE["deep"]}}}'))
    assert answer["error"]["code"] == -32700
    assert "nested too deeply" in answer["error"]["message"]
    server.send("no JSON at all")
    assert server.heard() == {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": -32700, "message": answer["error"]["message"]},
    }
    assert "result" in server.answer("tools/list", "{}")


def test_readable_message_is_passed_on_unchanged() -> None:
    line = '{"jsonrpc":"2.0","id":1,"method":"ping","params":{"é":"\\u00e9\\ud83d\\ude00"}}'
    assert as_readable(line) is line


@pytest.mark.parametrize(
    ("line", "id"),
    [
        ('{"params": {"id": 1, "x": [{"id": 2}]}, "id": 3}', 3),
        ('{"a": "\\"id\\": 4, {[", "id": "five"}', "five"),
        ('{"id": "\\ud800", "x": [', "\ufffd"),
        ('{"id": 1.5, "x": [', None),
        ('{"x": "id", "y": 6', None),
        ("[1, 2", None),
    ],
)
def test_id_of_an_unreadable_message(line: str, id: int | str | None) -> None:
    assert id_of(line) == id
