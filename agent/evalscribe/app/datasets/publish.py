"""Freeze a draft as a version."""

from evalscribe.ids import Frozen
from evalscribe.model.dataset import Dataset, DatasetVersion
from evalscribe.model.experiment_storage import Datasets


class Published(Frozen):
    version: DatasetVersion
    new: bool
    """False where the draft's content was a version's already."""


def published(datasets: Datasets, dataset: Dataset, description: str, now: str) -> Published:
    """Raises `UsageError` for an empty draft."""
    before = {version.id for version in datasets.versions(dataset.id)}
    version = datasets.publish(dataset.id, now, description=description)
    return Published(version=version, new=version.id not in before)
