"""Find stored objects by what users call them: an id, the beginning of an id, or a name.

The same rules hold for every kind of object. An id wins over a name, and a name over the beginning of an id. If several
objects match, the error lists their ids; if none matches, the error lists the nearest names.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, TypeVar

from evalscribe.errors import NotFoundError, UsageError
from evalscribe.text import join_first, join_last

if TYPE_CHECKING:
    from evalscribe.model.dataset import Dataset, DatasetVersion
    from evalscribe.model.experiment import Experiment, ExperimentVersion
    from evalscribe.model.rubric import Collection
    from evalscribe.model.score import Scorer
    from evalscribe.model.target import Deployment, TargetPrompt, TargetPromptVersion
    from evalscribe.store.datasets import DatasetStore

LATEST = "latest"
MOST_NAMED = 10
SHORTEST_PREFIX = 4
"""Minimum characters of the beginning of an id, not counting a prefix such as `exp-`."""
KINDS = {
    "ds": "a dataset",
    "dsv": "a dataset version",
    "dep": "a deployment",
    "prompt": "a prompt",
    "pv": "a prompt version",
    "scorer": "a scorer",
    "scv": "a scorer version",
    "exp": "an experiment",
    "exv": "an experiment version",
    "item": "a run item",
    "score": "a score",
}
"""Kinds of objects by id prefix."""
_ID = re.compile(r"([a-z]+)-[0-9a-f]+")


T = TypeVar("T", bound="Collection | Dataset | Deployment | Experiment | Scorer | TargetPrompt")
V = TypeVar("V", bound="DatasetVersion | ExperimentVersion | TargetPromptVersion")


def is_prefix(named: str) -> bool:
    """Return whether `named` is long enough to be looked up as the beginning of an id."""
    kind, dash, rest = named.partition("-")
    return len(rest if dash and kind in KINDS else named) >= SHORTEST_PREFIX


def find_by_prefix(what: str, named: str, ids: Iterable[str]) -> str | None:
    """Return the only id that begins with `named`. Raises `UsageError` listing the ids if there are several."""
    begin = sorted(id for id in ids if id.startswith(named)) if is_prefix(named) else []
    if len(begin) > 1:
        raise ambiguous(what, named, begin)
    return begin[0] if begin else None


def ambiguous(what: str, named: str, ids: Sequence[str]) -> UsageError:
    """Return the error for a name, or beginning of an id, that matches several objects."""
    return UsageError(f"{named[:80]!r} matches {len(ids)} {what}s; choose one by its id: {join_first(ids, MOST_NAMED)}")


def find_stored(what: str, named: str, stored: T | None, known: Callable[[], Sequence[T]], maker: str) -> T:
    """Return the object with this id, name or beginning of an id.

    Args:
        what: Kind of object, such as `dataset`.
        named: The name or id that the user gave.
        stored: The object that the store found by exact id or name; None if it found none.
        known: Returns all objects of the kind, the newest last.
        maker: The command that creates such an object.

    Raises:
        NotFoundError: No object matches; the message lists the nearest names.
        UsageError: Several ids begin with `named`.
    """
    if stored is not None:
        return stored
    objects = known()
    matching_id = find_by_prefix(what, named, (item.id for item in objects))
    if matching_id is None:
        raise not_found(what, named, [getattr(item, "name", None) or item.id for item in objects], maker)
    return next(item for item in objects if item.id == matching_id)


def nearest(named: str, known: Sequence[str]) -> str:
    """List the known names that are most similar to `named`, else the newest. `known`: the newest last."""
    near = get_close_matches(named, dict.fromkeys(known), n=3, cutoff=0.6)
    return f"nearest: {', '.join(near)}" if near else f"available: {join_last(list(dict.fromkeys(known)), MOST_NAMED)}"


def find_version(versions: Sequence[V], named: str) -> V | None:
    """Find a version by id, by number (`2`, `v2`), as `latest`, or by the beginning of its id.

    `versions`: in order of creation. Raises `UsageError` if several ids begin with `named`.
    """
    if named == LATEST:
        return versions[-1] if versions else None
    if exact := next((one for one in versions if named in (one.id, str(one.number), f"v{one.number}")), None):
        return exact
    id = find_by_prefix("version", named, (one.id for one in versions))
    return next((one for one in versions if one.id == id), None)


def version_not_found(of: str, named: str, versions: Sequence[V]) -> NotFoundError:
    """Return the error for an unknown version of an object, such as `prompt answer`. `versions` must not be empty."""
    there = join_last([f"{one.number} ({one.id})" for one in versions], MOST_NAMED)
    return NotFoundError(f"{of} has no version {named!r}; versions: {there}")


def not_found(what: str, named: str, there: Sequence[str], maker: str) -> NotFoundError:
    """Return the error for an unknown name. `there`: names, the newest last; `maker`: the command that creates one."""
    known = nearest(named, there) if there else f"there is none yet; create one with `evalscribe {maker}`"
    return NotFoundError(f"{what} {named[:80]!r}{_of_another(what, named)} not found; {known}")


def kind_of(named: str) -> str | None:
    """Return the kind of object that an id belongs to, such as `a dataset`, by the id's prefix."""
    match = _ID.fullmatch(named)
    return KINDS.get(match[1]) if match else None


def _of_another(what: str, named: str) -> str:
    """Return a note if `named` looks like the id of another kind of object; else an empty text."""
    kind = kind_of(named)
    return f" (which looks like the id of {kind})" if kind and kind.partition(" ")[2] != what else ""


def find_dataset(datasets: "DatasetStore", named: str) -> "Dataset":
    """Find a dataset as `find_stored` does."""
    return find_stored("dataset", named, datasets.find(named), datasets.all, "datasets create")


def find_dataset_version(datasets: "DatasetStore", dataset: "Dataset | None", named: str) -> "DatasetVersion":
    """Find a dataset version by id or its beginning; in a given dataset also by number (`2`, `v2`) or as `latest`.

    Raises `NotFoundError` listing the known versions.
    """
    if dataset is None:
        if version := datasets.version(named):
            return version
        ids = (one.id for dataset in datasets.all() for one in datasets.versions(dataset.id))
        id = find_by_prefix("dataset version", named, ids)
        if id and (version := datasets.version(id)):
            return version
        raise NotFoundError(f"dataset version {named!r} not found; `evalscribe datasets versions list NAME` lists ids")
    versions = datasets.versions(dataset.id)
    if version := find_version(versions, named):
        return version
    if not versions:
        makes = f"publish one with `evalscribe datasets publish {dataset.name}`"
        raise NotFoundError(f"dataset {dataset.name} has no version {named!r}; nothing has been published yet: {makes}")
    raise version_not_found(f"dataset {dataset.name}", named, versions)
