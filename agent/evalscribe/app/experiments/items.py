"""The items of its dataset version that an experiment tries: all, or those of one split."""

from collections import Counter
from collections.abc import Iterator

from evalscribe.app.experiments.find import version_of_run
from evalscribe.errors import NotFoundError, UsageError
from evalscribe.model.dataset import DatasetVersion, Item
from evalscribe.model.experiment import ExperimentRun
from evalscribe.text import join_first
from evalscribe.workspace import Workspace

MOST_SPLITS = 10
"""That are named where the one that is wanted is not there."""


def numbered_items(workspace: Workspace, run: ExperimentRun) -> Iterator[tuple[int, Item]]:
    """Those that the run tries, each with its place in the dataset version."""
    split = version_of_run(workspace, run).config.split
    numbered = enumerate(workspace.store.datasets.items(run.dataset_version_id))
    return ((number, item) for number, item in numbered if split is None or item.split == split)


def items_of(workspace: Workspace, run: ExperimentRun) -> Iterator[Item]:
    return (item for _, item in numbered_items(workspace, run))


def number_of_items(workspace: Workspace, dataset_version_id: str, split: str | None) -> int:
    """Raises `NotFoundError` without the version, `UsageError` for a split that none of its items is of."""
    version = workspace.store.datasets.version(dataset_version_id)
    if version is None:
        raise NotFoundError(f"dataset version {dataset_version_id} is not in the store")
    if split is None:
        return version.items
    splits = Counter(item.split for item in workspace.store.datasets.items(version.id) if item.split is not None)
    if split not in splits:
        raise UsageError(_no_such(workspace, version, split, splits))
    return splits[split]


def _no_such(workspace: Workspace, version: DatasetVersion, split: str, splits: Counter[str]) -> str:
    dataset = workspace.store.datasets.find(version.dataset_id)
    name = dataset.name if dataset else version.dataset_id
    there = join_first([f"{one} ({number:,})" for one, number in sorted(splits.items())], MOST_SPLITS)
    deal = f"none has a split: `evalscribe datasets split {name}` deals them out, `datasets publish` makes a version"
    said = f"its splits are {there}" if splits else deal
    return f"--config: split {split!r}: {name}@{version.number} has no item of it; {said}"
