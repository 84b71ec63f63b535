"""LangGraph checkpoints in a file. The file may be hostile, so only plain values are read."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from evalscribe.errors import DataError

Saver = BaseCheckpointSaver[str]
SCHEMA = "evalscribe_checkpoints"
"""Schema of the checkpoint tables on a server, which user queries must not read."""


def serializer() -> JsonPlusSerializer:
    """Return a serializer that runs no code when it reads.

    With LangGraph's default serializer, reading a forged checkpoint can call any function of any module (seen).
    """
    return JsonPlusSerializer(allowed_msgpack_modules=None)


@asynccontextmanager
async def open_file_checkpoints(path: Path) -> AsyncIterator[Saver]:
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    try:
        async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
            saver.serde = serializer()
            await saver.setup()
            yield saver
    except sqlite3.Error as error:
        raise DataError(
            f"the checkpoints {path} cannot be used: {error}.\n"
            "Every verdict is in the store: move that file away and run the same command again."
        ) from error
