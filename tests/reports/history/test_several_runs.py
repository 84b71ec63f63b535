"""Maintainers' reports on several runs: lists of ids, other labels, tables of root causes."""

from collections.abc import Callable

from evalscribe.model.repository import ReportFile
from evalscribe.model.run import Eval, Run
from evalscribe.reports import history, reading
from evalscribe.reports.history import load_history
from evalscribe.reports.reading import parse_report

MakeFile = Callable[[str, str], ReportFile]
RUNS = (
    "jn7aaaaaaaaaaaaaaaaaaaaaaaaaaa01",
    "jn7bbbbbbbbbbbbbbbbbbbbbbbbbbb02",
    "jn7cccccccccccccccccccccccccc003",
)
JUNE = """\
# Run Analysis: maker-model-5

- **Model**: `maker/maker-model-5`
- **Run IDs**:
  - `jn7aaaaaaaaaaaaaaaaaaaaaaaaaaa01` (first)
  - `jn7bbbbbbbbbbbbbbbbbbbbbbbbbbb02`
  - `jn7cccccccccccccccccccccccccc003`
- **Experiment**: default
- **Date**: 2026-06-18
- **Recorded pass rates**: 68/74, 67/74, 67/74
- **Corrected estimate after grader fixes**: 71/74

## Failure Summary

| Eval | Classification | Root cause |
|---|---|---|
| `000-fundamentals/003-crons` | MODEL_FAULT | leaves out the interval's arguments |
| `002-queries/009-text_search` | HARNESS_FAILURE | search index is not ready when the test starts |
| `004-actions/005-storage` | TEST_FAILURE | the grader compares a signed URL |
| `005-idioms/002-batch` | AMBIGUOUS_TASK | the task does not say in which order |
| `006-clients/001-form` | FLAKY_RUN | passed in two of three runs |

The harness and test failures were reproduced locally with the canonical answer outputs.

## Genuine Model Failures

### `000-fundamentals/003-crons`

**Classification**: MODEL_FAULT

The model calls `crons.interval` without arguments, the reference passes an empty object.

## Harness and Test Failures

### `002-queries/009-text_search`

**Classification**: HARNESS_FAILURE

Replayed with the stored outputs: the reference fails as well.

### `004-actions/005-storage`

**Classification**: TEST_FAILURE

The expected URL holds a signature.

## Actions Taken

- `002-queries/009-text_search`: wait for the index before the first query.
- `004-actions/005-storage`: compare only the path of the URL.

## Net Impact

| Run | Recorded | Corrected |
|---|---|---|
| `jn7aaaaaaaaaaaaaaaaaaaaaaaaaaa01` | 68/74 | 71/74 |

## Follow-Up Replacement Runs

| Run ID | Score | Remaining failures |
|---|---|---|
| `jn7ddddddddddddddddddddddddddd04` | 72/74 | `000-fundamentals/003-crons`, `005-idioms/002-batch` |
| `jn7eeeeeeeeeeeeeeeeeeeeeeeeeee05` | 73/74 | `000-fundamentals/003-crons` |

## Production Cleanup

The runs `jn7aaaaaaaaaaaaaaaaaaaaaaaaaaa01` and `jn7bbbbbbbbbbbbbbbbbbbbbbbbbbb02` were deleted from the deployment.
"""
BY_EXPERIMENT = """\
# Run Analysis: maker-model-4

**Model:** maker-model-4 (maker)
**Date:** 2026-02-26
**Run IDs (with_guidelines):** jn7fffffffffffffffffffffffffff06, jn7ggggggggggggggggggggggggggg07
**Run IDs (no_guidelines):** jn7hhhhhhhhhhhhhhhhhhhhhhhhhhh08

## Failures

| Eval | with 1 | with 2 | without | Classification |
|---|---|---|---|---|
| 000-fundamentals/003-crons | fail | fail | fail | MODEL_FAULT |
| 002-queries/009-text_search | pass | fail | fail | HARNESS_FAILURE |
"""


def run_of(run_id: str, *paths: str, experiment: str = "default") -> Run:
    evals = (path.split("/") for path in paths)
    failures = tuple(Eval(id=f"id{n}", category=category, name=name) for n, (category, name) in enumerate(evals))
    return Run(id=run_id, provider="maker", model="maker/maker-model-5", experiment=experiment, failures=failures)


def test_report_on_three_runs_is_read() -> None:
    read = parse_report(JUNE, "jn7aaaaa_2026-06-18.md")
    run = read.analysis.run
    assert (read.date, read.run_ids, read.other_experiments) == ("2026-06-18", RUNS, ())
    assert (run.id, run.model, run.provider, run.experiment) == (RUNS[0], "maker/maker-model-5", "maker", "default")
    assert (run.passed, run.total) == (68, 74)
    assert {one.eval: (one.classification, one.cause_kind) for one in read.analysis.findings} == {
        "000-fundamentals/003-crons": ("MODEL_FAULT", None),
        "002-queries/009-text_search": ("OVERLY_STRICT", "harness"),
        "004-actions/005-storage": ("OVERLY_STRICT", "grader"),
        "005-idioms/002-batch": ("AMBIGUOUS_TASK", None),
        "006-clients/001-form": (None, None),
    }


def test_unknown_label_is_kept_in_the_reasoning() -> None:
    reasons = {one.eval: one.reasoning for one in reading.read_report(JUNE, "r.md").findings}
    assert reasons["002-queries/009-text_search"] == (
        "Labelled HARNESS_FAILURE. Replayed with the stored outputs: the reference fails as well."
    )
    assert reasons["006-clients/001-form"] == "Labelled FLAKY_RUN. passed in two of three runs"
    assert reasons["005-idioms/002-batch"] == "the task does not say in which order"


def test_actions_and_later_runs_are_not_read_as_failures() -> None:
    read = reading.read_report(JUNE, "r.md")
    assert [action.evals for action in read.actions_taken] == [
        ("002-queries/009-text_search",),
        ("004-actions/005-storage",),
    ]
    assert len(read.findings) == 5


def test_report_on_several_runs_belongs_to_each_and_is_history_for_others(file: MakeFile) -> None:
    files = [file("maker/maker-model-5/jn7aaaaa_2026-06-18.md", JUNE)]
    for run_id in RUNS:
        assert load_history(files, run_of(run_id, "000-fundamentals/003-crons")).reports == ()
    history = load_history(files, run_of("jn7zzzzzzzzzzzzzzzzzzzzzzzzzzz09", "002-queries/009-text_search"))
    (precedent,) = history.precedents["002-queries/009-text_search"]
    assert (precedent.classification, precedent.by_person, precedent.action) == (
        "OVERLY_STRICT",
        True,
        "`002-queries/009-text_search`: wait for the index before the first query",
    )


def test_run_ids_of_two_experiments_in_one_report_are_read(file: MakeFile) -> None:
    read = parse_report(BY_EXPERIMENT, "jn7fffff_2026-02-26.md")
    assert len(read.run_ids) == 3
    assert read.other_experiments == ("no_guidelines",)
    assert [(one.eval, one.classification) for one in read.analysis.findings] == [
        ("000-fundamentals/003-crons", "MODEL_FAULT"),
        ("002-queries/009-text_search", "OVERLY_STRICT"),
    ]
    files = [file("maker/maker-model-5/jn7fffff_2026-02-26.md", BY_EXPERIMENT)]
    other = run_of("jn7zzzzzzzzzzzzzzzzzzzzzzzzzzz09", experiment="no_guidelines")
    assert history.load_history(files, other).reports == ()
    assert history.load_history(files, other.model_copy(update={"experiment": "default"})).reports
