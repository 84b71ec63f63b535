"""Repair or refuse messages that the SDK cannot read, so that every request is answered.

The SDK drops a line that it cannot read, and the client would wait forever. Clients do send such lines: Python's `json`
writes lone surrogates, integers of any length and nesting of any depth.
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
from evalscribe.json_data import clean_json
from evalscribe.mcp.progress import run_in_thread

LONGEST_NUMBER = 300
"""Maximum digits of an integer. Python parses at most 4,300, and no argument here needs more than 19."""
LONGEST_ID = 200
"""Maximum characters of a request id that is searched for in an unreadable message."""
UNREADABLE = "the message cannot be read: it is not JSON, or it is nested too deeply"
_PART = re.compile(r'"(?:[^"\\]|\\.)*+"|[{}\[\]:,]|[^\s"{}\[\]:,]+', re.DOTALL)
log = logging.getLogger("evalscribe.mcp")


async def serve(server: Any) -> None:
    """Serve a low-level server of the SDK on standard input and output until the input ends."""
    lines = _Lines(_standard_input())
    async with stdio_server(stdin=cast(Any, lines)) as (read, write):
        lines.replies = write
        await server.run(read, write, server.create_initialization_options())


class _Lines:
    """The incoming lines. A line that cannot be read is answered with an error and left out."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.replies: Any = None

    async def __aiter__(self) -> AsyncIterator[str]:
        while line := await run_in_thread(self._stream.readline):
            text = line.decode("utf-8", "replace")
            if not text.strip():
                continue
            readable = as_readable(text)
            if readable is not None:
                yield readable
                continue
            log.warning(UNREADABLE)
            error = ErrorData(code=PARSE_ERROR, message=UNREADABLE)
            await self.replies.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=id_of(text), error=error)))


def as_readable(line: str) -> str | None:
    """Repair a message for the SDK: lone surrogates become U+FFFD, huge integers infinity. None if impossible."""
    if _is_readable(line):
        return line
    try:
        message = json.dumps(clean_json(json.loads(line, parse_int=_number)))
    except (ValueError, RecursionError, DataError):
        return None
    return message if _is_readable(message) else None


def id_of(line: str) -> int | str | None:
    """Find the id of a request that cannot be parsed, without recursion; None if there is none."""
    depth, before = 0, ("", "")
    for match in _PART.finditer(line):
        part = match[0]
        if depth == 1 and before == ('"id"', ":") and len(part) <= LONGEST_ID:
            try:
                found = json.loads(part)
            except ValueError:
                return None
            return clean_json(found) if isinstance(found, str) else found if type(found) is int else None  # type: ignore[return-value]
        depth += (part in "{[") - (part in "}]")
        before = (before[1], part)
    return None


def _is_readable(line: str) -> bool:
    try:
        jsonrpc_message_adapter.validate_json(line, by_name=False)
    except Exception:  # validators of the SDK may raise anything, and the SDK catches `Exception` too
        return False
    return True


def _number(digits: str) -> int | float:
    return int(digits) if len(digits) <= LONGEST_NUMBER else float("-inf" if digits.startswith("-") else "inf")


def _standard_input() -> BinaryIO:
    """Duplicate standard input, so that tools and their child processes read from an empty one."""
    try:
        wire = os.dup(sys.stdin.fileno())
    except (OSError, ValueError):
        return sys.stdin.buffer
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, sys.stdin.fileno())
    os.close(nothing)
    # Not closed: a thread may still wait for a line when the server ends.
    return os.fdopen(wire, "rb", closefd=False)
