"""Make experiments and new versions of them."""

from collections.abc import Mapping
from secrets import token_hex
from typing import Literal

from pydantic import ValidationError

from evalscribe.app.experiments.items import number_of_items
from evalscribe.app.unstored import require_no_secret
from evalscribe.errors import DataError, UsageError
from evalscribe.ids import Frozen
from evalscribe.json_data import StrictJson
from evalscribe.model.experiment import Experiment, ExperimentConfig, ExperimentVersion, TargetSpec
from evalscribe.model.score import Binding
from evalscribe.text import NAME_LIMIT, one_line
from evalscribe.workspace import Workspace


class NewExperiment(Frozen):
    """A definition with everything resolved."""

    name: str
    type: Literal["standard", "regression", "classifier"] = "standard"
    target: TargetSpec
    dataset_id: str
    dataset_version_id: str
    bindings: tuple[Binding, ...]
    """At least one, their names unique, in topological order of what they depend on."""
    config: ExperimentConfig = ExperimentConfig()


def created(workspace: Workspace, wanted: NewExperiment) -> tuple[Experiment, ExperimentVersion]:
    """Raises `UsageError` for a name that is none or taken, for no scorer, and for a split without items."""
    name = checked_name(wanted.name)
    id = f"exp-{token_hex(8)}"
    version = version_of(workspace, id, wanted)
    experiment = Experiment(
        id=id,
        name=name,
        type=wanted.type,
        # Made with its first run, unless there is one of that name; two names could make the same id out of themselves.
        collection_id=next((one.id for one in workspace.store.collections.collections() if one.name == name), id),
        latest_version_id=version.id,
        created_at=version.created_at,
    )
    workspace.store.experiments.add_experiment(experiment, version)
    return experiment, version


def updated(
    workspace: Workspace, experiment: Experiment, wanted: NewExperiment, *, latest: bool = True
) -> ExperimentVersion:
    """The version that this definition is: a new one, or one that is there already with the same content."""
    return workspace.store.experiments.put_version(version_of(workspace, experiment.id, wanted), latest=latest)


def version_of(workspace: Workspace, experiment_id: str, wanted: NewExperiment) -> ExperimentVersion:
    """Numbered where it is stored. Raises `UsageError` without a scorer, or an item to try."""
    if not wanted.bindings:
        raise UsageError("an experiment needs a scorer: --builtin-scorer NAME or --scorer-id ID")
    number_of_items(workspace, wanted.dataset_version_id, wanted.config.split)
    return ExperimentVersion(
        id=ExperimentVersion.id_of(
            experiment_id, wanted.target, wanted.dataset_version_id, wanted.bindings, wanted.config
        ),
        experiment_id=experiment_id,
        number=1,
        target=wanted.target,
        dataset_id=wanted.dataset_id,
        dataset_version_id=wanted.dataset_version_id,
        bindings=wanted.bindings,
        config=wanted.config,
        created_at=workspace.now(),
    )


def as_wanted(experiment: Experiment, version: ExperimentVersion) -> NewExperiment:
    """The definition of a version, to be changed."""
    return NewExperiment(
        name=experiment.name,
        type=experiment.type,
        target=version.target,
        dataset_id=version.dataset_id,
        dataset_version_id=version.dataset_version_id,
        bindings=version.bindings,
        config=version.config,
    )


def checked_name(name: str, option: str = "--name") -> str:
    """Raises `UsageError` for what cannot be a name."""
    if not name.strip() or one_line(name) != name or len(name) > NAME_LIMIT:
        raise UsageError(f"{option} must be one line of 1 to {NAME_LIMIT} characters, without spaces around it")
    require_no_secret(name, option)
    return name


def merged_config(before: ExperimentConfig, text: str | None) -> ExperimentConfig:
    """The config with the keys of `--config`, a JSON object, in place of what it had; null takes one back.

    Raises `UsageError` naming the key that is wrong, and what keys there are.
    """
    given = {**before.model_dump(exclude_defaults=True), **_object(text)}
    return _checked({key: value for key, value in given.items() if value is not None})


def _object(text: str | None) -> dict[str, object]:
    try:
        given = StrictJson().decode("{}" if text is None else text)
    except DataError as error:
        raise UsageError(f"--config: {error}") from None
    if not isinstance(given, dict):
        raise UsageError('--config must be a JSON object, such as {"passed_threshold": 0.9}')
    return given


def _checked(given: Mapping[str, object]) -> ExperimentConfig:
    if unknown := [key for key in given if key not in ExperimentConfig.model_fields]:
        raise UsageError(
            f"--config knows no {unknown[0]!r}; there is: {', '.join(sorted(ExperimentConfig.model_fields))}"
        )
    try:
        return ExperimentConfig.model_validate(given, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(f"--config: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
