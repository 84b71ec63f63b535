"""Harbor jobs: analysed, explained, compared and summarised for a pull request."""

import json
import shutil
from pathlib import Path

import pytest

from support.command import Workspace

EXPECTED = """\
| Task | Passed | Reference | Empty answer | What the failures show |
|---|--:|--:|--:|---|
| `count-errors` | 0/3 | 0/3 | 0/1 | a defect of the verifier |
| `dice-script` | 2/3 | 1/3 | 0/1 | a defect of the verifier, uncertain |
| `region-revenue` | 0/3 | 3/3 | 0/1 | a limit of the agent, 1 of 3 uncertain |
"""


@pytest.fixture
def harbor(real_data: Path) -> Path:
    return real_data / "formats" / "harbor"


def test_harbor_job_is_analysed_and_summarised_for_a_pull_request(workspace: Workspace, harbor: Path) -> None:
    job, tasks = harbor / "jobs" / "model", harbor / "tasks"
    summary = workspace.run(
        "analyze", job, "--tasks", tasks, "--judge", "rules", "--format", "agent-run-analysis", "--no-discuss"
    )
    assert EXPECTED in summary.out
    assert "4 show a defect of the verifier and 3 show a limit of the agent" in summary.out
    again = workspace.run("reports", "show", "c70ffda2", "--format", "agent-run-analysis")
    assert again.out.strip() == summary.out.strip()
    workspace.run("reports", "check")
    page = workspace.run("reports", "show", "c70ffda2").out
    assert "**3 model faults** (2, 4), **4 eval problems** (1, 3)." in page
    explained = workspace.run("explain", job, "count-errors#1", "--tasks", tasks, "--judge", "rules").out
    assert "reference-runs.log" in explained
    assert "tests/test.sh" in explained


def test_explain_accepts_every_name_of_a_trial(workspace: Workspace, harbor: Path) -> None:
    job = harbor / "jobs" / "model"
    next_steps = workspace.run("analyze", job, "--judge", "rules").out
    assert "`evalscribe reports show c70ffda2 --format agent-run-analysis`" in next_steps
    task = workspace.run("explain", job, "count-errors", "--judge", "rules")
    assert task.out.startswith("count-errors#1: ")
    assert "other failed trials: count-errors#2, count-errors#3" in task.err
    trial = workspace.run("explain", job, "region-revenue__MjYMQpT", "--judge", "rules", "--transcript").out
    assert trial.startswith("region-revenue#3: ")
    assert '\n    31      command: "sleep 60; cat summary.csv"\n' in trial.rpartition("\ntranscript\n")[2]
    assert "dice-script#1 passed" in workspace.run("explain", job, "dice-script#1", "--judge", "rules", code=66).err


def test_compare_lists_tasks_that_changed_between_the_runs(workspace: Workspace, harbor: Path) -> None:
    jobs = Path(shutil.copytree(harbor / "jobs", workspace.folder / "jobs"))
    later = Path(shutil.copytree(jobs / "model", jobs / "later"))
    for path in (later / "result.json", *later.glob("*/result.json")):
        value = json.loads(path.read_text())
        value["id"] = "1111" + value["id"][4:]
        if value.get("task_name") == "dice-script":
            value["task_checksum"] = "changed"
        path.write_text(json.dumps(value))
    text = workspace.run("compare", jobs / "model", later, "--no-report").out
    assert "no eval changed" in text
    assert "its task and its grader changed in between: `dice-script`" in text


def test_reference_run_option_reads_a_run_from_elsewhere(workspace: Workspace, harbor: Path) -> None:
    job = Path(shutil.copytree(harbor / "jobs" / "model", workspace.folder / "alone"))
    without = workspace.run("analyze", job, "--judge", "rules", "--no-discuss").out
    assert "**7 model faults** (1–4)." in without
    using = ("--reference-run", harbor / "jobs" / "oracle")
    assert (
        "**3 model faults** (2, 4), **4 eval problems** (1, 3)."
        in workspace.run("analyze", job, *using, "--judge", "rules", "--no-discuss").out
    )
    assert "not found" in workspace.run("analyze", job, "--reference-run", "nowhere", code=66).err
