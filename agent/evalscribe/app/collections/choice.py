"""Collections of runs: which one is meant, and what they hold."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pydantic import BaseModel

from evalscribe.app.rubrics import DEFAULT_COLLECTION
from evalscribe.errors import NotFoundError, UsageError
from evalscribe.ids import path_part
from evalscribe.model.rubric import Collection
from evalscribe.model.run import Run
from evalscribe.text import join_first
from evalscribe.workspace import Workspace

MOST_NAMED = 10


class Naming(NamedTuple):
    """How whoever asks names a collection, and makes one: for errors."""

    named: str
    made: str


OPTION = Naming("--collection", "`evalscribe import FILE` makes one")
ARGUMENT = Naming("collection_id", "Client.import_file makes one")


class Shown(BaseModel):
    """A collection and its runs, as `--json` prints them."""

    id: str
    name: str
    runs: tuple[Run, ...] = ()


class Collections(BaseModel):
    collections: tuple[Shown, ...]


def chosen(workspace: Workspace, named: str | None, naming: Naming = OPTION) -> Collection:
    """The collection of that id or name; without one the configured one, else the only one there is.

    Raises `NotFoundError` for one that is not there, `UsageError` where several could be meant.
    """
    there = workspace.store.collections.collections()
    if wanted := named or workspace.settings.collection.value:
        return _found(there, wanted, naming)
    own = [collection for collection in there if collection.id != DEFAULT_COLLECTION] or list(there)
    if len(own) == 1:
        return own[0]
    if not own:
        raise NotFoundError(f"there is no collection yet: {naming.made}")
    raise UsageError(f"which collection? Name one with {naming.named}: {_told(own)}")


def planned(there: Sequence[Collection], name: str | None, collection_id: str | None, otherwise: str) -> Collection:
    """The one of these with that id or name, or how it is to be made; unnamed it is called `otherwise`."""
    if collection_id:
        known = next((one for one in there if one.id == collection_id), None)
        return Collection(id=collection_id, name=name or (known.name if known else otherwise))
    wanted = name or otherwise
    return _any_of(there, wanted) or Collection(id=_free_id(there, wanted), name=wanted)


def _any_of(there: Iterable[Collection], wanted: str) -> Collection | None:
    """An id comes before a name; of equal names the first that was made."""
    known = sorted(there, key=lambda one: one.id != wanted)
    return next((one for one in known if wanted in (one.id, one.name)), None)


def _found(there: tuple[Collection, ...], wanted: str, naming: Naming) -> Collection:
    if found := _any_of(there, wanted):
        return found
    known = f"there is: {_told(there)}" if there else f"there is none yet: {naming.made}"
    raise NotFoundError(f"there is no collection {wanted!r}; {known}")


def _free_id(there: Iterable[Collection], name: str) -> str:
    """The name as an id that no collection has."""
    taken = {one.id for one in there}
    base, number = path_part(name), 1
    while (one := base if number == 1 else f"{base}-{number}") in taken:
        number += 1
    return one


def _told(there: Iterable[Collection]) -> str:
    told = [one.name if one.id == one.name else f"{one.name} ({one.id})" for one in there]
    return join_first(told, MOST_NAMED)
