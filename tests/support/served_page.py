"""Run `evalscribe view` as a process, and send raw requests to it."""

import re
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.parse import urlsplit

from support.command import Workspace
from support.fork_server import Process
from support.waiting import PATIENCE_S

ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/\?token=\S+")


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    """Headers, keyed by lower-case name."""
    body: bytes


@dataclass
class ServedPage:
    """A running process of `evalscribe view`."""

    process: Process
    address: str
    """Address with the token, as the command prints it."""

    @property
    def base(self) -> str:
        return self.address.partition("?")[0]

    @property
    def port(self) -> int:
        port = urlsplit(self.address).port
        assert port is not None
        return port

    @property
    def token(self) -> str:
        return self.address.partition("token=")[2]

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), PATIENCE_S)

    def send(self, *parts: bytes) -> Answer | None:
        """Send bytes and read one answer. Returns None if the server closes the connection without an answer."""
        with self.connect() as connection:
            for part in parts:
                try:
                    connection.sendall(part)
                except (BrokenPipeError, ConnectionResetError):
                    break  # The request was refused before all parts were sent. The answer can still be read.
            return read_answer(connection)

    def request(self, method: str, target: str, *headers: tuple[str, str], body: bytes = b"") -> Answer:
        """Send a request with exactly these headers. `Content-Length` is added if there is a body."""
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
        if body:
            lines.append(f"Content-Length: {len(body)}")
        answer = self.send("\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape") + body)
        assert answer is not None, lines
        return answer

    @cached_property
    def _cookie(self) -> str:
        return self.sign_in()

    def get(self, path: str) -> str:
        """Return a page as a signed-in browser receives it; empty if the page does not exist."""
        answer = self.request("GET", f"/{path}", ("Host", self.host), ("Cookie", self._cookie))
        assert answer.status in (200, 404), (path, answer)
        return answer.body.decode() if answer.status == 200 else ""

    def sign_in(self) -> str:
        """Return the cookie that is set by the address with the token."""
        answer = self.request("GET", f"/?token={self.token}", ("Host", self.host))
        assert answer.status == 303
        return answer.headers["set-cookie"].partition(";")[0]


def read_answer(connection: socket.socket) -> Answer | None:
    """Read one answer. Returns None if the connection is closed without an answer."""
    with HTTPResponse(connection) as response:
        try:
            response.begin()
            headers = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, headers, response.read())
        except (ConnectionError, HTTPException):
            return None


@contextmanager
def serving(folder: Path, *arguments: str | Path, **environment: str) -> Iterator[ServedPage]:
    """Start `evalscribe view --no-open` in a folder, wait until it has printed its address, and stop it at the end."""
    process = Workspace(folder).start("view", "--no-open", *arguments, **environment)
    try:
        yield ServedPage(process, printed_address(process))
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE_S)


def printed_address(process: Process) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    match = ADDRESS.search(line)
    if match is None:
        _, errors = process.communicate(timeout=PATIENCE_S)
        raise AssertionError(f"no address: {line!r} {errors}")
    return match[0]
