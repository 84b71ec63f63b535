"""Reference answers recorded in the files of a run are proof without any replay."""

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from support.command import InProcessCommand, Workspace

REFERENCE_FAILS = ("astropy__astropy-7606", "psf__requests-2317", "pylint-dev__pylint-7277")
"""Instances whose reference patch failed in the harness at the time of the run."""


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> InProcessCommand:
    return InProcessCommand(tmp_path, monkeypatch, capsys)


def swebench_run(folder: Path, real_data: Path) -> Path:
    """Copy the evaluated run, without the trajectories."""
    source = real_data / "formats" / "swebench"
    return Path(shutil.copytree(source, folder / "run", ignore=shutil.ignore_patterns("trajectory-*")))


def reference_run(run: Path, to: Path) -> None:
    """Write an evaluation of the reference patches; `REFERENCE_FAILS` fail the same tests as the run."""
    for path in run.glob("logs/*/report.json"):
        id, report = path.parent.name, json.loads(path.read_text())
        if id not in REFERENCE_FAILS:
            report["resolved"] = True
            for tests in report["tests_status"].values():
                tests["success"] += tests["failure"]
                tests["failure"] = []
        (to / id).mkdir(parents=True)
        (to / id / "report.json").write_text(json.dumps({id: report}))


def test_failing_reference_patch_is_proof_against_the_grader(inside: InProcessCommand, real_data: Path) -> None:
    run, gold = swebench_run(inside.folder, real_data), inside.folder / "gold"
    reference_run(run, gold)
    result = json.loads(inside.run("prove", run, "--reference-run", gold, "--json").out)
    proofs = {one["eval"]: one for one in result["proofs"]}
    assert {path for path, one in proofs.items() if one["outcome"] == "reference fails"} == set(REFERENCE_FAILS)
    assert {one["outcome"] for path, one in proofs.items() if path not in REFERENCE_FAILS} == {"inconclusive"}
    assert len(proofs) == 10
    assert not result["not_replayed"]
    analysed = inside.run("analyze", run, "--reference-run", gold, "--judge", "rules", "--prove", "--json")
    verdicts = {one["eval"]: one for one in json.loads(analysed.out)["findings"]}
    for path in REFERENCE_FAILS:
        assert (verdicts[path]["classification"], verdicts[path]["basis"]) == ("OVERLY_STRICT", "proved")


def test_recorded_trials_are_proof_without_a_sandbox(inside: InProcessCommand, real_data: Path) -> None:
    shutil.copytree(real_data / "formats" / "harbor", inside.folder / "harbor")
    (inside.folder / "evalscribe.toml").write_text("[replay]\ncommand = 'true'\nsuite = 'harbor/tasks'\n")
    (programs := inside.folder / "bin").mkdir()
    (programs / "git").symlink_to(str(shutil.which("git")))
    workspace = Workspace(inside.folder)
    result = workspace.run("prove", "harbor/jobs/model", "--json", PATH=str(programs))
    counted = Counter(one["outcome"] for one in json.loads(result.out)["proofs"])
    assert counted == {"reference fails": 3, "flaky": 1, "inconclusive": 3}
    assert "Only recorded trials of the reference answers count: bubblewrap cannot" in result.err
    with_tasks = ("prove", "harbor/jobs/model", "--tasks", "harbor/tasks")
    assert "rm, chmod not found. Install" in workspace.run(*with_tasks, code=69, PATH=str(programs)).err


def test_imported_run_is_proved_by_its_id_after_its_files_are_gone(inside: InProcessCommand, real_data: Path) -> None:
    run, gold = swebench_run(inside.folder, real_data), inside.folder / "gold"
    reference_run(run, gold)
    imported = json.loads(inside.run("import", run, "--reference-run", gold, "--json").out)
    run.rename(inside.folder / "gone")
    (imported_job,) = imported["imports"].values()
    result = json.loads(inside.run("prove", imported_job["runs"][0]["id"], "--json").out)
    assert {one["eval"] for one in result["proofs"] if one["outcome"] == "reference fails"} == set(REFERENCE_FAILS)


def test_prove_without_a_reference_run_is_refused(inside: InProcessCommand, real_data: Path) -> None:
    refused = inside.run("prove", swebench_run(inside.folder, real_data), code=64).err
    assert "--reference-run" in refused
    assert "--replay-command" in refused


def test_task_name_selects_all_its_failed_trials(inside: InProcessCommand, real_data: Path) -> None:
    shutil.copytree(real_data / "formats" / "harbor", inside.folder / "harbor")
    result = json.loads(inside.run("prove", "harbor/jobs/model", "count-errors", "count-errors#2", "--json").out)
    assert [one["eval"] for one in result["proofs"]] == ["count-errors#1", "count-errors#2", "count-errors#3"]
    passed = inside.run("prove", "harbor/jobs/model", "dice-script#1", code=66)
    assert "dice-script#1 passed, so there is nothing to prove" in passed.err
