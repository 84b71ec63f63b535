"""Experiments as they are listed and shown."""

from typing import get_args

from evalscribe.app.datasets.found import found as dataset_named
from evalscribe.errors import UsageError
from evalscribe.ids import Frozen, canonical_json
from evalscribe.model.experiment import Experiment, ExperimentVersion, TargetSpec
from evalscribe.model.score import Binding
from evalscribe.text import pluralise
from evalscribe.workspace import Workspace

RULES = "rules"
"""The judge that asks no model."""


class ListedExperiment(Frozen):
    """An experiment with its latest version in short."""

    experiment: Experiment
    version: int
    target: str
    dataset: str
    scorers: tuple[str, ...]
    runs: int


def listed(
    workspace: Workspace,
    *,
    dataset: str | None = None,
    status: str | None = None,
    type: str | None = None,
    page: int = 1,
    page_size: int = 50,
) -> tuple[ListedExperiment, ...]:
    """One page of the experiments, oldest first.

    Args:
        workspace: Where they are.
        dataset: Only those of this dataset, by name or id.
        status: Only `active` or `archived` ones.
        type: Only those of this type.
        page: From 1.
        page_size: How many are on a page.

    Raises:
        UsageError: Nothing can match.
    """
    _known("status", status)
    _known("type", type)
    dataset_id = dataset_named(workspace.store.datasets, dataset).id if dataset else None
    found = []
    for one in workspace.store.experiments.experiments():
        if status not in (None, one.status) or type not in (None, one.type):
            continue
        version = workspace.store.experiments.experiment_version(one.latest_version_id)
        if version is not None and dataset_id in (None, version.dataset_id):
            found.append((one, version))
    start = (page - 1) * page_size
    if found and start >= len(found):
        raise UsageError(f"--page {page}: {pluralise(len(found), 'experiment')} of {page_size} a page")
    return tuple(_listed(workspace, *pair) for pair in found[start : start + page_size])


def target_line(target: TargetSpec) -> str:
    """`component support_agent of dep-…`, `prompt answer@2`, `judge rules`."""
    if target.type == "component":
        return f"{target.component.type} {target.component.name} ({target.deployment_id})"
    if target.type == "prompt":
        return f"prompt {target.prompt_id}@{target.version.number} ({target.version.model})"
    parts = f" ({target.cascade.tag}, then {target.cascade.judge})" if target.cascade else ""
    return f"judge {target.judge}{parts} by {target.rubric}"


def models_asked(version: ExperimentVersion) -> tuple[str, ...]:
    """Models that its tries and their scores are asked of; what a component asks, nobody knows."""
    target = version.target
    own = target.version.model if target.type == "prompt" else target.judge if target.type == "judge" else None
    named = (own, *(binding.spec.model for binding in version.bindings))
    return tuple(dict.fromkeys(name for name in named if name not in (None, RULES)))


def dataset_line(workspace: Workspace, version: ExperimentVersion) -> str:
    """`tickets@3`, or `tickets@3:test` where only a split of it is tried."""
    dataset = workspace.store.datasets.find(version.dataset_id)
    of = workspace.store.datasets.version(version.dataset_version_id)
    split = f":{version.config.split}" if version.config.split is not None else ""
    name, number = dataset.name if dataset else version.dataset_id, of.number if of else version.dataset_version_id
    return f"{name}@{number}{split}"


def binding_line(binding: Binding) -> str:
    """`contains {"pattern":"refund"}, from 0.8 on, not required`."""
    spec = binding.spec
    said = {key: value for key, value in spec.config.items() if value is not None}
    config = f" {canonical_json(said)}" if said else ""
    threshold = "" if binding.threshold is None else f", from {binding.threshold:g} on"
    return f"{spec.name}{config}{threshold}{'' if binding.required else ', not required'}"


def _listed(workspace: Workspace, one: Experiment, version: ExperimentVersion) -> ListedExperiment:
    return ListedExperiment(
        experiment=one,
        version=version.number,
        target=target_line(version.target),
        dataset=dataset_line(workspace, version),
        scorers=tuple(binding.spec.name for binding in version.bindings),
        runs=len(workspace.store.experiment_runs.runs(one.id)),
    )


def _known(name: str, value: str | None) -> None:
    there = get_args(Experiment.model_fields[name].annotation)
    if value is not None and value not in there:
        raise UsageError(f"--{name} {value!r} is none of {', '.join(there)}")
