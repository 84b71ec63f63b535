"""A server for benchmarks in a separate process. It answers after a delay and uses little CPU.

It answers `{"answer": <input>}`. Its CPU time is not counted as the product's, but it uses the same cores.
"""

import asyncio
import json
import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager

_LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"


class _Late(asyncio.Protocol):
    """A connection that handles one request at a time."""

    def __init__(self, latency_s: float) -> None:
        self._latency_s = latency_s
        self._loop = asyncio.get_running_loop()
        self._came = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._came += data
        head, end, body = self._came.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if not end or len(body) < int(length[1] if length else 0):
            return
        self._came = b""
        answer = json.dumps({"answer": json.loads(body)["input"]}).encode()
        self._loop.call_later(self._latency_s, self._transport.write, _HEAD % len(answer) + answer)


@contextmanager
def slow_server(latency_s: float) -> Iterator[str]:
    """Start the server and yield its address."""
    reading, writing = os.pipe()
    server = os.fork()
    if not server:
        try:
            asyncio.run(_serve(latency_s, writing))
        finally:
            os._exit(1)
    try:
        yield f"http://127.0.0.1:{int(os.read(reading, 10))}/"
    finally:
        os.kill(server, signal.SIGKILL)
        os.waitpid(server, 0)
        os.close(reading)
        os.close(writing)


async def _serve(latency_s: float, told: int) -> None:
    server = await asyncio.get_running_loop().create_server(lambda: _Late(latency_s), "127.0.0.1", 0, backlog=256)
    os.write(told, str(server.sockets[0].getsockname()[1]).encode())
    await server.serve_forever()
