"""Checkpoints of LangGraph in a file or a database, which may be hostile. Only plain values are read."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from evalscribe.analysis.serializer import Saver, serializer
from evalscribe.errors import DataError


def open_checkpoints(place: Path | str) -> AbstractAsyncContextManager[Saver]:
    """Open checkpoints in a file or at a postgresql:// address. Raises `EvalscribeError` if they cannot be opened."""
    if isinstance(place, Path):
        return _in_file(place)
    from evalscribe.analysis.postgres_checkpoints import open_server_checkpoints

    return open_server_checkpoints(place)


@asynccontextmanager
async def _in_file(path: Path) -> AsyncIterator[Saver]:
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
