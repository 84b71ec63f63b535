"""Problems that the check of a page with its data reports, by line."""

import re
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings

from evalscribe.model.report import EvalRef, Report, ReportEntry, Snippet, replaced
from evalscribe.reports.page import page_digest
from evalscribe.reports.page_checks import check_page, is_generated, quotations
from evalscribe.reports.reading import PageSource
from support.generated_reports import reports
from support.report_labels import written

NAME = "example/sample-model-1/smp7q2ka_2026-11-02.md"
ERROR = "\n- Error: `TypeError"
LABEL = "### 1. basics/003-schedule\n**MODEL_FAULT** · "


def always_exists(name: str) -> bool:
    return True


def problems(
    page: PageSource, name: str = NAME, exists: Callable[[str], bool] = always_exists
) -> list[tuple[int, str]]:
    """Line and level of each problem."""
    return sorted((one.line, one.level) for one in check_page(page, name, exists).problems)


def line_of(page: PageSource, start: str) -> int:
    return next(number for number, line in enumerate(page.text.split("\n"), 1) if line.startswith(start))


def edited(page: PageSource, *changes: tuple[str, str]) -> PageSource:
    text = page.text
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    return replaced(page, text=text)


@pytest.fixture
def page(report: Report) -> PageSource:
    return written(report)


def test_a_written_page_has_no_problems(page: PageSource) -> None:
    assert problems(page) == []
    assert is_generated(page.text)


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(reports)
def test_rendered_page_of_any_report_agrees_with_its_data(report: Report) -> None:
    checked = check_page(written(report), NAME, always_exists)
    assert [one for one in checked.problems if one.level == "error" and "generated" in one.what] == []
    quoted = [one.snippet for part in checked.findings for one in quotations(part)]
    expected = [snippet for entry in report.entries for snippet in entry.snippets]
    assert [_without_white_space(one) for one in quoted] == [_without_white_space(one) for one in expected]


def _without_white_space(snippet: Snippet) -> Snippet:
    """Joined lines, and lines that stand alone, are printed without the whitespace around them."""
    return snippet.model_copy(update={"text": "".join(snippet.text.split())})


@pytest.mark.parametrize(
    ("old", "new", "at"),
    [
        ("# sample-model-1: 3 of 35 evals", "# sample-model-1: 2 of 35 evals", "# "),
        ("**1 model fault** (1)", "**0 model faults**", "**"),
        ("31 passed, 3 failed", "31 passed, 2 failed", "| Result |"),
        ("tests 2", "tests 1", "| Failed at |"),
        ("· leaves out the required", "· leaves in the required", "**MODEL_FAULT**"),
        ("| R1 | harness | Read the port | 2 |", "| R1 | harness | Read the port | 1, 2 |", "| R1 |"),
        ("As run 31/35 (88.6 %)", "As run 34/35 (97.1 %)", "As run"),
        ("(2) 31/34", "(2) 34/34", "As run"),
        ("listening on 35275", "listening on 35276", "- `(unverified)"),
        ("did not hold: ", "did not hold, I think: ", "**OVERLY_STRICT**"),
        ("| Result |", "| Owner | Ada |\n| Result |", "| Owner |"),
        ("### 3. 3 evals", "### 3. 9 evals", "### 3."),
        ("def f", "def g", None),
    ],
    ids=lambda value: (value or "")[:24],
)
def test_a_changed_generated_line_is_an_error_at_its_line(page: PageSource, old: str, new: str, at: str | None) -> None:
    if at is None:
        old, new = 'every("s", run=noop)', 'every("s", run=nope)'
    broken = edited(page, (old, new))
    assert (line_of(broken, at or new), "error") in problems(broken)


def test_a_removed_heading_is_an_error(page: PageSource) -> None:
    assert "error" in [level for _, level in problems(edited(page, ("### 3. 3 evals\n", "")))]


def test_error_quotes_the_changed_and_the_original_line(page: PageSource) -> None:
    (one,) = check_page(edited(page, ("As run 31/35", "As run 34/35")), NAME, always_exists).problems
    assert "34/35" in one.what
    assert "31/35" in one.what


@pytest.mark.parametrize(
    "changes",
    [
        [(LABEL, LABEL.replace("MODEL_FAULT", "AMBIGUOUS_TASK"))],
        [(LABEL, LABEL.replace("MODEL_FAULT", "overly strict"))],
        [(LABEL, LABEL.replace("MODEL_FAULT** ·", "OVERLY_STRICT** (lint) ·"))],
        [
            (LABEL, LABEL.replace("MODEL_FAULT", "AMBIGUOUS_TASK")),
            (ERROR, f"\nReviewer: the task does not say\n{ERROR}"),
        ],
        [(LABEL, LABEL.replace("MODEL_FAULT", "AMBIGUOUS_TASK")), ("**OVERLY_STRICT** (harness)", "**MODEL_FAULT**")],
        [(ERROR, f"\nReviewer: I agree\n{ERROR}")],
        [("## Actions taken\nNone.", "## Actions taken\n- 2026-11-03: R1 done")],
        [("## Patterns\n", "A remark of mine.\n\n## Patterns\n")],
    ],
    ids=["label", "spelling", "kind", "label and reason", "two findings", "reason", "action", "note"],
)
def test_valid_edit_is_a_notice_that_the_data_will_be_updated(page: PageSource, changes: list[tuple[str, str]]) -> None:
    (one,) = check_page(edited(page, *changes), NAME, always_exists).problems
    assert one.level == "notice"
    assert "the data is updated when the report is written again" in one.what


def test_label_in_the_heading_is_an_error_that_points_to_the_bold_label(page: PageSource) -> None:
    broken = edited(page, ("### 1. basics/003-schedule\n", "### 1. basics/003-schedule: KNOWN_GAP\n"))
    (one,) = check_page(broken, NAME, always_exists).problems
    assert (one.line, one.level) == (line_of(broken, "### 1."), "error")
    assert "correct the bold label under the finding's heading" in one.what


def test_correction_does_not_hide_a_wrong_number_elsewhere(page: PageSource) -> None:
    changed = edited(
        page,
        (LABEL, LABEL.replace("MODEL_FAULT", "AMBIGUOUS_TASK")),
        (ERROR, f"\nReviewer: one\nReviewer: two\n{ERROR}"),
        ("As run 31/35 (88.6 %)", "As run 34/35 (97.1 %)"),
    )
    assert (line_of(changed, "As run"), "error") in problems(changed)


def test_added_text_and_reformatting_by_an_editor_are_only_notices(page: PageSource) -> None:
    changed = edited(
        page,
        ("The task asks for", "I looked at this.\n\nThe task asks for"),
        ("## Patterns\n", "## Patterns\n\nA remark of mine,\nbroken over lines.\n\n"),
        ("The judge timed out.", "The judge timed out, says its log."),
        (
            "## Actions taken\nNone.",
            "## Actions taken\n- 2026-11-03: R1 done, see `## Net impact`\n\n```\n## Failures\n```",
        ),
    )
    for text in (changed.text, changed.text.replace("\n", "\r\n"), "\ufeff" + changed.text.replace("\n", "  \n")):
        source = replaced(changed, text=text.replace("---  \n", "---\n").replace("/2  \n", "/2\n"))
        assert {level for _, level in problems(source)} == {"notice"}


def test_each_conflict_marker_is_an_error_at_its_line(page: PageSource) -> None:
    for old in ("revision: 2\n", "| Failed at | tests 2, – 3 |\n"):
        ours, theirs = old, old.replace("2", "3").replace("8", "9")
        broken = edited(page, (old, f"<<<<<<< HEAD\n{ours}=======\n{theirs}>>>>>>> other\n"))
        first = line_of(broken, "<<<<<<<")
        assert is_generated(broken.text)
        assert problems(broken) == [(first, "error"), (first + 2, "error"), (first + 4, "error")]


def test_conflict_markers_in_quoted_evidence_are_no_problem(report: Report) -> None:
    entry = replaced(
        report.entries[0],
        snippets=(
            Snippet(role="output", path="a.py", first=3, text="x\n<<<<<<< SEARCH\ny\n=======\nz\n>>>>>>> REPLACE"),
        ),
    )
    assert problems(written(replaced(report, entries=(entry, *report.entries[1:])))) == []


@pytest.mark.parametrize("quoted", ["x\ny\nz", "x\n<<<<<<< SEARCH\ny\n=======\nz\n>>>>>>> REPLACE"])
def test_conflict_markers_added_to_a_quotation_are_errors(report: Report, quoted: str) -> None:
    """Also if the quoted evidence has such lines. They are allowed in a code block that a person added."""
    snippets = (Snippet(role="output", path="a.py", first=3, text=quoted),)
    page = written(replaced(report, entries=(replaced(report.entries[0], snippets=snippets), *report.entries[1:])))
    broken = edited(page, ("\ny\n", "\n<<<<<<< HEAD\ny\n=======\nw\n>>>>>>> other\n"))
    reported = problems(broken)
    assert {level for _, level in reported} == {"error"}
    assert {line_of(broken, "<<<<<<< HEAD"), line_of(broken, ">>>>>>> other")} <= {line for line, _ in reported}
    own = edited(page, ("## Patterns\n", "## Patterns\n\n```\n<<<<<<< HEAD\nmine\n>>>>>>> other\n```\n\n"))
    assert {level for _, level in problems(own)} == {"notice"}


def test_an_unreadable_label_is_one_error_at_its_line(page: PageSource) -> None:
    broken = edited(page, ("**OVERLY_STRICT** (harness)", "**NOT_MY_FAULT**"))
    assert problems(broken) == [(line_of(broken, "**NOT_MY_FAULT**"), "error")]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (None, "smp7q2ka_2026-11-02.json is missing"),
        ("{", "smp7q2ka_2026-11-02.json: "),
        ("<<<<<<< HEAD\n{}\n=======\n{}\n>>>>>>> b\n", "has git conflict markers"),
        ('{"kind": "other"}', "smp7q2ka_2026-11-02.json"),
        ("run smp7q2kax0d4m81v", "is the data of run another, but the page is about run smp7q2kax0d4m81v"),
        ('"revision": 2', "is of revision 1, but the page is newer: restore the data"),
        ('"revision": 3', ""),
    ],
)
def test_missing_broken_foreign_or_outdated_data_is_one_problem(page: PageSource, data: str | None, words: str) -> None:
    if data == "run smp7q2kax0d4m81v":
        data = (page.data or "").replace("smp7q2kax0d4m81v", "another")
    elif data == '"revision": 2':
        data = (page.data or "").replace('"revision": 2', '"revision": 1')
    elif data == '"revision": 3':
        data = (page.data or "").replace('"revision": 2', '"revision": 3')
    (one,) = check_page(replaced(page, data=data), NAME, always_exists).problems
    if words:
        assert (one.line, one.level) == (line_of(page, "revision:") if "newer" in words else 1, "error")
        assert words in one.what
    else:  # the process was killed after it wrote the data
        assert (one.line, one.level) == (line_of(page, "revision:"), "notice")
        assert "analyze the run again" in one.what


def test_changed_line_is_located_if_the_original_page_is_known(report: Report) -> None:
    """The page was written by another version of evalscribe, so that rendering it now gives another text."""
    page = written(report)
    text = page.text.replace("Look first at", "First look at")
    text = re.sub(r"(?m)^written: .*$", f"written: {page_digest(text)}", text)
    broken = edited(replaced(page, text=text), ("As run 31/35", "As run 34/35"))
    assert problems(broken) == [(1, "notice")]
    located = check_page(broken, NAME, always_exists, [page.text, text]).problems
    assert [(one.line, one.level) for one in located] == [(line_of(broken, "As run"), "error")]


@pytest.mark.parametrize(
    ("name", "level"),
    [
        ("example/sample-model-1/smp7q2kb_2026-11-02.md", ["error"]),
        ("example/sample-model-1/smp7q2kax0d4m81v_2026-11-02.md", []),
        ("example/sample-model-1/smp7q2ka_2026-11-02.evalscribe.md", []),
        ("example/sample-model-1/smp7q2ka_2026-11-09.md", ["warning"]),
        ("example/sample_model.1/smp7q2ka_2026-11-02.md", []),
        ("example/sample-model-2/smp7q2ka_2026-11-02.md", ["error"]),
        ("smp7q2ka_2026-11-02.md", []),
        ("notes.md", ["error"]),
    ],
)
def test_file_name_must_match_run_date_and_model(report: Report, name: str, level: list[str]) -> None:
    assert [actual for _, actual in problems(written(report, name), name)] == level


def test_broken_and_unsafe_links_are_reported_at_their_lines(page: PageSource) -> None:
    earlier = "example/sample-model-1/smp5c1zz_2026-10-12.md"
    assert problems(page, exists=lambda name: name in (earlier, "labels.md")) == []
    missing = problems(page, exists=lambda name: name == "labels.md")
    assert {level for _, level in missing} == {"error"}
    assert problems(page, exists=lambda name: name == earlier) == [(line_of(page, "| Decided by |"), "warning")]
    actions = (
        "[a](https://host.example/x?y=1#z) [b](../../../secrets.txt) [c](nowhere.md)\n"
        "[d](javascript:alert`1`) [e](https:///x) `[f](../../../code)`\n\n```\n[g](../../../fence)\n```\n\n"
        "[h]: http://[broken\n"
    )
    changed = edited(page, ("## Actions taken\nNone.", f"## Actions taken\n{actions}"))
    at = line_of(changed, "[a](https")
    reported = problems(changed, exists=lambda name: name in (earlier, "labels.md"))
    assert [one for one in reported if one[1] != "notice"] == [
        (at, "warning"),
        (at, "warning"),
        (at + 1, "error"),
        (at + 1, "error"),
        (at + 7, "error"),
    ]


def test_broken_link_in_many_lines_is_one_problem_that_lists_the_lines(page: PageSource) -> None:
    earlier = "](smp5c1zz_2026-10-12.md)"
    page = edited(page, ("## Patterns\n", f"See [it{earlier}.\n\n## Patterns\n"))
    at = [number for number, line in enumerate(page.text.split("\n"), 1) if earlier in line]
    assert len(at) > 1
    all_problems = check_page(page, NAME, lambda name: name == "labels.md").problems
    (one,) = (problem for problem in all_problems if problem.level == "error")
    assert one.line == at[0]
    assert ", ".join(map(str, at[1:])) in one.what


def test_confirming_all_findings_and_correcting_one_is_one_notice(report: Report) -> None:
    judged = report.entries[0]
    entries = tuple(replaced(judged, evals=(EvalRef(path=f"c/{n}"),)) for n in range(9))
    run = replaced(report.run, passed=0, failed=9, total=9, listed=9)
    page = written(replaced(report, run=run, entries=entries, patterns=(), recommendations=(), resolved=()))
    text = re.sub(r"(?m)^(\*\*MODEL_FAULT\*\*.*)$", r"\1\nReviewer: agreed", page.text)
    changed = edited(replaced(page, text=text), ("### 4. c/3\n**MODEL_FAULT**", "### 4. c/3\n**AMBIGUOUS_TASK**"))
    (one,) = check_page(changed, NAME, always_exists).problems
    assert (one.level, one.what[:10]) == ("notice", "9 findings")


def test_page_with_a_thousand_findings_is_checked_in_time(report: Report) -> None:
    """Quadratic run time would exceed the time limit of a test."""
    first = report.entries[0]
    entries: list[ReportEntry] = [first.model_copy(update={"evals": (EvalRef(path=f"c/{n}"),)}) for n in range(1_000)]
    run = replaced(report.run, passed=0, failed=1_000, total=1_000, listed=1_000)
    page = written(replaced(report, run=run, entries=tuple(entries), patterns=(), recommendations=(), resolved=()))
    lines = page.text.split("\n")
    labels = [at for at, line in enumerate(lines) if line.startswith("**MODEL_FAULT**")]
    for at in labels[::3]:
        lines[at] = lines[at].replace("MODEL_FAULT", "AMBIGUOUS_TASK")
    assert {level for _, level in problems(replaced(page, text="\n".join(lines)))} == {"notice"}


def test_confirmation_does_not_hide_a_wrong_net_impact(page: PageSource) -> None:
    row = next(line for line in page.text.splitlines() if line.startswith("As run "))
    changed = edited(page, (ERROR, f"\nReviewer: agreed\n{ERROR}"), (row, "As run 16/24 (66.7 %)."))
    assert "error" in [level for _, level in problems(changed)]
