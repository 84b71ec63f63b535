"""Which dataset, and which of its versions, is meant."""

from evalscribe.app.named import no_version, nothing_called, version_called
from evalscribe.errors import NotFoundError
from evalscribe.model.dataset import Dataset, DatasetVersion
from evalscribe.model.experiment_storage import Datasets


def found(datasets: Datasets, named: str) -> Dataset:
    """By id or name. Raises `NotFoundError` naming what there is."""
    if dataset := datasets.find(named):
        return dataset
    raise nothing_called("dataset", named, [one.name for one in datasets.all()], "datasets create")


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
    if version := version_called(versions, named):
        return version
    if not versions:
        makes = f"`evalscribe datasets publish {dataset.name}` makes one"
        raise NotFoundError(f"dataset {dataset.name} has no version {named!r}; nothing was published yet: {makes}")
    raise no_version(f"dataset {dataset.name}", named, versions)
