"""Checkpoints name nothing of our code, so that they outlive it; those of an earlier graph are started anew."""

import sqlite3
from contextlib import closing
from pathlib import Path

import ormsgpack
import pytest

from evalscribe.judging.verdicts import JudgeQueue
from support import paid_work
from support.analysis_graph import (
    MemoryStore,
    ScriptedJudge,
    judge_groups,
    last_state,
    make_failures,
    make_groups,
    make_run,
)

KILLED = "sent0run0of0paid0work00000000000"
"""The run whose analysis was killed while its lanes waited for answers."""


def queue_of(judge: ScriptedJudge) -> JudgeQueue:
    run = make_run(3)
    return JudgeQueue(run=run, groups=make_groups(run), case_of=make_failures(run), judge=judge, store=MemoryStore())


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """Checkpoints that the code of commit 29486c6 left."""
    paid_work.unpack(tmp_path / "workspace")
    return tmp_path / "workspace" / ".evalscribe" / "checkpoints.db"


def modules(database: Path) -> set[str]:
    """Of all that is stored: the modules whose objects are made on reading."""
    with closing(sqlite3.connect(database)) as raw:
        stored = [one for (one,) in raw.execute("SELECT checkpoint FROM checkpoints")]
        stored += [one for (one,) in raw.execute("SELECT value FROM writes WHERE type = 'msgpack'")]
    found = set[str]()

    def named(_code: int, data: bytes) -> object:
        inner = ormsgpack.unpackb(data, ext_hook=named)
        if isinstance(inner, list) and inner and isinstance(inner[0], str):
            found.add(inner[0])
        return inner

    for one in stored:
        ormsgpack.unpackb(one, ext_hook=named)
    return found


def test_those_of_29486c6_name_no_module_of_ours(old: Path) -> None:
    assert modules(old) == {"langgraph.types"}


async def test_those_of_today_name_no_module_of_ours(tmp_path: Path) -> None:
    await judge_groups(queue_of(ScriptedJudge()), tmp_path / "c.db")
    assert modules(tmp_path / "c.db") == {"langgraph.types"}


async def test_a_thread_that_an_earlier_graph_left_is_started_anew(old: Path) -> None:
    """The earlier nodes may be gone; the store decides what is left to judge."""
    with closing(sqlite3.connect(old)) as raw, raw:
        for table in ("checkpoints", "writes"):
            raw.execute(f"UPDATE {table} SET thread_id = 'run1' WHERE thread_id = ?", [KILLED])
    assert (await last_state(old))["status"] == "judging"
    outcome = await judge_groups(queue_of(ScriptedJudge()), old)
    assert outcome.counts.judged == 3
    assert (await last_state(old))["status"] == "done"
    with closing(sqlite3.connect(old)) as raw:
        steps = raw.execute(
            "SELECT count(*) FROM checkpoints WHERE thread_id = 'run1' AND parent_checkpoint_id IS NULL"
        )
        assert steps.fetchone() == (1,), "nothing is left of the earlier start"
