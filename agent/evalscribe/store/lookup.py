"""Find stored objects by the names that users give, and list the nearest if nothing matches."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from evalscribe.errors import NotFoundError
from evalscribe.model.dataset import Dataset, DatasetVersion
from evalscribe.text import join_last

if TYPE_CHECKING:
    from evalscribe.model.experiment import ExperimentVersion
    from evalscribe.model.target import TargetPromptVersion
    from evalscribe.store.datasets import DatasetStore

LATEST = "latest"
MOST_NAMED = 10
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


V = TypeVar("V", bound="DatasetVersion | ExperimentVersion | TargetPromptVersion")


def find_version(versions: Sequence[V], named: str) -> V | None:
    """Find a version by id, by number (`2`, `v2`), or as `latest`. `versions`: in order of creation."""
    if named == LATEST:
        return versions[-1] if versions else None
    return next((one for one in versions if named in (one.id, str(one.number), f"v{one.number}")), None)


def version_not_found(of: str, named: str, versions: Sequence[V]) -> NotFoundError:
    """Return the error for an unknown version. `of`: such as `prompt answer`. `versions` must not be empty."""
    there = join_last([f"{one.number} ({one.id})" for one in versions], MOST_NAMED)
    return NotFoundError(f"{of} has no version {named!r}; versions: {there}")


def not_found(what: str, named: str, there: Sequence[str], maker: str) -> NotFoundError:
    """Return the error for an unknown name. `there`: names, the newest last; `maker`: the command that creates one."""
    known = (
        f"available: {join_last(there, MOST_NAMED)}"
        if there
        else (f"there is none yet; create one with `evalscribe {maker}`")
    )
    return NotFoundError(f"{what} {named[:80]!r}{_of_another(what, named)} not found; {known}")


def kind_of(named: str) -> str | None:
    """Return the kind of object that an id names, such as `a dataset`."""
    match = _ID.fullmatch(named)
    return KINDS.get(match[1]) if match else None


def _of_another(what: str, named: str) -> str:
    """Explain that the id belongs to another kind of object."""
    kind = kind_of(named)
    return f" (which looks like the id of {kind})" if kind and kind.partition(" ")[2] != what else ""


def find_dataset(datasets: "DatasetStore", named: str) -> Dataset:
    """Find a dataset by id or name. Raises `NotFoundError` listing the known ones."""
    if dataset := datasets.find(named):
        return dataset
    raise not_found("dataset", named, [one.name for one in datasets.all()], "datasets create")


def find_dataset_version(datasets: "DatasetStore", dataset: Dataset | None, named: str) -> DatasetVersion:
    """Find a version by id; in a given dataset also by number (`2`, `v2`) or as `latest`.

    Raises `NotFoundError` listing the known ones.
    """
    if dataset is None:
        if version := datasets.version(named):
            return version
        raise NotFoundError(f"dataset version {named!r} not found; `evalscribe datasets versions list NAME` lists ids")
    versions = datasets.versions(dataset.id)
    if version := find_version(versions, named):
        return version
    if not versions:
        makes = f"publish one with `evalscribe datasets publish {dataset.name}`"
        raise NotFoundError(f"dataset {dataset.name} has no version {named!r}; nothing has been published yet: {makes}")
    raise version_not_found(f"dataset {dataset.name}", named, versions)
