"""Deployments, prompts, scorers and experiments, in a file and on a server."""

import pytest

from evalscribe.errors import UsageError
from evalscribe.store.definitions import ExperimentStore
from support.example_experiments import DEPLOYMENT, EXPERIMENT, PROMPT_VERSION, SCORER, SPEC, VERSION, make_version


def test_name_resolves_to_the_newest_deployment(definitions: ExperimentStore) -> None:
    newer = DEPLOYMENT.model_copy(update={"id": "dep-2", "python": "3.12"})
    for entry in (DEPLOYMENT, newer, DEPLOYMENT.model_copy(update={"python": "changed"})):
        definitions.add_deployment(entry)
    assert definitions.deployment("v1") == newer
    assert definitions.deployment("dep-1") == DEPLOYMENT
    assert definitions.deployment("nope") is None
    assert definitions.deployments() == (DEPLOYMENT, newer)


def test_changed_prompt_gets_a_new_version(definitions: ExperimentStore) -> None:
    first = PROMPT_VERSION.model_copy(update={"number": 1})
    created = definitions.put_prompt("helper", PROMPT_VERSION)
    assert (created.id, created.name, created.versions) == ("prompt-1", "helper", (first,))
    assert definitions.put_prompt("helper", PROMPT_VERSION) == created
    other = PROMPT_VERSION.model_copy(update={"id": "pv-2", "prompt_id": "prompt-new", "model": "openai/n"})
    changed = definitions.put_prompt("helper", other)
    second = other.model_copy(update={"prompt_id": "prompt-1", "number": 2})
    assert changed.versions == (first, second)
    reverted = definitions.put_prompt("helper", PROMPT_VERSION)
    assert [entry.id for entry in reverted.versions] == ["pv-1", "pv-2", "pv-1"]
    assert definitions.prompt("helper") == definitions.prompt("prompt-1") == reverted
    assert definitions.prompts() == (reverted,)
    assert definitions.prompt("nope") is None


def test_changed_scorer_gets_a_new_version(definitions: ExperimentStore) -> None:
    assert definitions.put_scorer(SCORER) == SCORER
    again = SCORER.model_copy(update={"id": "scorer-new", "created_at": "later"})
    assert definitions.put_scorer(again) == SCORER
    changed = definitions.put_scorer(again.model_copy(update={"spec": SPEC.model_copy(update={"code": "sha256:2"})}))
    assert (changed.id, changed.number) == ("scorer-1", 2)
    moved = definitions.put_scorer(changed.model_copy(update={"folder": "/y"}))
    assert (moved.number, moved.folder) == (3, "/y")
    assert definitions.scorer("polite") == definitions.scorer("scorer-1") == moved
    assert definitions.scorers() == (moved,)
    assert definitions.scorer("nope") is None


def test_changed_experiment_gets_a_new_version(definitions: ExperimentStore) -> None:
    definitions.add_experiment(EXPERIMENT, VERSION)
    second = definitions.put_version(make_version(9, repetitions=3))
    assert second.number == 2
    assert definitions.put_version(make_version(5), latest=False) == VERSION
    stored = definitions.experiment("refunds")
    assert stored == EXPERIMENT.model_copy(update={"latest_version_id": second.id})
    definitions.put_version(VERSION)
    definitions.set_status("exp-1", "archived")
    archived = EXPERIMENT.model_copy(update={"status": "archived"})
    assert definitions.experiments() == (definitions.experiment("exp-1"),) == (archived,)
    assert definitions.experiment_versions("exp-1") == (VERSION, second)
    assert definitions.experiment_version(second.id) == second
    assert definitions.experiment_version("nope") is None


def test_duplicate_experiment_name_is_refused(definitions: ExperimentStore) -> None:
    definitions.add_experiment(EXPERIMENT, VERSION)
    other = EXPERIMENT.model_copy(update={"id": "exp-2"})
    with pytest.raises(UsageError, match="the name 'refunds' is already used by experiment exp-1"):
        definitions.add_experiment(other, make_version(experiment_id="exp-2"))
    assert definitions.experiment_versions("exp-2") == ()
