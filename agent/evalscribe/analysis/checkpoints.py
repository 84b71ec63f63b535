"""LangGraph checkpoints in a file. Only plain values are read, because somebody could have tampered with the file."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from evalscribe.errors import DataError

Saver = BaseCheckpointSaver[str]
SCHEMA = "evalscribe_checkpoints"
"""Name of the database schema that has the checkpoint tables on a server.

Queries of users must not read these tables.
"""


def serializer() -> JsonPlusSerializer:
    """Return a serializer that never runs code while it reads a checkpoint."""
    # By default, LangGraph calls whatever function a checkpoint names: in a test, a forged checkpoint created a folder.
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
