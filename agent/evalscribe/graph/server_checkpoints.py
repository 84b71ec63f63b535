"""LangGraph's state in the store's database, in tables of its own."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from psycopg import AsyncConnection
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from evalscribe.graph.saver import SCHEMA, Saver, serializer
from evalscribe.settings.database import without_password
from evalscribe.store.server import PATIENCE_S, options
from evalscribe.store.server_failures import explained

LOCK = 4_712_390_715
"""Of those who make the tables."""
PAUSE_S = 0.05
Connection = AsyncConnection[dict[str, Any]]


@asynccontextmanager
async def on_server(url: str) -> AsyncIterator[Saver]:
    """A connection that broke is made anew: lanes wait for minutes, and a server is started again meanwhile."""
    _silence()
    with explained(without_password(url)):
        given = {**options(url), "autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
        # Not the pool's own first one: of what went wrong with that a pool says only that it waited.
        connection: Connection = await AsyncConnection.connect(**given)
        async with connection:
            await _choose_schema(connection)
            await _set_up(AsyncPostgresSaver(connection), connection)
        pool = AsyncConnectionPool[Connection](
            kwargs=given,
            min_size=1,
            max_size=1,
            timeout=PATIENCE_S,
            open=False,
            configure=_choose_schema,
            check=AsyncConnectionPool.check_connection,
        )
        async with pool:
            yield AsyncPostgresSaver(pool, serde=serializer())


def _silence() -> None:
    """What goes wrong on the way is told once, by whoever it stops."""
    for name in ("psycopg", "psycopg.pool"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


async def _choose_schema(connection: Connection) -> None:
    await connection.execute(f"SET search_path = {SCHEMA}".encode())


async def _set_up(saver: AsyncPostgresSaver, connection: Connection) -> None:
    """One process at a time; nobody waits inside a statement, for some indexes are made after all statements ended."""
    while not await _taken(connection):  # noqa: ASYNC110  another process ends it
        await asyncio.sleep(PAUSE_S)
    try:
        await connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}".encode())
        await saver.setup()
    finally:
        await connection.execute("SELECT pg_advisory_unlock(%s)", [LOCK])


async def _taken(connection: Connection) -> bool:
    cursor = await connection.execute("SELECT pg_try_advisory_lock(%s) AS taken", [LOCK])
    row = await cursor.fetchone()
    return bool(row and row["taken"])
