"""LangGraph checkpoints in the store's Postgres database, in a separate schema."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from psycopg import AsyncConnection, InterfaceError, OperationalError
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from evalscribe.analysis.checkpoints import SCHEMA, Saver, serializer
from evalscribe.settings.database import without_password
from evalscribe.store.postgres import PATIENCE_S, options, translate_server_errors

LOCK = 4_712_390_715
"""Key of the advisory lock that is held while the tables are created."""
PAUSE_S = 0.05
STOPPED = ("08", "57P")
"""SQLSTATE prefixes of errors that are caused by a broken connection or by a server that is shutting down.

Some broken connections raise an error without a SQLSTATE code.
"""
Connection = AsyncConnection[dict[str, Any]]
T = TypeVar("T")


class ReconnectingSaver(AsyncPostgresSaver):
    """Repeats a write that was interrupted by a broken connection.

    Repeating a write is safe because the writes are idempotent.
    """

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        put = super().aput
        return await _until_written(lambda: put(config, checkpoint, metadata, new_versions))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        put = super().aput_writes
        await _until_written(lambda: put(config, writes, task_id, task_path))


@asynccontextmanager
async def open_server_checkpoints(url: str) -> AsyncIterator[Saver]:
    """Open checkpoints that reconnect after a broken connection.

    Connections can break because workers wait for minutes, and the server can be restarted during that time.
    """
    _silence()
    with translate_server_errors(without_password(url)):
        # LangGraph's `AsyncPostgresSaver.from_conn_string` connects with the same last three arguments.
        arguments = {**options(url), "autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
        # Connect once before opening the pool. The pool would report a failed connection only as a timeout.
        connection: Connection = await AsyncConnection.connect(**arguments)
        async with connection:
            await _choose_schema(connection)
            await _set_up(AsyncPostgresSaver(connection), connection)
        pool = AsyncConnectionPool[Connection](
            kwargs=arguments,
            min_size=1,
            # The saver holds a lock during each operation, so a second connection would never be used.
            max_size=1,
            timeout=PATIENCE_S,
            open=False,
            configure=_choose_schema,
            check=AsyncConnectionPool.check_connection,
        )
        async with pool:
            yield ReconnectingSaver(pool, serde=serializer())


async def _until_written(write: Callable[[], Awaitable[T]]) -> T:
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            return await write()
        except (OperationalError, InterfaceError) as error:
            if time.monotonic() > until or not (error.sqlstate or STOPPED[0]).startswith(STOPPED):
                raise
        await asyncio.sleep(PAUSE_S)


def _silence() -> None:
    """Suppress the warnings of the connection pool. Each operation that fails already reports its error."""
    for name in ("psycopg", "psycopg.pool"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


async def _choose_schema(connection: Connection) -> None:
    await connection.execute(f"SET search_path = {SCHEMA}".encode())


async def _set_up(saver: AsyncPostgresSaver, connection: Connection) -> None:
    """Create the tables, in one process at a time.

    The other processes poll for the lock. Waiting for the lock in a statement would not work, because Postgres creates
    some indexes only after all running statements have ended.
    """
    while not await _try_lock(connection):  # noqa: ASYNC110  another process ends it
        await asyncio.sleep(PAUSE_S)
    try:
        await connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}".encode())
        await saver.setup()
    finally:
        await connection.execute("SELECT pg_advisory_unlock(%s)", [LOCK])


async def _try_lock(connection: Connection) -> bool:
    cursor = await connection.execute("SELECT pg_try_advisory_lock(%s) AS taken", [LOCK])
    row = await cursor.fetchone()
    return bool(row and row["taken"])
