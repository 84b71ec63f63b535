"""Experiments over one split of a dataset version."""

from collections.abc import Callable

import pytest

from evalscribe.errors import UnavailableError, UsageError
from evalscribe.experiments.compare import compare_runs
from evalscribe.experiments.control import resume_run
from evalscribe.experiments.definitions import create_experiment, update_experiment, version_options
from evalscribe.experiments.results import export_trials, report_run, run_summary
from evalscribe.model.dataset import Item
from evalscribe.model.experiment import ExperimentConfig, ExperimentRun
from evalscribe.model.target import TargetCall, TargetFailure, TargetReply
from support.scripted_experiments import NOW, ExperimentLab, ScriptedTarget, answer_key

TEST = '{"split": "test"}'


def wrong(call: TargetCall) -> TargetReply:
    return TargetReply(output="something else")


@pytest.fixture
def split_lab(lab: Callable[..., ExperimentLab]) -> ExperimentLab:
    """Version 2 of the experiment; every other item of its dataset is in the split `test`."""
    one = lab(items=6)
    items = [
        Item(key=f"k{n}", input={"n": n}, expected_output=f"k{n}", split="test" if n % 2 else "dev") for n in range(6)
    ]
    one.workspace.store.datasets.put("ds-1", items)
    version = one.workspace.store.datasets.publish("ds-1", NOW)
    one.wanted = one.wanted.model_copy(update={"dataset_version_id": version.id})
    one.version = update_experiment(one.workspace, one.experiment, one.wanted)
    return one


async def run_experiment(
    split_lab: ExperimentLab, config: str | None, answer: Callable[[TargetCall], TargetReply], name: str
) -> ExperimentRun:
    version = split_lab.version.id
    return await split_lab.work(split_lab.run(config=config, version=version, name=name), ScriptedTarget(answer))


async def test_run_over_a_split_covers_only_its_items_and_keeps_positions(split_lab: ExperimentLab) -> None:
    run = split_lab.run(config=TEST, version=split_lab.version.id, repetitions=2)
    assert (run.items, run.tries) == (3, 6)
    run = await split_lab.work(run, target := ScriptedTarget(answer_key))
    assert sorted(target.asked) == ["k1/1", "k1/2", "k3/1", "k3/2", "k5/1", "k5/2"]
    assert [one.number for one in split_lab.workspace.store.experiment_runs.items(run.id)] == [1, 1, 3, 3, 5, 5]
    summary = run_summary(split_lab.workspace, run)
    assert (summary.items, summary.counts.passed, summary.counts.missing, summary.pass_rate.value) == (3, 6, 0, 1.0)
    assert summary.dataset == "letters@2:test"
    assert {one.item_key for one in export_trials(split_lab.workspace, run)} == {"k1", "k3", "k5"}
    assert {one.eval.name for one in split_lab.workspace.store.runs.records(run.id)} == {"k1", "k3", "k5"}


async def test_resumed_run_over_a_split_runs_only_its_remaining_items(split_lab: ExperimentLab) -> None:
    def breaks(call: TargetCall) -> TargetReply | TargetFailure:
        if call.item_key == "k3":
            raise UnavailableError("nobody answers")
        return answer_key(call)

    run = await split_lab.work(
        split_lab.run(config=TEST, version=split_lab.version.id, concurrency=1), ScriptedTarget(breaks)
    )
    report = report_run(split_lab.workspace, run)
    assert (report.summary.counts.passed, report.summary.counts.missing) == (1, 2)
    assert [one.item_key for one in export_trials(split_lab.workspace, run) if one.verdict == "missing"] == ["k3", "k5"]
    run = await split_lab.work(resume_run(split_lab.workspace, run, None), target := ScriptedTarget(answer_key))
    assert (run.state, target.asked) == ("completed", ["k3/1", "k5/1"])


def test_unknown_split_is_refused_listing_splits_and_nothing_is_stored(split_lab: ExperimentLab) -> None:
    workspace = split_lab.workspace
    before = workspace.store.experiments.experiment_versions(split_lab.experiment.id)
    wanted = split_lab.wanted.model_copy(update={"name": "other", "config": ExperimentConfig(split="tset")})
    message = r"split 'tset' of letters@2 has no items; splits: dev \(3\), test \(3\)"
    with pytest.raises(UsageError, match=message):
        create_experiment(workspace, wanted)
    with pytest.raises(UsageError, match=message):
        update_experiment(workspace, split_lab.experiment, wanted)
    with pytest.raises(UsageError, match=message):
        split_lab.run(config='{"split": "tset"}', version=split_lab.version.id)
    with pytest.raises(UsageError, match="split: String should have at least 1 character"):
        split_lab.run(config='{"split": ""}', version=split_lab.version.id)
    assert workspace.store.experiments.experiment("other") is None
    assert workspace.store.experiments.experiment_versions(split_lab.experiment.id) == before
    assert workspace.store.experiment_runs.runs() == ()


def test_unsplit_dataset_error_names_the_split_command(split_lab: ExperimentLab) -> None:
    split_lab.workspace.store.datasets.put("ds-1", [Item(key=f"k{n}", input=n) for n in range(6)])
    version = split_lab.workspace.store.datasets.publish("ds-1", NOW)
    wanted = split_lab.wanted.model_copy(
        update={"dataset_version_id": version.id, "config": ExperimentConfig(split="test")}
    )
    with pytest.raises(
        UsageError, match="the dataset is not split; to split it, run `evalscribe datasets split letters`"
    ):
        update_experiment(split_lab.workspace, split_lab.experiment, wanted)


def test_split_is_part_of_the_version_and_null_removes_it(split_lab: ExperimentLab) -> None:
    run = split_lab.run(config=TEST, version=split_lab.version.id)
    version = split_lab.workspace.store.experiments.experiment_version(run.experiment_version_id)
    assert version is not None
    assert version.id != split_lab.version.id
    assert version_options(split_lab.experiment, version).config.split == "test"
    whole = split_lab.run(config='{"split": null}', version=version.id)
    assert (whole.experiment_version_id, whole.items) == (split_lab.version.id, 6)


async def test_runs_over_different_splits_are_comparable_only_in_shared_items(split_lab: ExperimentLab) -> None:
    await run_experiment(split_lab, None, answer_key, "whole")
    await run_experiment(split_lab, TEST, wrong, "test")
    await run_experiment(split_lab, '{"split": "dev"}', answer_key, "dev")
    comparison = compare_runs(split_lab.workspace, "whole", "test")
    assert comparison.verdict == "not-comparable"
    assert (
        "the base covered all items and the candidate covered split test; 3 items are only in the base"
        in comparison.summary
    )
    both = compare_runs(split_lab.workspace, "whole", "test", allow_mismatch=True)
    assert (both.items, both.coverage, both.base.tries) == (3, 1.0, 3)
    assert {one.item for one in both.regressed} == {"k1", "k3", "k5"}
    assert "They share no items." in compare_runs(split_lab.workspace, "dev", "test", allow_mismatch=True).summary
    again = await run_experiment(split_lab, TEST, answer_key, "again")
    fixed = compare_runs(split_lab.workspace, "test", again.id)
    assert (fixed.items, len(fixed.fixed), fixed.mismatches) == (3, 3, ())


async def test_gate_fails_with_a_baseline_over_other_items(split_lab: ExperimentLab) -> None:
    await run_experiment(split_lab, None, answer_key, "whole")
    await run_experiment(split_lab, TEST, answer_key, "test")
    for base, passed, message in (
        ("whole", False, "it covered all items, not split test"),
        ("test", True, "0 new failures"),
    ):
        config = f'{{"split": "test", "no_new_failures_vs": "{base}"}}'
        gate = report_run(
            split_lab.workspace, await run_experiment(split_lab, config, answer_key, f"against {base}")
        ).gate
        assert gate is not None
        assert (gate.passed, len(gate.clauses)) == (passed, 1)
        assert message in gate.clauses[0].said
