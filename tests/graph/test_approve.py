"""The question to a person: it outlives the process, and a yes is about one patch."""

import asyncio
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import ormsgpack
import psycopg
import pytest
from pydantic import ValidationError

from evalscribe.errors import DataError
from evalscribe.graph import approve
from evalscribe.graph.approve import Consent, answered, forget, put
from evalscribe.graph.saver import SCHEMA
from evalscribe.patch import FileChange, Patch
from postgres_server import PostgresServer


def patch(after: str = "b\n") -> Patch:
    change = FileChange(path="ruff.toml", before="a\n", after=after)
    return Patch(run="r", recommendation="R3", base="0" * 40, changes=(change,), summary="s", judge="p/m")


@pytest.fixture
def checkpoints(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints.db"


def yes(to: Patch) -> Consent:
    return Consent(patch=to.digest, yes=True)


async def test_it_stands_until_it_is_answered(place: Path | str) -> None:
    assert [await put(patch(), place) for _ in range(2)] == [False, False]
    assert await answered(patch(), yes(patch()), place)
    assert not await answered(patch(), yes(patch()), place), "one yes is one answer"


async def test_nobody_asked_nobody_agreed(place: Path | str) -> None:
    assert not await answered(patch(), yes(patch()), place)


async def test_a_no_is_a_no(place: Path | str) -> None:
    await put(patch(), place)
    assert not await answered(patch(), Consent(patch=patch().digest, yes=False), place)
    await put(patch(), place)
    assert await answered(patch(), yes(patch()), place), "asked again, somebody may think otherwise"


async def test_a_yes_is_about_one_patch(place: Path | str) -> None:
    other = patch("c\n")
    await put(patch(), place)
    assert not await answered(other, yes(patch()), place)
    assert not await answered(patch(), yes(other), place)


async def test_another_patch_takes_the_question_over(place: Path | str) -> None:
    other = patch("c\n")
    await put(patch(), place)
    assert await put(other, place)
    assert not await answered(patch(), yes(patch()), place), "what was agreed to is no longer asked"
    assert await answered(other, yes(other), place)


async def test_forgotten_it_is_new(place: Path | str) -> None:
    await put(patch(), place)
    await forget(patch(), place)
    assert not await put(patch("c\n"), place)


async def test_an_answer_of_another_shape_leaves_the_question_open(place: Path | str) -> None:
    from langgraph.types import Command

    await put(patch(), place)
    async with approve._graph(place) as graph:
        with pytest.raises(ValidationError):
            await graph.ainvoke(Command(resume={"yes": "sure"}), approve._thread(patch()))
    assert await answered(patch(), yes(patch()), place)


async def test_nothing_of_the_files_is_in_the_checkpoint(checkpoints: Path) -> None:
    secret = patch("a-text-of-the-repository\n")
    await put(secret, checkpoints)
    assert not any(b"a-text-of-the-repository" in path.read_bytes() for path in checkpoints.parent.iterdir())


@pytest.fixture
def broken(checkpoints: Path) -> Path:
    checkpoints.write_bytes(b"no database" * 1000)
    return checkpoints


async def test_a_broken_file_is_told(broken: Path) -> None:
    with pytest.raises(DataError, match="checkpoints"):
        await put(patch(), broken)


async def test_a_planted_checkpoint_runs_nothing(checkpoints: Path) -> None:
    """By default LangGraph calls whatever function a checkpoint names."""
    await put(patch(), checkpoints)
    made = checkpoints.parent / "made"
    call = ormsgpack.packb([ormsgpack.Ext(0, ormsgpack.packb(("os", "mkdir", str(made))))])
    with closing(sqlite3.connect(checkpoints)) as planted, planted:
        planted.execute("update writes set type = 'msgpack', value = ?", (call,))
    with suppress(DataError):
        await put(patch(), checkpoints)
        await answered(patch(), yes(patch()), checkpoints)
    assert not made.exists()


async def test_a_planted_checkpoint_on_a_server_runs_nothing(server_url: str, tmp_path: Path) -> None:
    await put(patch(), server_url)
    made = tmp_path / "made"
    call = ormsgpack.packb([ormsgpack.Ext(0, ormsgpack.packb(("os", "mkdir", str(made))))])
    with psycopg.connect(server_url) as planted:
        planted.execute(f"UPDATE {SCHEMA}.checkpoint_writes SET type = 'msgpack', blob = %s".encode(), [call])
    with suppress(DataError):
        await put(patch(), server_url)
        await answered(patch(), yes(patch()), server_url)
    assert not made.exists()


async def test_checkpoints_on_a_server_that_are_damaged(server_url: str) -> None:
    await put(patch(), server_url)
    PostgresServer(server_url).execute(f"UPDATE {SCHEMA}.checkpoints SET checkpoint = '{{}}'")
    with pytest.raises(DataError, match=rf"checkpoints postgresql://owner@.*\n.*drop the schema {SCHEMA}"):
        await put(patch(), server_url)


async def test_several_at_once_make_the_tables(server_url: str) -> None:
    patches = [patch().model_copy(update={"recommendation": f"R{n}"}) for n in range(4)]
    assert await asyncio.gather(*(put(one, server_url) for one in patches)) == [False] * 4
