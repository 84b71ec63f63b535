"""Bring many files into one collection."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from evalscribe.app.collections.choice import planned
from evalscribe.app.collections.importing import ImportDesk, Imported, ImportWatcher
from evalscribe.app.garbage import seldom_collected
from evalscribe.errors import DataError
from evalscribe.ids import Frozen
from evalscribe.judging.lanes import in_lanes
from evalscribe.rubric import Collection

Bring = Callable[[ImportDesk, Collection, ImportWatcher], Awaitable[Imported]]
"""Brings one file or run in."""


@dataclass(frozen=True)
class Given:
    """A file or run that may come in."""

    name: str
    open: Callable[[], Bring]
    """Raises `EvalscribeError` for what holds no runs."""
    named: bool = True
    """Whether the user named it: a file of a folder that holds no runs is passed over."""


class ImportPlan(Frozen):
    """Where it goes."""

    name: str | None = None
    collection_id: str | None = None
    configured: str | None = None
    """The configured collection, which is meant unless the user says otherwise."""
    otherwise: str
    """What a collection is called that nobody names."""


class ImportedAll(Frozen):
    collection: Collection
    imports: dict[str, Imported]
    """By the name of the file."""
    passed_over: dict[str, str]
    """Files of folders that hold no runs, with why."""


class AllWatcher(ImportWatcher, Protocol):
    def begins(self, name: str) -> None:
        """This file is read from here on."""


async def import_all(
    desk: ImportDesk, given: Sequence[Given], plan: ImportPlan, watcher: AllWatcher, *, lanes: int = 1
) -> ImportedAll:
    """Every file, `lanes` at a time; nothing is stored where one that the user named holds no runs.

    Raises `EvalscribeError`.
    """
    passed_over: dict[str, str] = {}
    opened = _opened(given, passed_over)
    collection = _collection(desk.shelf.collections() if desk.shelf else (), plan)
    found: dict[str, Imported] = {}

    async def one_file(file: tuple[Given, Bring]) -> None:
        one, bring = file
        watcher.begins(one.name)
        try:
            found[one.name] = await bring(desk, collection, watcher)
        except DataError as error:
            _pass_over(one, error, passed_over)

    with seldom_collected():
        await in_lanes(opened, one_file, lanes)
    imports = {one.name: found[one.name] for one, _ in opened if one.name in found}
    if not imports:
        raise DataError("\n".join(["no file there holds runs:", *list(passed_over.values())[:3]]))
    return ImportedAll(collection=collection, imports=imports, passed_over=passed_over)


def _opened(given: Sequence[Given], passed_over: dict[str, str]) -> list[tuple[Given, Bring]]:
    opened = []
    for one in given:
        try:
            opened.append((one, one.open()))
        except DataError as error:
            _pass_over(one, error, passed_over)
    return opened


def _pass_over(one: Given, error: DataError, passed_over: dict[str, str]) -> None:
    if one.named:
        raise error
    passed_over[one.name] = str(error)


def _collection(there: Sequence[Collection], plan: ImportPlan) -> Collection:
    if plan.configured and not plan.name and not plan.collection_id:
        named = next((one for one in there if plan.configured in (one.id, one.name)), None)
        return named or planned(there, None, plan.configured, plan.otherwise)
    return planned(there, plan.name, plan.collection_id, plan.otherwise)
