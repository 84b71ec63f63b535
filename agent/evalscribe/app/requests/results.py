"""Result sets of a collection: which there are, and which one is meant."""

from difflib import get_close_matches

from evalscribe.errors import NotFoundError
from evalscribe.model.collection_storage import ResultSetStore
from evalscribe.model.result import Result, ResultCounts, ResultSet
from evalscribe.model.rubric import Collection
from evalscribe.text import join_first

MOST_NAMED = 10


def listed(
    sets: ResultSetStore, collection: Collection, prefix: str | None = None
) -> tuple[tuple[ResultSet, ResultCounts], ...]:
    """By name. Names are paths: the prefix `failures` has `failures` and `failures/v1`, not `failures-2`."""
    there = sets.sets(collection.id)
    if not prefix or not (folder := prefix.rstrip("/")):
        return there
    return tuple(one for one in there if one[0].name == folder or one[0].name.startswith(f"{folder}/"))


def found(sets: ResultSetStore, collection: Collection, name: str) -> ResultSet:
    """By name or id. Raises `NotFoundError` naming those that are called most like it."""
    if made := sets.find(collection.id, name):
        return made
    names = [one.name for one, _ in sets.sets(collection.id)]
    near = [*get_close_matches(name, names, n=3, cutoff=0.5)]
    shown = list(dict.fromkeys((*near, *names)))
    known = f"there is: {join_first(shown, MOST_NAMED)}" if names else "it has none yet"
    raise NotFoundError(f"no result set {name!r} in collection {collection.name!r}; {known}")


def counted(sets: ResultSetStore, made: ResultSet) -> ResultCounts:
    return next((counts for one, counts in sets.sets(made.collection_id) if one.id == made.id), ResultCounts())


def complete(sets: ResultSetStore, made: ResultSet, *, include_incomplete: bool = False) -> tuple[Result, ...]:
    """Results with an answer, or all."""
    return tuple(one for one in sets.results(made.id) if include_incomplete or one.output is not None)
