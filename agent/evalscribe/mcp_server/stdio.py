"""Messages on standard input as the SDK can read them, so that every request is answered.

The SDK drops a line that it cannot read: the client would wait for ever. Python spells JSON that no UTF-8 can hold
(half a character), and its integers and nesting know no bound, so clients do send such lines.
"""

import json
import logging
import os
import re
import sys
from collections.abc import AsyncIterator
from typing import Any, BinaryIO, cast

from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp.types import PARSE_ERROR, ErrorData, JSONRPCError, jsonrpc_message_adapter

from evalscribe.errors import DataError
from evalscribe.json_clean import clean
from evalscribe.mcp_server.apart import aside

LONGEST_NUMBER = 300
"""Digits of an integer; Python reads 4,300 at most, and nothing here takes more than 19."""
LONGEST_ID = 200
_PART = re.compile(r'"(?:[^"\\]|\\.)*+"|[{}\[\]:,]|[^\s"{}\[\]:,]+', re.DOTALL)
log = logging.getLogger("evalscribe.mcp")


async def serve(server: Any) -> None:
    """Serve a low-level server of the SDK on standard input and output until the input ends."""
    lines = _Lines(_standard_input())
    async with stdio_server(stdin=cast(Any, lines)) as (read, write):
        lines.replies = write
        await server.run(read, write, server.create_initialization_options())


class _Lines:
    """What comes in, line by line. A line that cannot be read is answered with an error in its place."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.replies: Any = None

    async def __aiter__(self) -> AsyncIterator[str]:
        while line := await aside(self._stream.readline):
            text = line.decode("utf-8", "replace")
            if not text.strip():
                continue
            readable = as_readable(text)
            if readable is not None:
                yield readable
                continue
            log.warning("a message cannot be read: it is no JSON, or nested too deeply")
            error = ErrorData(
                code=PARSE_ERROR, message="the message cannot be read: it is no JSON, or nested too deeply"
            )
            await self.replies.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=id_of(text), error=error)))


def as_readable(line: str) -> str | None:
    """The message as the SDK can read it: half characters are U+FFFD, endless integers infinite. None: it cannot be."""
    if _is_readable(line):
        return line
    try:
        message = json.dumps(clean(json.loads(line, parse_int=_number)))
    except (ValueError, RecursionError, DataError):
        return None
    return message if _is_readable(message) else None


def id_of(line: str) -> int | str | None:
    """The id of a request that cannot be read as JSON, found without following its nesting; None where it has none."""
    depth, before = 0, ("", "")
    for match in _PART.finditer(line):
        part = match[0]
        if depth == 1 and before == ('"id"', ":") and len(part) <= LONGEST_ID:
            try:
                found = json.loads(part)
            except ValueError:
                return None
            return clean(found) if isinstance(found, str) else found if type(found) is int else None  # type: ignore[return-value]
        depth += (part in "{[") - (part in "}]")
        before = (before[1], part)
    return None


def _is_readable(line: str) -> bool:
    try:
        jsonrpc_message_adapter.validate_json(line, by_name=False)
    except Exception:  # pydantic's own, and whatever a validator of the SDK raises: the SDK catches as much
        return False
    return True


def _number(digits: str) -> int | float:
    return int(digits) if len(digits) <= LONGEST_NUMBER else float("-inf" if digits.startswith("-") else "inf")


def _standard_input() -> BinaryIO:
    """Standard input under a number of its own: tools and what they start read an empty one."""
    try:
        wire = os.dup(sys.stdin.fileno())
    except (OSError, ValueError):
        return sys.stdin.buffer
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, sys.stdin.fileno())
    os.close(nothing)
    # A thread may still wait for a line when the server ends, so nobody closes it.
    return os.fdopen(wire, "rb", closefd=False)
