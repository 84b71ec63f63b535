"""Selection of the earlier reports for a run, and their labels and actions for its evals."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from evalscribe.model.repository import ReportFile
from evalscribe.model.run import Eval, Run
from evalscribe.reports import history
from evalscribe.reports.history import load_history
from evalscribe.store.analyses import open_store

MakeFile = Callable[..., ReportFile]
MakeRun = Callable[..., Run]
MakeText = Callable[..., str]
MakePage = Callable[..., tuple[str, str]]
"""Page and data."""


def test_reports_are_sorted_by_their_own_date_or_that_of_the_file_name(
    file: MakeFile, run: MakeRun, free: MakeText
) -> None:
    files = [
        file("p/m/aaaaaaaa_2026-01-01.md", free({"c/001-a": "MODEL_FAULT"})),
        file("p/m/undated.md", free({"c/001-a": "OVERLY_STRICT"})),
        file("p/m/bbbbbbbb_2026-01-03.md", free({"c/001-a": "KNOWN_GAP"}, date="2026-03-09")),
        file("p/m/cccccccc_2026-02-01.md", free({"c/001-a": "AMBIGUOUS_TASK"})),
        file("p/m/dddddddd.md", free({"c/001-a": "MODEL_FAULT"}, date="January 15, 2026")),
    ]
    history = load_history(files, run("c/001-a"))
    assert [(report.name, report.date) for report in history.reports] == [
        ("bbbbbbbb_2026-01-03.md", "2026-03-09"),
        ("cccccccc_2026-02-01.md", "2026-02-01"),
        ("dddddddd.md", "2026-01-15"),
        ("aaaaaaaa_2026-01-01.md", "2026-01-01"),
        ("undated.md", None),
    ]
    precedents = history.precedents["c/001-a"]
    assert [one.classification for one in precedents][:2] == ["KNOWN_GAP", "AMBIGUOUS_TASK"]
    assert all(one.by_person for one in precedents)


@pytest.mark.parametrize(
    ("name", "run_id", "own"),
    [
        pytest.param("run9zzzz_2026-01-01.md", "run9zzzzzzzzzzzz", True, id="by-its-word"),
        pytest.param("other.md", "run9zzzzzzzzzzzz", True, id="by-its-word-under-another-name"),
        pytest.param("run9zzzz_2026-01-01.md", "", True, id="by-the-file-name"),
        pytest.param("run9zz_2026-01-01.md", "", True, id="by-a-shortened-name"),
        pytest.param("run9zzzz_2026-01-01.evalscribe.md", "", True, id="beside-a-persons"),
        pytest.param("run9zzzz_2026-01-01.md", "run9zzzzyyyyyyyy", False, id="eight-characters-of-another-run"),
        pytest.param("run9_2026-01-01.md", "", False, id="too-short-to-tell"),
        pytest.param("run8zzzz_2026-01-01.md", "", False, id="another"),
    ],
)
def test_report_of_the_run_itself_is_not_in_its_history(
    file: MakeFile, run: MakeRun, free: MakeText, name: str, run_id: str, own: bool
) -> None:
    history = load_history([file(f"p/m/{name}", free({"c/001-a": "MODEL_FAULT"}, run_id=run_id))], run("c/001-a"))
    assert bool(history.reports) is not own


def test_later_report_is_not_in_the_history(file: MakeFile, run: MakeRun, free: MakeText) -> None:
    files = [
        file("p/m/run9zzzz_2026-02-01.md", free({"c/001-a": "MODEL_FAULT"})),
        file("p/m/later.md", free({"c/001-a": "KNOWN_GAP"}, date="2026-02-02")),
        file(
            "p/m/follows.md",
            free({"c/001-a": "KNOWN_GAP"}, date="2026-02-01", after="As in the previous run (run9zz)."),
        ),
        file("p/m/earlier.md", free({"c/001-a": "OVERLY_STRICT"}, date="2026-01-31")),
    ]
    assert [report.name for report in history.load_history(files, run("c/001-a")).reports] == ["earlier.md"]


def test_report_that_names_another_of_the_same_day_is_the_later_one(
    file: MakeFile, run: MakeRun, ours: MakePage
) -> None:
    first = ours("c/001-a", "MODEL_FAULT", "MODEL_FAULT", run_id="run9zzzzzzzzzzzz")
    second = ours("c/001-a", "MODEL_FAULT", "MODEL_FAULT", earlier=("run9zzzz_2026-01-02.md",))
    files = [file("p/m/run9zzzz_2026-01-02.md", first), file("p/m/run1aaaa_2026-01-02.md", second)]
    assert not history.load_history(files, run("c/001-a")).reports
    names = [report.name for report in history.load_history(files, run("c/001-a", id="run1aaaaaaaaaaaa")).reports]
    assert names == ["run9zzzz_2026-01-02.md"]


@pytest.mark.parametrize(
    ("reported", "experiment", "compared"),
    [
        ("default (with_guidelines)", "default", True),
        ("`default`", "default", True),
        ("no_guidelines", "default", False),
        ("no_guidelines", "no_guidelines", True),
        ("", "no_guidelines", True),
    ],
)
def test_history_has_only_reports_of_the_same_experiment(
    file: MakeFile, run: MakeRun, free: MakeText, reported: str, experiment: str, compared: bool
) -> None:
    text = free({"c/001-a": "MODEL_FAULT"}, experiment=reported)
    assert (
        bool(history.load_history([file("p/m/r.md", text)], run("c/001-a", experiment=experiment)).reports) is compared
    )


def test_report_on_runs_of_two_experiments_belongs_to_the_first(file: MakeFile, run: MakeRun, free: MakeText) -> None:
    head = "# R\n**Run IDs (with_x):** jn70000000000000000a\n**Run IDs (no_x):** jn70000000000000000b\n"
    files = [file("p/m/r.md", head + free({"c/001-a": "MODEL_FAULT"}))]
    assert history.load_history(files, run("c/001-a", experiment="default")).reports
    assert history.load_history(files, run("c/001-a", experiment="with_x")).reports
    assert not history.load_history(files, run("c/001-a", experiment="no_x")).reports
    assert not history.load_history(files, run("c/001-a", id="jn70000000000000000b")).reports


def test_unreadable_reports_become_notes(file: MakeFile, run: MakeRun, free: MakeText) -> None:
    files = [
        file("p/m/broken_2026-01-01.md", "---\nkind: evalscribe-report/1\n---\n# ?\n"),
        file("p/m/compare.md", "---\nkind: evalscribe-compare/1\n---\n"),
        file("p/m/huge.md", "\n" * 200_000),
        file("p/m/good.md", free({"c/001-a": "MODEL_FAULT"})),
    ]
    history = load_history(files, run("c/001-a"))
    assert [report.name for report in history.reports] == ["good.md"]
    assert [note.split(":")[1].strip() for note in history.notes] == ["broken_2026-01-01.md", "compare.md", "huge.md"]


@pytest.mark.parametrize(
    ("judged", "label", "reviewer", "by_person"),
    [
        pytest.param("MODEL_FAULT", "MODEL_FAULT", (), False, id="unreviewed"),
        pytest.param("MODEL_FAULT", "OVERLY_STRICT", (), True, id="corrected"),
        pytest.param("MODEL_FAULT", "MODEL_FAULT", ("seen it",), True, id="confirmed"),
        pytest.param(None, "KNOWN_GAP", (), True, id="labelled-by-a-person-alone"),
        pytest.param(None, None, (), False, id="unclassified"),
    ],
)
def test_label_in_an_evalscribe_report_is_by_a_person_only_if_reviewed(
    file: MakeFile, run: MakeRun, ours: MakePage, judged: str, label: str, reviewer: tuple[str, ...], by_person: bool
) -> None:
    history = load_history(
        [file("p/m/run1aaaa_2026-01-02.md", ours("c/001-a", judged, label, reviewer))], run("c/001-a")
    )
    (precedent,) = history.precedents["c/001-a"]
    assert (precedent.report, precedent.date, precedent.step) == ("run1aaaa_2026-01-02.md", "2026-01-02", "tests")
    assert (precedent.classification, precedent.by_person) == (label, by_person)


@pytest.mark.parametrize(
    ("reported", "failures", "evals", "expected"),
    [
        pytest.param("000-c/001-a", ["000-c/001-a"], [], {"000-c/001-a"}, id="path"),
        pytest.param("001-a (000-c)", ["000-c/001-a"], [], {"000-c/001-a"}, id="category-in-parentheses"),
        pytest.param("001-a", ["000-c/001-a"], [], {"000-c/001-a"}, id="bare"),
        pytest.param("001-a", ["000-c/001-a", "001-d/001-a"], [], set(), id="ambiguous"),
        pytest.param(
            "001-a", ["000-c/001-a"], ["000-c/001-a", "001-d/001-a"], set(), id="ambiguous-by-one-that-passed"
        ),
        pytest.param("001-d/001-a", ["000-c/001-a"], [], {"001-d/001-a"}, id="another-category"),
        pytest.param("evals/000-c/001-a", ["000-c/001-a"], [], {"000-c/001-a"}, id="nested"),
        pytest.param(
            "000-c/001-a", ["000-c/001-a#1", "000-c/001-a#2"], [], {"000-c/001-a#1", "000-c/001-a#2"}, id="trials"
        ),
        pytest.param("000-c/001-a#2", ["000-c/001-a#1", "000-c/001-a#2"], [], {"000-c/001-a#2"}, id="one-trial"),
        pytest.param("000-c/001-a#2", ["000-c/001-a"], [], {"000-c/001-a"}, id="trials-only-earlier"),
        pytest.param("000-c/009-gone", ["000-c/001-a"], [], {"000-c/009-gone"}, id="failed-only-earlier"),
    ],
)
def test_eval_names_in_reports_are_matched_to_the_evals_of_the_run(
    file: MakeFile,
    run: MakeRun,
    free: MakeText,
    reported: str,
    failures: list[str],
    evals: list[str],
    expected: set[str],
) -> None:
    files = [file("p/m/r.md", free({reported: "MODEL_FAULT"}))]
    assert set(history.load_history(files, run(*failures, evals=evals)).precedents) == expected


def test_bare_name_that_is_ambiguous_in_another_report_matches_no_eval(
    file: MakeFile, run: MakeRun, free: MakeText
) -> None:
    files = [
        file("p/m/old_2026-01-01.md", free({"001-a": "KNOWN_GAP"})),
        file("p/m/new_2026-01-02.md", free({"000-c/001-a": "MODEL_FAULT", "001-d/001-a": "MODEL_FAULT"})),
    ]
    precedents = history.load_history(files, run("000-c/001-a")).precedents
    assert [one.report for one in precedents["000-c/001-a"]] == ["new_2026-01-02.md"]
    assert "001-a" not in precedents


def test_actions_are_read_from_the_finding_and_from_the_actions_section(
    file: MakeFile, run: MakeRun, free: MakeText
) -> None:
    after = "\n".join([
        "**Action taken**: relaxed the check",
        "",
        "## Actions taken",
        "- **Rule off**: downgraded, addresses `002-b`",
        "- unrelated",
    ])  # fmt: skip
    text = free({"c/002-b": "OVERLY_STRICT", "c/003-c": "MODEL_FAULT", "c/001-a": "OVERLY_STRICT"}, after=after)
    precedents = history.load_history([file("p/m/r.md", text)], run("c/001-a", "c/002-b", "c/003-c")).precedents
    assert {path: earlier[0].action for path, earlier in precedents.items()} == {
        "c/001-a": "relaxed the check",
        "c/002-b": "Rule off: downgraded, addresses `002-b`",
        "c/003-c": None,
    }


def test_action_in_an_evalscribe_report_is_matched_to_its_eval(file: MakeFile, run: MakeRun, ours: MakePage) -> None:
    actions = "- 2026-01-05: relaxed the grader of 001-a\n- None of the others"
    page = ours("c/001-a", "MODEL_FAULT", "MODEL_FAULT", actions=actions)
    (precedent,) = history.load_history([file("p/m/r.md", page)], run("c/001-a")).precedents["c/001-a"]
    assert precedent.action == "2026-01-05: relaxed the grader of 001-a"
    assert precedent.cause == "missing-args"


def test_report_in_a_folder_of_another_spelling_is_named_by_its_relative_path(
    file: MakeFile, run: MakeRun, free: MakeText
) -> None:
    files = [
        file("p/M-1/aaaaaaaa_2026-01-01.md", free({"c/001-a": "MODEL_FAULT"})),
        file("p/m/bbbbbbbb_2026-01-02.md", free({"c/001-a": "MODEL_FAULT"})),
    ]
    history = load_history(files, run("c/001-a"))
    assert [report.name for report in history.reports] == ["bbbbbbbb_2026-01-02.md", "../M-1/aaaaaaaa_2026-01-01.md"]
    assert [one.report for one in history.precedents["c/001-a"]] == [report.name for report in history.reports]


@pytest.mark.parametrize("path", ["c#/001-a", "c#/001-a#2"])
def test_fingerprint_is_found_in_a_category_with_a_number_sign(
    path: str, file: MakeFile, run: MakeRun, free: MakeText, tmp_path: Path
) -> None:
    stored_run = Run(
        id="runaaaaaaaaaaaaa",
        provider="p",
        model="m",
        failures=(Eval(id="e1", category="c#", name="001-a", trial=2, trials=3),),
    )
    text = free({"c#/001-a": "MODEL_FAULT"}, run_id=stored_run.id)
    (report,) = load_history([file("p/m/r.md", text)], run("c/b")).reports
    with closing(open_store(tmp_path)) as store:
        store.put_run(stored_run)
        fingerprint = history.StoredRecords(store)(report, path)
    assert fingerprint is not None
    assert fingerprint.eval == "c#/001-a"
