"""Checkpoints name no module of evalscribe, so that renames do not break them; older ones are restarted."""

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
"""Id of the run whose analysis was killed while its workers waited for answers."""


def queue_of(judge: ScriptedJudge) -> JudgeQueue:
    run = make_run(3)
    return JudgeQueue(run=run, groups=make_groups(run), case_of=make_failures(run), judge=judge, store=MemoryStore())


@pytest.fixture
def old_checkpoints(tmp_path: Path) -> Path:
    """Checkpoints written by the code of commit 29486c6."""
    paid_work.unpack(tmp_path / "workspace")
    return tmp_path / "workspace" / ".evalscribe" / "checkpoints.db"


def modules(database: Path) -> set[str]:
    """Return the modules whose objects are created when the stored values are read."""
    with closing(sqlite3.connect(database)) as raw:
        stored = [value for (value,) in raw.execute("SELECT checkpoint FROM checkpoints")]
        stored += [value for (value,) in raw.execute("SELECT value FROM writes WHERE type = 'msgpack'")]
    module_names = set[str]()

    def named(_code: int, data: bytes) -> object:
        inner = ormsgpack.unpackb(data, ext_hook=named)
        if isinstance(inner, list) and inner and isinstance(inner[0], str):
            module_names.add(inner[0])
        return inner

    for value in stored:
        ormsgpack.unpackb(value, ext_hook=named)
    return module_names


def test_checkpoints_of_29486c6_name_no_module_of_evalscribe(old_checkpoints: Path) -> None:
    assert modules(old_checkpoints) == {"langgraph.types"}


async def test_current_checkpoints_name_no_module_of_evalscribe(tmp_path: Path) -> None:
    await judge_groups(queue_of(ScriptedJudge()), tmp_path / "c.db")
    assert modules(tmp_path / "c.db") == {"langgraph.types"}


async def test_thread_of_an_earlier_graph_is_restarted(old_checkpoints: Path) -> None:
    """The earlier nodes might not exist now. The store decides what is still to be judged."""
    with closing(sqlite3.connect(old_checkpoints)) as raw, raw:
        for table in ("checkpoints", "writes"):
            raw.execute(f"UPDATE {table} SET thread_id = 'run1' WHERE thread_id = ?", [KILLED])
    assert (await last_state(old_checkpoints))["status"] == "judging"
    outcome = await judge_groups(queue_of(ScriptedJudge()), old_checkpoints)
    assert outcome.counts.judged == 3
    assert (await last_state(old_checkpoints))["status"] == "done"
    with closing(sqlite3.connect(old_checkpoints)) as raw:
        steps = raw.execute(
            "SELECT count(*) FROM checkpoints WHERE thread_id = 'run1' AND parent_checkpoint_id IS NULL"
        )
        assert steps.fetchone() == (1,), "nothing is left of the earlier start"
