"""The file in which LangGraph keeps its state. It lies in a folder that may be hostile: only plain values are read."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver


@asynccontextmanager
async def checkpoints(path: Path) -> AsyncIterator[AsyncSqliteSaver]:
    """Raises `sqlite3.Error` for a file that cannot be used.

    By default a planted checkpoint could name any function of any module, and reading it would call that (seen).
    """
    async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
        saver.serde = JsonPlusSerializer(allowed_msgpack_modules=None)
        await saver.setup()
        yield saver
