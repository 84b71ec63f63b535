"""A checkpoint has the state of a run as plain JSON, and its size does not grow."""

import asyncio
import json
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import ormsgpack
import psycopg
import pytest

from evalscribe.analysis.checkpoints import SCHEMA
from evalscribe.errors import AccessError, DataError
from evalscribe.judging.verdicts import JudgeQueue
from support.analysis_graph import (
    MemoryStore,
    ScriptedJudge,
    judge_groups,
    last_state,
    make_failures,
    make_groups,
    make_run,
)


def queue_of(judge: ScriptedJudge, count: int = 9, run_id: str = "run1") -> JudgeQueue:
    run = make_run(count, run_id)
    return JudgeQueue(run=run, groups=make_groups(run), case_of=make_failures(run), judge=judge, store=MemoryStore())


async def test_state_has_only_ids_counts_and_a_status(place: Path | str) -> None:
    await judge_groups(queue_of(ScriptedJudge()), place)
    state = await last_state(place)
    assert json.loads(json.dumps(state)) == state
    assert {name: state[name] for name in ("run_id", "judge", "groups", "status")} == {
        "run_id": "run1",
        "judge": "scripted@1",
        "groups": 9,
        "status": "done",
    }
    assert state["counts"] == {"total": 9, "judged": 9, "cached": 0, "unclassified": 0}


async def test_state_of_a_run_without_failures_says_so(place: Path | str) -> None:
    await judge_groups(queue_of(ScriptedJudge(), 0), place)
    assert (await last_state(place))["status"] == "nothing failed"


async def test_state_of_a_stopped_run_is_stopped(place: Path | str) -> None:
    async def script(path: str) -> None:
        raise AccessError("wrong key")

    with pytest.raises(AccessError):
        await judge_groups(queue_of(ScriptedJudge(script)), place)
    assert (await last_state(place))["status"] == "stopped"


async def test_repeated_starts_do_not_grow_the_file(tmp_path: Path) -> None:
    sizes = []
    for _ in range(6):
        outcome = await judge_groups(queue_of(ScriptedJudge()), tmp_path / "c.db")
        assert outcome.counts.total == 9
        sizes.append(sum(path.stat().st_size for path in tmp_path.iterdir()))  # noqa: ASYNC240
    assert sizes[-1] <= sizes[1]


async def test_repeated_starts_do_not_add_rows_on_a_server(server_url: str) -> None:
    rows = []
    for _ in range(3):
        assert (await judge_groups(queue_of(ScriptedJudge()), server_url)).counts.total == 9
        with psycopg.connect(server_url) as connection:
            tables = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")
            counted = [connection.execute(f"SELECT count(*) FROM {SCHEMA}.{name}".encode()) for name in tables]
            rows.append([cursor.fetchone() for cursor in counted])
    assert rows[0] == rows[1] == rows[2]


async def test_connection_broken_during_judging_is_replaced(server_url: str) -> None:
    ended = []

    async def script(path: str) -> None:
        others = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = current_database() "
        async with await psycopg.AsyncConnection.connect(server_url, autocommit=True) as raw:
            cursor = await raw.execute((others + "AND pid <> pg_backend_pid()").encode())
            ended.extend(await cursor.fetchall())

    assert (await judge_groups(queue_of(ScriptedJudge(script), 1), server_url)).counts.judged == 1
    assert ended
    assert (await last_state(server_url))["status"] == "done"


async def test_checkpoints_contain_no_evidence_or_verdicts(tmp_path: Path) -> None:
    await judge_groups(queue_of(ScriptedJudge()), tmp_path / "c.db")
    stored_bytes = b"".join(path.read_bytes() for path in tmp_path.iterdir())  # noqa: ASYNC240
    assert b"run1" in stored_bytes
    assert b"some-cause" not in stored_bytes
    assert b"basics" not in stored_bytes


async def test_planted_checkpoint_is_not_read(tmp_path: Path) -> None:
    """Reading a checkpoint creates the objects that it names, and the folder can be hostile."""
    await judge_groups(queue_of(ScriptedJudge()), tmp_path / "c.db")
    with closing(sqlite3.connect(tmp_path / "c.db")) as raw, raw:
        raw.execute("UPDATE checkpoints SET checkpoint = ?, metadata = ?", [b"\xc1", b"\xc1"])
    with pytest.raises(ValueError, match="Reserved"):
        await last_state(tmp_path / "c.db")
    outcome = await judge_groups(queue_of(ScriptedJudge()), tmp_path / "c.db")
    assert outcome.counts.judged == 9


async def test_damaged_checkpoint_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "c.db").write_bytes(b"not a database" * 1000)
    with pytest.raises(DataError, match=r"c\.db cannot be used.*\n.*move that file away"):
        await judge_groups(queue_of(ScriptedJudge()), tmp_path / "c.db")


async def test_planted_value_in_a_checkpoint_runs_no_code(tmp_path: Path) -> None:
    """By default, LangGraph calls any function that a checkpoint names."""
    await judge_groups(queue_of(ScriptedJudge()), tmp_path / "c.db")
    with closing(sqlite3.connect(tmp_path / "c.db")) as planted, planted:
        planted.execute("UPDATE checkpoints SET type = 'msgpack', checkpoint = ?", [packed_call(tmp_path / "made")])
    with suppress(Exception):
        await last_state(tmp_path / "c.db")
    await judge_groups(queue_of(ScriptedJudge()), tmp_path / "c.db")
    assert not (tmp_path / "made").exists()


async def test_planted_value_on_a_server_runs_no_code(server_url: str, tmp_path: Path) -> None:
    await judge_groups(queue_of(ScriptedJudge()), server_url)
    with psycopg.connect(server_url) as planted:
        changed = f"UPDATE {SCHEMA}.checkpoint_blobs SET type = 'msgpack', blob = %s".encode()
        assert planted.execute(changed, [packed_call(tmp_path / "made")]).rowcount
    with suppress(Exception):
        await last_state(server_url)
    await judge_groups(queue_of(ScriptedJudge()), server_url)
    assert not (tmp_path / "made").exists()


def packed_call(folder: Path) -> bytes:
    """Return a value that creates a folder if it is read without protection."""
    return ormsgpack.packb([ormsgpack.Ext(0, ormsgpack.packb(("os", "mkdir", str(folder))))])


async def test_concurrent_runs_create_the_tables_on_a_server(server_url: str) -> None:
    queues = [queue_of(ScriptedJudge(), run_id=f"run{n}") for n in range(4)]
    outcomes = await asyncio.gather(*(judge_groups(queue, server_url) for queue in queues))
    assert [outcome.counts.judged for outcome in outcomes] == [9] * 4
