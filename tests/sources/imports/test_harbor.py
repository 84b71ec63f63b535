"""Import of Harbor job folders: job statistics, grading of trials, and reference runs."""

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from evalscribe.model.record import Record, evidence_of
from evalscribe.model.reference_runs import PATH, read_reference_runs
from evalscribe.model.run import Run
from evalscribe.sources.address import RunOverrides
from evalscribe.sources.formats import open_records, recognise, run_files
from evalscribe.sources.harbor import task_checksum

JOBS = ("environment-broken", "model", "nop", "oracle", "two-steps")


def opened(path: Path, **overrides: Any) -> tuple[list[Run], list[Record], dict[str, int]]:
    records = open_records(path, RunOverrides(**overrides))
    entries = list(records.read())
    runs = [one for one in entries if isinstance(one, Run)]
    return runs, [one for one in entries if isinstance(one, Record)], dict(records.left_out)


@pytest.fixture
def harbor(real_data: Path) -> Path:
    return real_data / "formats" / "harbor"


@pytest.fixture
def jobs(harbor: Path, tmp_path: Path) -> Path:
    """Copy of the jobs that a test may change."""
    return Path(shutil.copytree(harbor / "jobs", tmp_path / "jobs"))


def change(path: Path, **fields: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


@pytest.mark.parametrize("name", JOBS)
def test_counts_scores_and_usage_equal_those_of_the_job(harbor: Path, name: str) -> None:
    folder = harbor / "jobs" / name
    result = json.loads((folder / "result.json").read_text())
    (of_job,) = result["stats"]["evals"].values()
    (run,), records, left_out = opened(folder)
    assert not left_out
    assert (run.id, len(records)) == (result["id"], result["n_total_trials"])
    assert sum(one.eval.status in ("passed", "failed") for one in records) == of_job["n_trials"]
    for reward, value in of_job["metrics"][0].items():
        scores = [number for one in records if (number := _score(one, reward)) is not None]
        assert sum(scores) / len(records) == pytest.approx(value)  # Harbor counts a missing reward as 0
    rewards = {float(key): len(trials) for key, trials in of_job["reward_stats"].get("reward", {}).items()}
    assert Counter(_score(one, "reward") for one in records if one.eval.status != "error") == rewards
    assert (run.input_tokens, run.cost_usd) == (
        result["stats"]["n_input_tokens"],
        pytest.approx(result["stats"]["cost_usd"]),
    )


def _score(record: Record, name: str) -> float | None:
    scores = record.metadata["scores"]
    assert isinstance(scores, dict)
    value = scores.get("reward" if name == "mean" else name)
    return float(value) if isinstance(value, int | float) else None


def test_folder_of_jobs_single_job_and_single_trial_are_read(harbor: Path) -> None:
    folder = harbor / "jobs"
    assert run_files(folder) == (folder,)
    runs, records, _ = opened(folder)
    assert [(run.provider, run.model, run.experiment) for run in runs] == [
        ("example", "example-1", "adhoc"),
        ("example", "example-1", "tasks"),
        ("harbor", "nop", "tasks-nop"),
        ("harbor", "oracle", "tasks-oracle"),
        ("example", "example-1", "adhoc"),
    ]
    assert len(records) == 23
    assert len({one.eval.id for one in records}) == 23
    (run,), (trial,), _ = opened(folder / "model" / "dice-script__ePC9ad5")
    assert (run.id, trial.eval.name, trial.eval.trials) == (trial.eval.id[:36], "dice-script", 1)
    (again,), *_ = opened(folder / "model" / "result.json")
    assert again.id == json.loads((folder / "model" / "result.json").read_text())["id"]


def test_trials_of_a_task_are_numbered_by_start_time(harbor: Path) -> None:
    _, records, _ = opened(harbor / "jobs" / "model")
    by_task = {name: [one for one in records if one.eval.name == name] for name in ("region-revenue", "dice-script")}
    for trials in by_task.values():
        assert [one.eval.trial for one in trials] == [1, 2, 3]
        assert {one.eval.trials for one in trials} == {3}
    assert by_task["region-revenue"][2].metadata["trial_name"] == "region-revenue__MjYMQpT"


def test_tests_and_a_reached_time_limit_become_steps(harbor: Path) -> None:
    _, records, _ = opened(harbor / "jobs" / "model")
    late = next(one for one in records if one.metadata["trial_name"] == "region-revenue__MjYMQpT")
    assert [(step.name, step.status) for step in late.steps] == [
        ("test_file_exists", "passed"),
        ("test_header", "passed"),
        ("test_revenues", "failed"),
        ("test_order", "passed"),
        ("limit", "failed"),
    ]
    assert (late.eval.status, late.eval.failed_step) == ("failed", "test_revenues")
    assert late.eval.reason
    assert late.eval.reason.startswith("want {'east': '2130.56'")
    reviewed = next(one for one in records if len(one.transcripts) == 2)
    assert [one.name for one in reviewed.transcripts] == [None, "reviewer"]


def test_environment_start_failure_is_an_error(harbor: Path) -> None:
    _, (record,), _ = opened(harbor / "jobs" / "environment-broken")
    assert (record.eval.status, record.steps) == ("error", ())
    assert record.eval.reason
    assert record.eval.reason.startswith("RuntimeError: Docker compose command failed")
    assert [one.path for one in record.documents] == ["exception.txt"]
    assert record.missing == ("the agent wrote no trajectory",)


def test_each_step_of_a_multi_step_task_has_grading_and_transcript(harbor: Path) -> None:
    tasks = harbor / "tasks-of-two-steps"
    _, (record,), _ = opened(harbor / "jobs" / "two-steps", tasks=tasks)
    assert [(step.name, step.status) for step in record.steps] == [
        ("greet: tests", "passed"),
        ("shout: tests", "failed"),
    ]
    assert record.metadata["scores"] == {"reward": 0.5, "greet reward": 1.0, "shout reward": 0.0}
    assert [one.name for one in record.transcripts] == ["greet", "shout"]
    roles = [(one.role, one.path) for one in record.documents if one.role != "log"]
    assert roles == [
        ("task", "greet/instruction.md"),
        ("expected", "steps/greet/solution/solve.sh"),
        ("grader", "steps/greet/tests/test.sh"),
        ("task", "shout/instruction.md"),
        ("expected", "steps/shout/solution/solve.sh"),
        ("grader", "steps/shout/tests/test.sh"),
    ]
    assert record.missing == ()


def test_task_checksum_equals_that_of_harbor(harbor: Path) -> None:
    _, records, _ = opened(harbor / "jobs" / "oracle")
    for record in records:
        assert record.metadata["task_version"] == task_checksum(harbor / "tasks" / record.eval.name)


def test_tasks_folder_adds_documents_and_reports_version_mismatch(harbor: Path, tmp_path: Path) -> None:
    tasks = Path(shutil.copytree(harbor / "tasks", tmp_path / "tasks"))
    (tasks / "dice-script" / "tests" / "test.sh").write_text("#!/bin/bash\nexit 1\n")
    shutil.rmtree(tasks / "count-errors")
    _, records, _ = opened(harbor / "jobs" / "model", tasks=tasks)
    by_name = {one.eval.name: one for one in records}
    fair = by_name["region-revenue"]
    assert [(one.role, one.path) for one in fair.documents if one.role in ("task", "expected", "grader")] == [
        ("task", "instruction.md"),
        ("expected", "solution/solve.sh"),
        ("grader", "tests/check.py"),
        ("grader", "tests/test.sh"),
    ]
    assert fair.missing == ()
    (note,) = by_name["dice-script"].missing
    assert "another version of the task" in note
    assert by_name["count-errors"].missing == ("tasks has no such task",)


def test_grader_version_is_the_same_with_and_without_task_files(harbor: Path) -> None:
    _, without, _ = opened(harbor / "jobs" / "model")
    _, having, _ = opened(harbor / "jobs" / "model", tasks=harbor / "tasks")
    for one, other in zip(without, having, strict=True):
        assert evidence_of(one).version_of("grader") == evidence_of(other).version_of("grader") is not None
    assert len({one.version for one in without}) == 3


def test_sibling_oracle_and_nop_jobs_become_reference_runs(harbor: Path) -> None:
    _, records, _ = opened(harbor / "jobs" / "model")
    counts = {
        one.eval.name: [(answer.kind, answer.passed, answer.total) for answer in read_reference_runs(one.documents)]
        for one in records
    }
    assert counts == {
        "count-errors": [("reference answer", 0, 3), ("empty answer", 0, 1)],
        "dice-script": [("reference answer", 1, 3), ("empty answer", 0, 1)],
        "region-revenue": [("reference answer", 3, 3), ("empty answer", 0, 1)],
    }


def test_reference_answers_for_another_task_version_are_ignored(jobs: Path) -> None:
    for result in jobs.glob("oracle/*/result.json"):
        change(result, task_checksum="another")
    _, records, _ = opened(jobs / "model")
    kinds = {answer.kind for one in records for answer in read_reference_runs(one.documents)}
    assert kinds == {"empty answer"}


def test_reference_run_option_names_a_job_in_another_folder(jobs: Path) -> None:
    elsewhere = jobs.parent / "elsewhere"
    shutil.move(jobs / "oracle", elsewhere)
    shutil.rmtree(jobs / "nop")
    assert not [one for one in opened(jobs / "model")[1] for _ in read_reference_runs(one.documents)]
    _, records, _ = opened(jobs / "model", reference_run=elsewhere)
    (answer,) = read_reference_runs(records[0].documents)
    assert (answer.source, answer.total) == ("oracle, job elsewhere", 3)


def test_reward_named_reward_decides_else_all_rewards(jobs: Path) -> None:
    trial = jobs / "model" / "count-errors__675S8PM" / "result.json"
    for rewards, threshold, status in (
        ({"reward": 0.5}, None, "failed"),
        ({"reward": 0.5}, 0.5, "passed"),
        ({"correct": 1, "style": 1}, None, "passed"),
        ({"correct": 1, "style": 0}, None, "failed"),
        ({"correct": "yes"}, None, "incomplete"),
    ):
        change(trial, verifier_result={"rewards": rewards})
        _, records, _ = opened(jobs / "model", threshold=threshold)
        assert next(one for one in records if one.metadata["trial_name"] == trial.parent.name).eval.status == status


def test_interrupted_job_is_read_with_its_available_trials(jobs: Path) -> None:
    (jobs / "model" / "result.json").unlink()
    (jobs / "model" / "dice-script__ePC9ad5" / "result.json").unlink()
    (jobs / "model" / "region-revenue__K5C4M6d" / "result.json").write_text('{"id": "x", "task_na')
    (run,), records, left_out = opened(jobs / "model")
    assert run.id == "c70ffda2-0051-4858-9199-35514b9140b9"
    assert run.status == "unknown"
    broken = next(one for one in records if one.eval.name == "dice-script" and one.eval.status == "incomplete")
    assert broken.eval.reason == "the trial has no result: it was interrupted, or is still running"
    assert len(records) == 9
    assert list(left_out) == ["a `result.json` that cannot be read (first: region-revenue__K5C4M6d/result.json)"]


def test_links_and_other_folders_are_not_followed(jobs: Path) -> None:
    secret = jobs.parent / "secret.txt"
    secret.write_text("a secret elsewhere")
    trial = jobs / "model" / "dice-script__ePC9ad5"
    (trial / "verifier" / "test-stdout.txt").unlink()
    (trial / "verifier" / "test-stdout.txt").symlink_to(secret)
    (trial / "artifacts" / "out.txt").symlink_to(secret)
    shutil.rmtree(trial / "agent")
    (trial / "agent").symlink_to(jobs / "model" / "dice-script__LbRfyrb" / "agent")
    _, records, _ = opened(jobs / "model")
    one = next(one for one in records if one.metadata["trial_name"] == trial.name)
    assert not one.transcripts
    assert not [document for document in one.documents if "secret" in document.text]


def test_text_artifacts_become_output_and_binary_ones_are_left_out(jobs: Path) -> None:
    folder = jobs / "model" / "dice-script__ePC9ad5" / "artifacts"
    (folder / "app").mkdir()
    (folder / "app" / "roll.sh").write_text("#!/bin/bash\necho 1\n")
    (folder / "app" / "data.bin").write_bytes(b"\0\1\2")
    (folder / "app" / "large.txt").write_text("x" * 300_000)
    _, records, left_out = opened(jobs / "model")
    one = next(one for one in records if one.metadata["trial_name"] == "dice-script__ePC9ad5")
    assert [document.path for document in one.documents if document.role == "output"] == ["app/roll.sh"]
    assert left_out == {"an artifact of more than 256 kB (first: dice-script__ePC9ad5)": 1}


def test_trial_cannot_forge_the_reference_run_document(jobs: Path) -> None:
    trial = jobs / "model" / "region-revenue__K5C4M6d"
    (trial / "verifier" / "test-stdout.txt").write_text("reference answer (oracle): passed 0 of 9 trials\n")
    _, records, _ = opened(jobs / "model")
    one = next(one for one in records if one.metadata["trial_name"] == trial.name)
    assert [answer.total for answer in read_reference_runs(one.documents)] == [3, 1]
    assert sum(document.path == PATH for document in one.documents) == 1


def test_recognition_names_the_feature_of_jobs_job_and_trial(harbor: Path) -> None:
    assert recognise(harbor / "jobs", RunOverrides()).feature == "5 folders in it are jobs"
    assert recognise(harbor / "jobs" / "model", RunOverrides()).feature.endswith(": a job")
    assert recognise(harbor / "jobs" / "model" / "dice-script__ePC9ad5", RunOverrides()).feature.endswith(": a trial")


def test_step_name_cannot_leave_the_trial_folder(jobs: Path) -> None:
    trial = jobs / "two-steps" / "two-steps__tLStdWi"
    steps = json.loads((trial / "result.json").read_text())["step_results"]
    elsewhere = jobs / "model" / "dice-script__LbRfyrb"
    steps[0]["step_name"] = f"../../../model/{elsewhere.name}"
    steps[1]["step_name"] = "x" * 300
    change(trial / "result.json", step_results=steps)
    _, (record,), _ = opened(jobs / "two-steps")
    assert record.eval.status == "failed"
    assert not [one for one in record.documents if one.role == "log"]
    assert not record.transcripts
