"""Import of Terminal-Bench results from before Harbor.

`is_resolved` decides the status; a failure mode without `is_resolved` is an error.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from evalscribe.errors import DataError
from evalscribe.model.record import Record
from evalscribe.model.run import Run
from evalscribe.sources.address import RunOverrides
from evalscribe.sources.formats import open_records, run_files

POST_TEST = """root@c:/app# bash /tests/run-tests.sh
=========================== test session starts ============================
test_outputs.py::test_exists PASSED
test_outputs.py::test_content FAILED
========================= short test summary info ==========================
PASSED test_outputs.py::test_exists
FAILED test_outputs.py::test_content - AssertionError: expected 7, got 8
======================= 1 failed, 1 passed in 0.02s ========================
"""


def trial(task: str, resolved: bool | None, mode: str = "unset", tests: dict[str, str] | None = None) -> dict[str, Any]:
    """Return a trial as the harness writes it."""
    return {
        "id": f"{task}-{resolved}-{mode}",
        "trial_name": f"{task}.1-of-1.2025-08-10__05-27-18",
        "task_id": task,
        "instruction": f"Do {task}.",
        "is_resolved": resolved,
        "failure_mode": mode,
        "parser_results": tests,
        "recording_path": f"2025-08-10__05-27-18/{task}/sessions/agent.cast",
        "total_input_tokens": 0,
        "total_output_tokens": 0,
        "trial_started_at": "2025-08-10T05:27:18.478461+00:00",
        "trial_ended_at": "2025-08-10T05:33:26.036750+00:00",
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    trials = [
        trial("build", False, tests={"../tests/test_outputs.py - TypeError: bad operand type": "failed"}),
        trial("count", False, tests={"test_exists": "passed", "test_content": "failed"}),
        trial("slow", False, "agent_timeout", {"test_exists": "failed"}),
        trial("env", True, tests={"test_exists": "passed"}),
        trial("astropy", None, "test_timeout"),
        {"trial_name": "nothing"},
    ]
    unresolved = [one.get("task_id") for one in trials if not one.get("is_resolved")]
    whole = {"id": "eae775fe", "results": trials, "unresolved_ids": unresolved, "accuracy": 0.2}
    (tmp_path / "results.json").write_text(json.dumps(whole))
    for one in trials[:5]:
        panes = tmp_path / one["task_id"] / one["trial_name"] / "panes"
        panes.mkdir(parents=True)
        (panes.parent / "results.json").write_text(json.dumps(one))
    (tmp_path / "count" / "count.1-of-1.2025-08-10__05-27-18" / "panes" / "post-test.txt").write_text(POST_TEST)
    return tmp_path


def opened(path: Path, **overrides: Any) -> tuple[Run, dict[str, Record], dict[str, int]]:
    records = open_records(path, RunOverrides(**overrides))
    run, *rest = records.read()
    assert isinstance(run, Run)
    return run, {one.eval.name: one for one in rest if isinstance(one, Record)}, dict(records.left_out)


def test_run_is_read_from_its_folder_or_file_with_each_trial_once(folder: Path) -> None:
    assert run_files(folder) == (folder,)
    for path in (folder, folder / "results.json"):
        run, by_name, left_out = opened(path, model="anthropic/claude-4-sonnet")
        assert (run.id, run.provider, run.model) == ("eae775fe", "anthropic", "claude-4-sonnet")
        assert {name: one.eval.status for name, one in by_name.items()} == {
            "build": "failed",
            "count": "failed",
            "slow": "failed",
            "env": "passed",
            "astropy": "error",
        }
        assert left_out == {"a result without a task (first: [5])": 1}


def test_tests_become_steps_with_the_messages_of_pytest(folder: Path) -> None:
    _, by_name, _ = opened(folder)
    count = by_name["count"]
    assert {step.name: step.status for step in count.steps} == {"test_exists": "passed", "test_content": "failed"}
    assert count.eval.reason == "AssertionError: expected 7, got 8"
    assert [(one.role, one.path) for one in count.documents] == [
        ("task", "instruction"),
        ("log", "panes/post-test.txt"),
    ]
    assert by_name["build"].eval.reason == "../tests/test_outputs.py did not load: TypeError: bad operand type"
    assert [step.name for step in by_name["slow"].steps] == ["test_exists", "limit"]
    assert by_name["astropy"].eval.reason == "test_timeout: the tests ran into their time limit"


def test_single_trial_file_is_read(folder: Path) -> None:
    run, by_name, _ = opened(folder / "count" / "count.1-of-1.2025-08-10__05-27-18" / "results.json")
    assert list(by_name) == ["count"]
    assert run.input_tokens is None


def test_trial_name_cannot_leave_the_folder(folder: Path) -> None:
    path = folder / "results.json"
    whole = json.loads(path.read_text())
    whole["results"][1] |= {"task_id": "..", "trial_name": folder.name}
    path.write_text(json.dumps(whole))
    (folder / "panes").mkdir()
    (folder / "panes" / "post-test.txt").write_text("of another")
    _, by_name, _ = opened(path)
    assert [one.role for one in by_name[".."].documents] == [
        "task",
        "log",
    ]  # `..` resolves to the run's own folder, not its parent


def test_truncated_file_gives_the_records_before_the_cut_and_raises(folder: Path, tmp_path: Path) -> None:
    whole = (folder / "results.json").read_text()
    text = whole.replace('{"id": "eae775fe", ', '{"id": "eae775fe", "accuracy": 0.2, "unresolved_ids": [], ', 1)
    path = tmp_path / "cut.json"
    path.write_text(text[: text.index('"task_id": "slow"')])
    read = open_records(path, RunOverrides()).read()
    before = [next(read) for _ in range(3)]
    with pytest.raises(DataError, match="cut"):
        next(read)
    assert [one.eval.name for one in before if isinstance(one, Record)] == ["build", "count"]
