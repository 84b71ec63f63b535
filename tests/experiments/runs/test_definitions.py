"""Creating, updating and launching experiments."""

from collections.abc import Callable
from typing import Any

import pytest

from evalscribe.errors import NotFoundError, UsageError
from evalscribe.experiments.definitions import (
    ExperimentOptions,
    TargetOptions,
    apply_options,
    create_experiment,
    merged_config,
    resolve_options,
    update_experiment,
    version_options,
)
from evalscribe.experiments.lookup import experiment_named, run_named
from evalscribe.model.experiment import ExperimentConfig
from support.scripted_experiments import COMPONENT, ExperimentLab, deployment

Labs = Callable[..., ExperimentLab]
SECRET = "sk-ant-api03-" + "A1b2C3d4" * 10 + "-AAAAAAAA"
WHOLE: dict[str, Any] = {
    "name": "new",
    "dataset_id": "letters",
    "target": TargetOptions(type="component", deployment_id="base", component_name="agent", component_type="agent"),
    "builtin_scorers": ("exact_match",),
}


def test_create_experiment_stores_a_complete_definition(lab: Labs) -> None:
    one = lab()
    experiment, version = create_experiment(
        one.workspace, resolve_options(one.workspace, ExperimentOptions(**WHOLE, config='{"passed_threshold": 1}'))
    )
    assert experiment.id.startswith("exp-")
    assert (version.number, version.dataset_version_id) == (1, one.version.dataset_version_id)
    assert version.config == ExperimentConfig(passed_threshold=1)
    assert one.workspace.store.experiments.experiment("new") == experiment


@pytest.mark.parametrize(
    ("without", "message"),
    [
        ("name", "`name`"),
        ("dataset_id", "`dataset_id`"),
        ("target", "`target_type`"),
        ("builtin_scorers", "`builtin_scorer`"),
    ],
)
def test_missing_option_is_named(lab: Labs, without: str, message: str) -> None:
    options = {name: value for name, value in WHOLE.items() if name != without}
    with pytest.raises(UsageError, match=message):
        resolve_options(lab().workspace, ExperimentOptions(**options))


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (TargetOptions(type="robot"), "`target_type` 'robot' is unknown; use one of component"),
        (TargetOptions(type="component"), "`deployment_id`"),
        (TargetOptions(type="component", deployment_id="base", component_name="x"), "components: agent"),
        (TargetOptions(type="component", deployment_id="base", component_type="workflow"), "is of type agent"),
        (TargetOptions(type="component", deployment_id="base", prompt_id="p"), "`prompt_id` does not apply"),
        (TargetOptions(type="prompt"), "`prompt_id`"),
        (TargetOptions(type="judge"), "`judge`"),
    ],
)
def test_invalid_target_error_names_its_option(lab: Labs, target: TargetOptions, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        resolve_options(lab().workspace, ExperimentOptions(**{**WHOLE, "target": target}))


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"dataset_id": "nix"}, "dataset 'nix' not found; available: letters"),
        ({"dataset_version_id": "7"}, "no version '7'"),
        (
            {"target": TargetOptions(type="component", deployment_id="nix")},
            "deployment 'nix' not found; available: base",
        ),
        ({"target": TargetOptions(type="prompt", prompt_id="nix")}, "prompt 'nix' not found"),
    ],
)
def test_unknown_reference_error_lists_available_ones(lab: Labs, option: dict[str, Any], message: str) -> None:
    with pytest.raises(NotFoundError, match=message.replace("7", "'?7'?")):
        resolve_options(lab().workspace, ExperimentOptions(**{**WHOLE, **option}))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"threshold": 1}', ": unknown key 'threshold'; keys: .*passed_threshold"),
        ('{"passed_threshold": 1.5}', "passed_threshold: .*less than or equal to 1"),
        ('{"repetitions": "3"}', "repetitions: .*valid integer"),
        ("[1]", "must be a JSON object"),
        ("{", "invalid JSON"),
        ('{"passed_threshold": 1, "passed_threshold": 0}', "member `passed_threshold` twice"),
        ('{"min_pass_rate": NaN}', "not valid JSON"),
        ("", "invalid JSON"),
    ],
)
def test_invalid_config_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=f"`config`.*{message}"):
        merged_config(ExperimentConfig(), text)


def test_config_keys_override_earlier_ones_and_null_resets_them() -> None:
    before = ExperimentConfig(passed_threshold=0.9, repetitions=3)
    assert merged_config(before, '{"repetitions": null, "concurrency": 8}') == ExperimentConfig(
        passed_threshold=0.9, concurrency=8
    )


def test_duplicate_experiment_name_is_refused(lab: Labs) -> None:
    one = lab()
    with pytest.raises(UsageError, match="quality"):
        create_experiment(one.workspace, one.wanted)


def test_equal_definition_returns_the_existing_version(lab: Labs) -> None:
    one = lab()
    options = ExperimentOptions(config='{"repetitions": 2}')
    definition = apply_options(one.workspace, version_options(one.experiment, one.version), options)
    second = update_experiment(one.workspace, one.experiment, definition)
    assert (second.number, update_experiment(one.workspace, one.experiment, one.wanted).id) == (2, one.version.id)
    assert update_experiment(one.workspace, one.experiment, definition) == second
    assert [each.number for each in one.workspace.store.experiments.experiment_versions(one.experiment.id)] == [1, 2]


def test_run_keeps_its_version_when_the_experiment_changes(lab: Labs) -> None:
    one = lab(items=3, repetitions=2)
    run = one.run(name="pr-1", concurrency=9, budget_usd=2.0)
    update_experiment(
        one.workspace, one.experiment, one.wanted.model_copy(update={"config": ExperimentConfig(repetitions=5)})
    )
    stored_run = one.workspace.store.experiment_runs.run("pr-1")
    assert stored_run == run
    assert (run.experiment_version_id, run.deployment_id) == (one.version.id, "dep-1")
    assert (run.repetitions, run.concurrency, run.tries, run.budget_usd) == (2, 9, 6, 2.0)


def test_run_config_creates_a_version_that_later_runs_do_not_use(lab: Labs) -> None:
    one = lab(passed_threshold=0.5)
    run = one.run(config='{"repetitions": 3}')
    version = one.workspace.store.experiments.experiment_version(run.experiment_version_id)
    assert version is not None
    assert (version.number, version.config) == (2, ExperimentConfig(passed_threshold=0.5, repetitions=3))
    again = one.run(experiment=one.workspace.store.experiments.experiment("quality"))
    assert again.experiment_version_id == one.version.id


def test_candidate_deployment_must_have_the_same_component(lab: Labs) -> None:
    one = lab()
    add = one.workspace.store.experiments.add_deployment
    add(deployment("dep-2", "candidate"))
    add(deployment("dep-3", "other", COMPONENT.model_copy(update={"type": "workflow"})))
    assert one.run(deployment="candidate").deployment_id == "dep-2"
    with pytest.raises(UsageError, match="is of type workflow"):
        one.run(deployment="other")
    add(deployment("dep-4", "older", COMPONENT.model_copy(update={"name": "legacy"})))
    with pytest.raises(
        UsageError,
        match=r"`deployment_id` older: the deployment has no component .*\. Components of the deployment: legacy",
    ):
        one.run(deployment="older")


def test_archived_experiment_cannot_be_run(lab: Labs) -> None:
    one = lab()
    one.workspace.store.experiments.set_status(one.experiment.id, "archived")
    with pytest.raises(UsageError, match="is archived"):
        one.run(experiment=one.workspace.store.experiments.experiment("quality"))


def test_id_of_another_kind_is_recognised_in_the_error(lab: Labs) -> None:
    workspace = lab().workspace
    with pytest.raises(
        NotFoundError, match=r"experiment 'dsv-0a1b2c3d' \(which looks like the id of a dataset version\) not found"
    ):
        experiment_named(workspace, "dsv-0a1b2c3d")
    experiment, _ = create_experiment(workspace, resolve_options(workspace, ExperimentOptions(**WHOLE)))
    with pytest.raises(NotFoundError, match="new is an experiment, not a run: it has no runs yet"):
        run_named(workspace, "new")
    with pytest.raises(NotFoundError, match=f"{experiment.id} is an experiment"):
        run_named(workspace, experiment.id)


def test_run_name_containing_a_secret_is_refused(lab: Labs) -> None:
    one = lab()
    with pytest.raises(UsageError, match="`name` contains what looks like a secret") as refused:
        one.run(name=SECRET)
    assert SECRET not in str(refused.value)
