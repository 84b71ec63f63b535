"""The recorded run matches the graders' real results and has the intended failures."""

import json

import yaml

from evalscribe.sample import earlier_reports, outputs_folder, snapshot_folder, suite_folder
from sample import remake

PLANTED = {"http/001-retry": "tests", "style/005-any": "lint", "text/004-tags": "tests", "deps/001-lock": "install"}
"""Evals whose reference answer also fails: broken grader, known gap, flaky test, unresponsive index."""


def test_recorded_run_matches_a_new_grading() -> None:
    committed = remake.texts(snapshot_folder())
    assert remake.snapshot(remake.grade_all()) == committed


def test_reference_answers_fail_only_in_the_planted_evals() -> None:
    graded = remake.grade_all(answers=True)
    assert {path: result.failed[0] for path, result in graded.items() if result and result.failed} == PLANTED


def test_run_has_ten_failures_and_one_eval_without_output() -> None:
    run = json.loads((snapshot_folder() / "failed_evals.json").read_text("utf-8"))
    assert (run["totalEvals"], run["passedCount"], run["failedCount"]) == (24, 13, 10)
    assert len(list((snapshot_folder() / "debug").iterdir())) == 10
    assert {path for path in remake.eval_paths() if not (outputs_folder() / path).exists()} == {"data/003-stream"}


def test_every_log_starts_with_the_header_of_its_eval() -> None:
    for file in (snapshot_folder() / "debug").iterdir():
        debug = json.loads(file.read_text("utf-8"))
        assert debug["outputFiles"]["run.log"].startswith(f"=== Eval: {debug['eval']['evalPath']} ===\n")
        assert debug["evalSourceFiles"]["TASK.txt"] == debug["eval"]["task"]


def test_recorded_run_contains_no_local_paths() -> None:
    for name, text in remake.texts(snapshot_folder()).items():
        assert str(suite_folder()) not in text, name
        assert "/tmp" not in text, name


def test_earlier_report_names_evals_of_the_suite() -> None:
    ((name, text),) = earlier_reports()
    assert name == "example/sample-model-1/smp5c1zz_2026-10-12.md"
    headings = [line for line in text.splitlines() if line.startswith("### ")]
    assert len(headings) == 6
    assert all(any(path.split("/")[1] in line for path in remake.eval_paths()) for line in headings)
    assert yaml.safe_load(text.partition("\n")[0]) is None
