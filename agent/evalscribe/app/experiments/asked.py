"""What a command asks of an experiment, in the user's words, and what these mean."""

import json
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from evalscribe.app.datasets.found import found as dataset_named
from evalscribe.app.datasets.found import version_named
from evalscribe.app.experiments.create import NewExperiment
from evalscribe.app.experiments.desk import ExperimentDesk
from evalscribe.app.experiments.target import TargetAsked, resolved_target
from evalscribe.app.scorers import bound
from evalscribe.errors import UsageError
from evalscribe.experiment import Config
from evalscribe.ids import Frozen


class Asked(Frozen):
    """Options of `experiments create` and `update`; None and () are what was not said."""

    name: str | None = None
    dataset_id: str | None = None
    dataset_version_id: str | None = None
    target: TargetAsked = TargetAsked()
    builtin_scorers: tuple[str, ...] = ()
    scorer_ids: tuple[str, ...] = ()
    config: str | None = None


def resolved(desk: ExperimentDesk, asked: Asked) -> NewExperiment:
    """Raises `UsageError` naming the option that is missing or wrong, `NotFoundError` for what is not there."""
    if not asked.name:
        raise UsageError("an experiment needs a name: --name NAME")
    if not asked.dataset_id and not asked.dataset_version_id:
        raise UsageError("an experiment needs a dataset: --dataset-id ID")
    if not asked.builtin_scorers and not asked.scorer_ids:
        raise UsageError("an experiment needs a scorer: --builtin-scorer NAME or --scorer-id ID")
    dataset_id, version_id = _dataset(desk, asked)
    return NewExperiment(
        name=asked.name,
        target=resolved_target(desk, asked.target),
        dataset_id=dataset_id,
        dataset_version_id=version_id,
        bindings=bound(desk.definitions, asked.builtin_scorers, asked.scorer_ids),
        config=config_of(asked.config),
    )


def changed(desk: ExperimentDesk, before: NewExperiment, asked: Asked) -> NewExperiment:
    """The definition with what was said in place of what it had; scorers and config are replaced whole."""
    changes: dict[str, Any] = {}
    if asked.dataset_id or asked.dataset_version_id:
        within = asked.model_copy(update={"dataset_id": asked.dataset_id or before.dataset_id})
        changes["dataset_id"], changes["dataset_version_id"] = _dataset(desk, within)
    if asked.target.said:
        changes["target"] = resolved_target(desk, asked.target, before.target)
    if asked.builtin_scorers or asked.scorer_ids:
        changes["bindings"] = bound(desk.definitions, asked.builtin_scorers, asked.scorer_ids)
    if asked.config is not None:
        changes["config"] = config_of(asked.config)
    return before.model_copy(update=changes)


def config_of(text: str | None) -> Config:
    """`--config`: a JSON object. Raises `UsageError` naming the key that is wrong, and what keys there are."""
    try:
        given = json.loads(text or "{}", parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--config is no JSON: {error}") from None
    if not isinstance(given, dict):
        raise UsageError('--config must be a JSON object, such as {"passed_threshold": 0.9}')
    return checked_config(given)


def checked_config(given: Mapping[str, object]) -> Config:
    if unknown := [key for key in given if key not in Config.model_fields]:
        raise UsageError(f"--config knows no {unknown[0]!r}; there is: {', '.join(sorted(Config.model_fields))}")
    try:
        return Config.model_validate(given, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(f"--config: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _dataset(desk: ExperimentDesk, asked: Asked) -> tuple[str, str]:
    """Ids of the dataset and of the version that is meant, the latest where none was named."""
    dataset = dataset_named(desk.datasets, asked.dataset_id) if asked.dataset_id else None
    version = version_named(desk.datasets, dataset, asked.dataset_version_id or "latest")
    if dataset is not None and version.dataset_id != dataset.id:
        raise UsageError(f"--dataset-version-id {version.id} is no version of dataset {dataset.name}")
    return version.dataset_id, version.id
