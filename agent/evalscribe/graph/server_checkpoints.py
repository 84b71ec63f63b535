"""LangGraph's state in the store's database, in tables of its own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from psycopg import AsyncConnection
from psycopg.rows import dict_row

from evalscribe.graph.checkpoints import SCHEMA, Saver, serializer
from evalscribe.settings.database import without_password
from evalscribe.store.server import options
from evalscribe.store.server_failures import explained

LOCK = 4_712_390_715
"""Of those who make the tables."""
PAUSE_S = 0.05


@asynccontextmanager
async def on_server(url: str) -> AsyncIterator[Saver]:
    with explained(without_password(url)):
        connection: AsyncConnection[dict[str, Any]] = await AsyncConnection.connect(
            **options(url), autocommit=True, prepare_threshold=0, row_factory=dict_row
        )
        async with connection:
            await connection.execute(f"SET search_path = {SCHEMA}".encode())
            saver = AsyncPostgresSaver(connection, serde=serializer())
            await _set_up(saver, connection)
            yield saver


async def _set_up(saver: AsyncPostgresSaver, connection: AsyncConnection[dict[str, Any]]) -> None:
    """One process at a time; nobody waits inside a statement, for some indexes are made after all statements ended."""
    while not await _taken(connection):  # noqa: ASYNC110  another process ends it
        await asyncio.sleep(PAUSE_S)
    try:
        await connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}".encode())
        await saver.setup()
    finally:
        await connection.execute("SELECT pg_advisory_unlock(%s)", [LOCK])


async def _taken(connection: AsyncConnection[dict[str, Any]]) -> bool:
    cursor = await connection.execute("SELECT pg_try_advisory_lock(%s) AS taken", [LOCK])
    row = await cursor.fetchone()
    return bool(row and row["taken"])
