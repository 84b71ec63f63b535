"""Find stored objects by an id, the beginning of an id, or a name.

The same rules hold for every kind of object. An id takes precedence over a name, and a name over the beginning of an
id. If several objects match, the error lists their ids. If none matches, the error lists the most similar names.
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
"""Minimum number of characters with which a user can abbreviate an id, not counting a kind prefix such as `exp-`."""
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
"""The kind of object that each id prefix stands for."""
_ID = re.compile(r"([a-z]+)-[0-9a-f]+")


T = TypeVar("T", bound="Collection | Dataset | Deployment | Experiment | Scorer | TargetPrompt")
V = TypeVar("V", bound="DatasetVersion | ExperimentVersion | TargetPromptVersion")


def is_prefix(prefix: str) -> bool:
    """Return whether `prefix` is long enough to be looked up as the beginning of an id."""
    kind, dash, digits = prefix.partition("-")
    return len(digits if dash and kind in KINDS else prefix) >= SHORTEST_PREFIX


def find_by_prefix(kind: str, prefix: str, ids: Iterable[str]) -> str | None:
    """Return the id that begins with `prefix`; None if no id does, or if `prefix` is too short (see `is_prefix`).

    Raises `UsageError`, listing the ids, if several ids begin with `prefix`.
    """
    matching_ids = sorted(id for id in ids if id.startswith(prefix)) if is_prefix(prefix) else []
    if len(matching_ids) > 1:
        raise ambiguous(kind, prefix, matching_ids)
    return matching_ids[0] if matching_ids else None


def ambiguous(kind: str, name_or_id: str, ids: Sequence[str]) -> UsageError:
    """Return the error for a name, or for the beginning of an id, that matches several objects."""
    return UsageError(
        f"{name_or_id[:80]!r} matches {len(ids)} {kind}s; choose one by its id: {join_first(ids, MOST_NAMED)}"
    )


def find_stored(
    kind: str, name_or_id: str, stored: T | None, load_all: Callable[[], Sequence[T]], create_command: str
) -> T:
    """Return the object with this id, name or beginning of an id.

    Args:
        kind: The kind of object, such as `dataset`.
        name_or_id: The name or id that the user gave.
        stored: The object that the store found by exact id or name; None if it found none.
        load_all: A function that returns all objects of the kind, with the newest last.
        create_command: The command that creates an object of this kind.

    Raises:
        NotFoundError: No object matches. The message lists the most similar names.
        UsageError: Several ids begin with `name_or_id`.
    """
    if stored is not None:
        return stored
    objects = load_all()
    matching_id = find_by_prefix(kind, name_or_id, (item.id for item in objects))
    if matching_id is None:
        raise not_found(kind, name_or_id, [getattr(item, "name", None) or item.id for item in objects], create_command)
    return next(item for item in objects if item.id == matching_id)


def nearest(name: str, names: Sequence[str]) -> str:
    """List the names that are most similar to `name`, or the newest names if none is similar.

    The newest name must come last in `names`.
    """
    near = get_close_matches(name, dict.fromkeys(names), n=3, cutoff=0.6)
    return f"nearest: {', '.join(near)}" if near else f"available: {join_last(list(dict.fromkeys(names)), MOST_NAMED)}"


def find_version(versions: Sequence[V], name_or_id: str) -> V | None:
    """Find a version by its id, its number (`2`, `v2`), the word `latest`, or the beginning of its id.

    `versions` must be in order of creation. Raises `UsageError` if several ids begin with `name_or_id`.
    """
    if name_or_id == LATEST:
        return versions[-1] if versions else None
    if exact := next(
        (version for version in versions if name_or_id in (version.id, str(version.number), f"v{version.number}")), None
    ):
        return exact
    id = find_by_prefix("version", name_or_id, (version.id for version in versions))
    return next((version for version in versions if version.id == id), None)


def version_not_found(owner: str, name_or_id: str, versions: Sequence[V]) -> NotFoundError:
    """Return the error for an unknown version of an object.

    `owner` names the object with its kind, such as `prompt answer`. `versions` must not be empty.
    """
    available = join_last([f"{version.number} ({version.id})" for version in versions], MOST_NAMED)
    return NotFoundError(f"{owner} has no version {name_or_id!r}; versions: {available}")


def not_found(kind: str, name_or_id: str, names: Sequence[str], create_command: str) -> NotFoundError:
    """Return the error for an unknown name. `names` are the existing names, with the newest name last."""
    hint = nearest(name_or_id, names) if names else f"there is none yet; create one with `evalscribe {create_command}`"
    return NotFoundError(f"{kind} {name_or_id[:80]!r}{_other_kind_note(kind, name_or_id)} not found; {hint}")


def kind_of(object_id: str) -> str | None:
    """Return the kind of object that an id's prefix stands for, such as `a dataset`; None if the prefix is unknown."""
    match = _ID.fullmatch(object_id)
    return KINDS.get(match[1]) if match else None


def _other_kind_note(kind: str, name_or_id: str) -> str:
    """If `name_or_id` looks like the id of another kind of object, return a note that says so.

    Otherwise return an empty text.
    """
    other_kind = kind_of(name_or_id)
    if other_kind is None or other_kind.partition(" ")[2] == kind:
        return ""
    return f" (which looks like the id of {other_kind})"


def find_dataset(datasets: "DatasetStore", name_or_id: str) -> "Dataset":
    """Find a dataset by id, name or the beginning of its id. Raises the same errors as `find_stored`."""
    return find_stored("dataset", name_or_id, datasets.find(name_or_id), datasets.all, "datasets create")


def find_dataset_version(datasets: "DatasetStore", dataset: "Dataset | None", name_or_id: str) -> "DatasetVersion":
    """Find a dataset version by its id or the beginning of its id.

    If `dataset` is given, a version of this dataset can also be named by its number (`2`, `v2`) or by the word
    `latest`. Raises `NotFoundError`, listing the known versions.
    """
    if dataset is None:
        if version := datasets.version(name_or_id):
            return version
        ids = (version.id for dataset in datasets.all() for version in datasets.versions(dataset.id))
        id = find_by_prefix("dataset version", name_or_id, ids)
        if id and (version := datasets.version(id)):
            return version
        raise NotFoundError(
            f"dataset version {name_or_id!r} not found; `evalscribe datasets versions list NAME` lists ids"
        )
    versions = datasets.versions(dataset.id)
    if version := find_version(versions, name_or_id):
        return version
    if not versions:
        hint = f"publish one with `evalscribe datasets publish {dataset.name}`"
        raise NotFoundError(
            f"dataset {dataset.name} has no version {name_or_id!r}; nothing has been published yet: {hint}"
        )
    raise version_not_found(f"dataset {dataset.name}", name_or_id, versions)
