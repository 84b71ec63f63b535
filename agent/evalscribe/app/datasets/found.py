"""Which dataset, and which of its versions, is meant."""

from collections.abc import Iterable

from evalscribe.dataset import Dataset, DatasetVersion
from evalscribe.errors import NotFoundError
from evalscribe.ports import Datasets

LATEST = "latest"
MOST_NAMED = 10


def found(datasets: Datasets, named: str) -> Dataset:
    """By id or name. Raises `NotFoundError` naming what there is."""
    if dataset := datasets.find(named):
        return dataset
    there = [one.name for one in datasets.all()]
    known = f"there is: {_some(there)}" if there else "there is none yet: `evalscribe datasets create` makes one"
    raise NotFoundError(f"there is no dataset {named!r}; {known}")


def version_named(datasets: Datasets, dataset: Dataset | None, named: str) -> DatasetVersion:
    """By id; of a given dataset also by number (`2`, `v2`) or as `latest`.

    Raises `NotFoundError` saying what there is.
    """
    if dataset is None:
        if version := datasets.version(named):
            return version
        raise NotFoundError(
            f"there is no version {named!r} of any dataset; `evalscribe datasets versions list NAME` shows their ids"
        )
    versions = datasets.versions(dataset.id)
    wanted = versions[-1:] if named == LATEST else [one for one in versions if named in _names(one)]
    if wanted:
        return wanted[0]
    known = f"there is: {_some([f'{one.number} ({one.id})' for one in versions])}"
    none = f"nothing was published yet: `evalscribe datasets publish {dataset.name}` does"
    raise NotFoundError(f"the dataset {dataset.name} has no version {named!r}; {known if versions else none}")


def _names(version: DatasetVersion) -> tuple[str, ...]:
    return version.id, str(version.number), f"v{version.number}"


def _some(names: Iterable[str]) -> str:
    told = list(names)
    more = f" and {len(told) - MOST_NAMED} more" if len(told) > MOST_NAMED else ""
    return ", ".join(told[-MOST_NAMED:]) + more
