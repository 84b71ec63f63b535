"""What a command asks of an experiment, in the user's words, and what these mean."""

from typing import Any

from evalscribe.app.datasets.found import found as dataset_named
from evalscribe.app.datasets.found import version_named
from evalscribe.app.experiments.create import NewExperiment, merged_config
from evalscribe.app.experiments.target import TargetAsked, resolved_target
from evalscribe.app.named import LATEST
from evalscribe.app.scorers import bound
from evalscribe.errors import UsageError
from evalscribe.ids import Frozen
from evalscribe.model.experiment import ExperimentConfig
from evalscribe.workspace import Workspace


class Asked(Frozen):
    """Options of `experiments create` and `update`; None and () are what was not said."""

    name: str | None = None
    dataset_id: str | None = None
    dataset_version_id: str | None = None
    target: TargetAsked = TargetAsked()
    builtin_scorers: tuple[str, ...] = ()
    scorer_ids: tuple[str, ...] = ()
    config: str | None = None


def resolved(workspace: Workspace, asked: Asked) -> NewExperiment:
    """The definition that is asked for.

    Raises:
        UsageError: An option is missing or wrong.
        NotFoundError: Something named is not there.
    """
    if not asked.name:
        raise UsageError("an experiment needs a name: --name NAME")
    if not asked.dataset_id and not asked.dataset_version_id:
        raise UsageError("an experiment needs a dataset: --dataset-id ID")
    if not asked.builtin_scorers and not asked.scorer_ids:
        raise UsageError("an experiment needs a scorer: --builtin-scorer NAME or --scorer-id ID")
    dataset_id, version_id = _dataset(workspace, asked)
    target = resolved_target(workspace, asked.target)
    return NewExperiment(
        name=asked.name,
        type="classifier" if target.type == "judge" else "standard",
        target=target,
        dataset_id=dataset_id,
        dataset_version_id=version_id,
        bindings=bound(workspace, asked.builtin_scorers, asked.scorer_ids),
        config=merged_config(ExperimentConfig(), asked.config),
    )


def changed(workspace: Workspace, before: NewExperiment, asked: Asked) -> NewExperiment:
    """The definition with what was said in place of what it had; scorers are replaced whole, config by its keys.

    Raises `UsageError` and `NotFoundError` as `resolved` does.
    """
    changes: dict[str, Any] = {}
    if asked.dataset_id or asked.dataset_version_id:
        within = asked.model_copy(update={"dataset_id": asked.dataset_id or before.dataset_id})
        changes["dataset_id"], changes["dataset_version_id"] = _dataset(workspace, within)
    if asked.target.said:
        changes["target"] = resolved_target(workspace, asked.target, before.target)
    if asked.builtin_scorers or asked.scorer_ids:
        changes["bindings"] = bound(workspace, asked.builtin_scorers, asked.scorer_ids)
    if asked.config is not None:
        changes["config"] = merged_config(before.config, asked.config)
    return before.model_copy(update=changes)


def _dataset(workspace: Workspace, asked: Asked) -> tuple[str, str]:
    """Ids of the dataset and of the version that is meant, the latest where none was named."""
    dataset = dataset_named(workspace.store.datasets, asked.dataset_id) if asked.dataset_id else None
    version = version_named(workspace.store.datasets, dataset, asked.dataset_version_id or LATEST)
    return version.dataset_id, version.id
