"""What a report says against what its own content makes it say, by lines."""

from collections.abc import Callable

import pytest
from evalscribe.reports.proofread import check_generated_lines, page_parts
from hypothesis import HealthCheck, given, settings

from evalscribe.model.report import EvalRef, Report, ReportEntry, Snippet, replaced
from evalscribe.reports.markdown.page import parse, render
from evalscribe.reports.page_checks import check_page, is_ours, quotations
from support.generated_reports import reports

NAME = "example/sample-model-1/smp7q2ka_2026-11-02.md"
CORRECT = "## Findings\n### 1. basics/003-schedule: "


def anywhere(name: str) -> bool:
    return True


def said(text: str, name: str = NAME, exists: Callable[[str], bool] = anywhere) -> list[tuple[int, str]]:
    """Line and level of each problem."""
    return sorted((one.line, one.level) for one in check_page(text, name, exists).problems)


def line_of(text: str, start: str) -> int:
    return next(number for number, line in enumerate(text.split("\n"), 1) if line.startswith(start))


def edited(text: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    return text


@pytest.fixture
def text(report: Report) -> str:
    return render(report)


def test_what_evalscribe_wrote_is_right(text: str) -> None:
    assert said(text) == []
    assert is_ours(text)


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(reports)
def test_every_report_that_can_be_made_agrees_with_itself(report: Report) -> None:
    text = render(report)
    assert list(check_generated_lines(parse(text), page_parts(text))) == []
    page = page_parts(text)
    quoted = [
        one.snippet for number in range(len(report.entries)) for one in quotations(page[f"findings/{number + 1}"])
    ]
    assert quoted == [snippet for entry in report.entries for snippet in entry.snippets]


@pytest.mark.parametrize(
    ("old", "new", "at"),
    [
        ("# sample-model-1: 3 of 35 evals", "# sample-model-1: 2 of 35 evals", "# "),
        ("1 failure is the model's, 1 is not", "no failure is the model's, 2 are not", "**"),
        ("3 could not be judged", "0 could not be judged", "**"),
        ("31 passed, 3 failed, 1 incomplete", "31 passed, 3 failed, 0 incomplete", "| Result |"),
        ("| tests | 2 |", "| tests | 1 |", "| tests |"),
        ("| fix-in-doubt |", "| new |", "| 2 |"),
        ("| leaves out the required", "| leaves in the required", None),
        ("| As run | 31/35 | 88.6 % |", "| As run | 34/35 | 97.1 % |", "| As run |"),
        ("(2) | 31/34", "(2) | 34/34", "| Without"),
        ("- Seen: fix-in-doubt: ", "- Seen: fix-in-doubt and what I think: ", None),
        ("| tests | 2 |\n", "| tests | 2 |\n| tsc | 7 |\n", "| tsc |"),
        ("### 3. 3 evals:", "### 3. 9 evals:", "### 3."),
    ],
    ids=lambda value: (value or "")[:24],
)
def test_a_generated_line_that_says_something_else(text: str, old: str, new: str, at: str | None) -> None:
    broken = edited(text, (old, new))
    found = said(broken)
    if at is None:
        assert found == [] or found[0][1] == "error"
        return
    assert found == [(line_of(broken, at), "error")]


def test_the_words_that_differ_are_told(text: str) -> None:
    (one,) = check_page(edited(text, ("| As run | 31/35 |", "| As run | 34/35 |")), NAME, anywhere).problems
    assert "34/35" in one.what
    assert "31/35" in one.what
    (one,) = check_page(edited(text, ("| fix-in-doubt |", "| new |")), NAME, anywhere).problems
    assert one.what == "the column 'Seen' says “new”, the finding “fix-in-doubt”"


@pytest.mark.parametrize(
    "changes",
    [
        [("### 1. basics/003-schedule: MODEL_FAULT", "### 1. basics/003-schedule: AMBIGUOUS_TASK")],
        [("| MODEL_FAULT | repeat", "| KNOWN_GAP (infrastructure) | repeat")],
        [("### 1. basics/003-schedule: MODEL_FAULT", "### 1. basics/003-schedule: **overly strict**")],
        [
            ("### 1. basics/003-schedule: MODEL_FAULT", "### 1. basics/003-schedule: AMBIGUOUS_TASK"),
            ("| MODEL_FAULT | repeat", "| AMBIGUOUS_TASK | repeat"),
            ("- Seen: repeat", "- Reviewer: the task does not say\n- Seen: repeat"),
        ],
        [
            ("### 1. basics/003-schedule: MODEL_FAULT", "### 1. basics/003-schedule: AMBIGUOUS_TASK"),
            ("### 2. http/001-retry: OVERLY_STRICT (harness)", "### 2. http/001-retry: MODEL_FAULT"),
        ],
    ],
    ids=["heading", "table", "spelling", "both", "two-findings"],
)
def test_a_correction_is_no_mistake(text: str, changes: list[tuple[str, str]]) -> None:
    found = said(edited(text, *changes))
    assert {level for _, level in found} == {"notice"}
    assert len(found) == 1


def test_a_correction_excuses_no_other_number(text: str) -> None:
    changed = edited(
        text,
        ("### 1. basics/003-schedule: MODEL_FAULT", "### 1. basics/003-schedule: AMBIGUOUS_TASK"),
        ("| As run | 31/35 | 88.6 % |", "| As run | 34/35 | 97.1 % |"),
    )
    assert (line_of(changed, "| As run"), "error") in said(changed)


def test_what_people_add_and_how_editors_lay_it_out_is_fine(text: str) -> None:
    changed = edited(
        text,
        ("The task asks for", "I looked at this.\n\nThe task asks for"),
        ("## Patterns\n", "## Patterns\nA remark of mine,\nbroken over lines.\n\n"),
        ("| tests | 2 |", "| tests    |     2 |"),
        ("|---|--:|\n| tests", "| :--- | ---: |\n| tests"),
        ("- Error: `TypeError", "* Error: `TypeError"),
        (
            "## Actions taken\nNone.",
            "## Actions taken\n- 2026-11-03: R1 done, see `## Net impact`\n\n```\n## Findings\n```",
        ),
    )
    assert said(changed) == []
    assert said(changed.replace("\n", "\r\n")) == []
    assert said("\ufeff" + changed.replace("\n", "  \n").replace("---  \n", "---\n")) == []


def test_markers_of_a_conflict_are_named_each(text: str) -> None:
    for old in ("revision: 2\n", "| As run | 31/35 | 88.6 % |\n"):
        ours, theirs = old, old.replace("2", "3").replace("8", "9")
        broken = edited(text, (old, f"<<<<<<< HEAD\n{ours}=======\n{theirs}>>>>>>> other\n"))
        first = line_of(broken, "<<<<<<<")
        assert is_ours(broken)
        assert said(broken) == [(first, "error"), (first + 2, "error"), (first + 4, "error")]


def test_a_quoted_conflict_is_none(report: Report) -> None:
    entry = replaced(
        report.entries[0],
        snippets=(
            Snippet(role="output", path="a.py", first=3, text="x\n<<<<<<< SEARCH\ny\n=======\nz\n>>>>>>> REPLACE"),
        ),
    )
    assert said(render(replaced(report, entries=(entry, *report.entries[1:])))) == []


def test_unreadable_is_one_error_at_its_line(text: str) -> None:
    broken = edited(text, ("### 2. http/001-retry: OVERLY_STRICT (harness)", "### 2. http/001-retry: NOT_MY_FAULT"))
    assert said(broken) == [(line_of(broken, "### 2."), "error")]


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
def test_a_file_is_called_as_its_run(text: str, name: str, level: list[str]) -> None:
    assert [found for _, found in said(text, name)] == level


def test_a_judge_that_the_front_matter_leaves_out(text: str) -> None:
    assert said(edited(text, ("judges: [rules@1]", "judges: [other@2]"))) == [(1, "error")]


def test_links(text: str) -> None:
    earlier = "example/sample-model-1/smp5c1zz_2026-10-12.md"
    assert said(text, exists=lambda name: name == earlier) == []
    missing = said(text, exists=lambda name: False)
    assert missing
    assert {level for _, level in missing} == {"error"}
    actions = (
        "[a](https://host.example/x?y=1#z) [b](../../../secrets.txt) [c](nowhere.md)\n"
        "[d](javascript:alert`1`) [e](https:///x) `[f](../../../code)`\n\n```\n[g](../../../fence)\n```\n\n"
        "[h]: http://[broken\n"
    )
    changed = edited(text, ("## Actions taken\nNone.", f"## Actions taken\n{actions}"))
    at = line_of(changed, "[a](https")
    assert said(changed, exists=lambda name: name == earlier) == [
        (at, "warning"),
        (at, "warning"),
        (at + 1, "error"),
        (at + 1, "error"),
        (at + 7, "error"),
    ]


def test_a_link_that_stands_in_many_lines_is_one_mistake(text: str) -> None:
    earlier = "](smp5c1zz_2026-10-12.md)"
    at = [number for number, line in enumerate(text.split("\n"), 1) if earlier in line]
    assert len(at) > 1
    (one,) = check_page(text, NAME, lambda name: False).problems
    assert one.line == at[0]
    assert ", ".join(map(str, at[1:])) in one.what


def test_whoever_confirms_everything_and_corrects_one_makes_no_mistake(report: Report) -> None:
    judged = report.entries[0]
    entries = tuple(replaced(judged, evals=(EvalRef(path=f"c/{n}"),)) for n in range(9))
    run = replaced(report.run, passed=0, failed=9, total=9, listed=9)
    all_alike = replaced(report, run=run, entries=entries, patterns=(), recommendations=(), resolved=())
    text = render(all_alike).replace("\n- Seen:", "\n- Reviewer: agreed\n- Seen:")
    changed = edited(text, ("### 4. c/3: MODEL_FAULT", "### 4. c/3: AMBIGUOUS_TASK"))
    assert [level for _, level in said(changed)] == ["notice"]


def test_ten_thousand_findings_and_corrections_end(report: Report) -> None:
    """What grows with their square would take more than the time that a test has."""
    first = report.entries[0]
    entries: list[ReportEntry] = [first.model_copy(update={"evals": (EvalRef(path=f"c/{n}"),)}) for n in range(10_000)]
    run = replaced(report.run, passed=0, failed=10_000, total=10_000, listed=10_000)
    many = replaced(report, run=run, entries=tuple(entries), patterns=(), recommendations=(), resolved=())
    page = page_parts(render(many))
    corrected = [
        entry.model_copy(update={"classification": "AMBIGUOUS_TASK"}) if n % 3 == 0 else entry
        for n, entry in enumerate(entries)
    ]
    assert list(check_generated_lines(many, page)) == []
    later = list(check_generated_lines(many.model_copy(update={"entries": tuple(corrected)}), page))
    assert {one.level for one in later} <= {"notice", "warning"}


def test_a_report_reads_back_as_it_was(text: str, report: Report) -> None:
    assert parse(text) == report


def test_confirmations_excuse_no_wrong_net_impact(text: str) -> None:
    confirmed = text.replace("\n- Seen:", "\n- Reviewer: agreed\n- Seen:")
    row = next(line for line in confirmed.splitlines() if line.startswith("| As run |"))
    assert "error" in [level for _, level in said(edited(confirmed, (row, "| As run | 16/24 | 66.7 % |")))]
