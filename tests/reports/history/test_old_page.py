"""Reports in the old format, which no code writes any more, are read completely or refused with the line."""

import contextlib
import random
from pathlib import Path

import pytest

from evalscribe.model.report import ReportEntry
from evalscribe.reports.blocks import UnreadableReport
from evalscribe.reports.old_page import parse
from evalscribe.reports.reading import read_report, run_of
from support import generated_reports

DATA = Path(__file__).parents[2] / "data"
PAGE = (DATA / "old_reports/smp7q2ka_2026-11-02.md").read_text("utf-8")
REPORT = parse(PAGE)
MODELS = "Models: fails the same way for 4 of 7 models, also a/b and 2 more"
EARLIER = "smp5c1zz_2026-10-12.md"


def changed(before: str, after: str) -> str:
    assert before in PAGE
    return PAGE.replace(before, after, 1)


def entry(text: str, number: int = 1) -> ReportEntry:
    return parse(text).entries[number - 1]


def test_run_header_is_read() -> None:
    run = REPORT.run
    assert (run.id, run.provider, run.model, run.experiment) == (
        "smp7q2kax0d4m81v",
        "example",
        "sample-model-1",
        "default",
    )
    assert (run.passed, run.failed, run.incomplete, run.total, run.listed) == (13, 10, 1, 24, 10)
    assert (REPORT.date, REPORT.revision, REPORT.judges, REPORT.earlier) == ("2026-11-02", 1, ("rules@1",), (EARLIER,))
    assert run_of(PAGE) == run.id


def test_findings_are_read() -> None:
    assert len(REPORT.entries) == 10
    assert not any(one.reviewed or one.notes for one in REPORT.entries)
    assert sum(len(one.snippets) for one in REPORT.entries) == 23
    fourth = REPORT.entries[3]
    assert (fourth.paths, fourth.step, fourth.classification) == (("http/001-retry",), "tests", "OVERLY_STRICT")
    assert (fourth.cause, fourth.cause_kind) == ("grader-connection-refused", "harness")
    assert fourth.judge is not None
    assert (fourth.judge.id, fourth.judge.confidence) == ("rules@1", 0.8)
    assert fourth.error == "ConnectionRefusedError: http://127.0.0.1:35276/health: [Errno 111] Connection refused"
    assert fourth.reasoning.startswith("Both failed tests ended with a connection error")
    assert (fourth.recurrence.kind, fourth.recurrence.action) == ("fix-in-doubt", "retry added to the grader")
    (quoted,) = fourth.snippets
    assert (quoted.role, quoted.path, quoted.first) == ("grader", "test_grader.py", 36)
    assert [one.uncertain for one in REPORT.entries].index(True) == 4


def test_patterns_follow_ups_and_recommendations_are_read() -> None:
    kinds = ["not-the-model", "rule", "known-gaps", "recurring"]
    assert [pattern.kind for pattern in REPORT.patterns] == kinds
    assert REPORT.patterns[1].evals == ("style/002-loop", "style/005-any")
    assert REPORT.resolved == ("basics/001-hello", "query/002-sort")
    (follow_up,) = REPORT.follow_ups
    assert (follow_up.report, follow_up.outcome, follow_up.evals) == (EARLIER, "did not hold", ("http/001-retry",))
    claims = {item.id: (item.group, item.would_pass) for item in REPORT.recommendations if item.id}
    assert claims == {"R1": ("eval", True), "R2": ("eval", False), "R3": ("lint", True)}
    assert REPORT.notes == ()


@pytest.mark.parametrize("name", ["batch0ru", "cascade0", "model0ru"])
def test_reports_by_model_judges_are_read(name: str) -> None:
    text = (DATA / f"paid_store/reports/example/sample-model-2/{name}_2026-11-02.md").read_text("utf-8")
    assert [one.classification for one in read_report(text, f"{name}_2026-11-02.md").findings].count(None) == 0
    assert parse(text).notes == ()


def test_group_and_comparison_with_other_models_are_read() -> None:
    text = (
        changed("| 6 | query/010-page |", "| 6 | 3 evals |")
        .replace("### 6. query/010-page:", "### 6. 3 evals:")
        .replace(
            "### 7. ",
            "\n<details><summary>3 evals, 2 categories</summary>\n\n- query: 010-page, [011-sort](https://x.example/1)\n"
            "- (no category): alone\n\n</details>\n\n### 7. ",
        )
        .replace("- Seen: new\n", f"- Seen: new\n- {MODELS}\n", 1)
    )
    assert entry(text, 6).paths == ("query/010-page", "query/011-sort", "alone")
    assert entry(text, 6).evals[1].url == "https://x.example/1"
    across = entry(text, 2).across
    assert across is not None
    assert (across.alike, across.failing, across.models) == (("a/b",), 4, 7)
    assert entry(text, 6).notes == ()


def test_line_endings_and_byte_order_mark_of_an_editor_are_accepted() -> None:
    assert parse(PAGE.replace("\n", "\r\n")) == REPORT
    assert parse("\ufeff" + PAGE) == REPORT
    assert parse(PAGE.rstrip("\n")) == REPORT


def test_text_added_by_people_becomes_a_note_of_its_section() -> None:
    text = (
        PAGE.replace("| | |\n", "> For Ada.\n\n| | |\n", 1)
        .replace("### 2. ", "\n- [ ] Reviewer (Ada): no\n\nOne more thing.\n\n### 2. ")
        .replace("`smp5c1zz_2026-10-12.md` has the same failure", "I would say:\n\n`smp5c1zz_2026-10-12.md` has", 1)
        .replace("- Not the model", "- Ask the team\n- Not the model")
        .replace("### No action", "- Talk to Ada\n### No action")
        .replace("## Net impact", "## Costs\nNone known.\n\n## Net impact")
        .replace("## Actions taken\nNone.", "## Actions taken\n- R1: done\n\n## More\nLater.")
    )
    first = entry(text)
    assert (first.reviewer, first.notes) == (("Ada: no",), ("I would say:", "One more thing."))
    assert first.reasoning.startswith("`smp5c1zz_2026-10-12.md` has")
    report = parse(text)
    assert [(note.section, note.text) for note in report.notes] == [
        ("summary", "For Ada."),
        ("patterns", "- Ask the team"),
        ("recommendations", "## Costs"),
        ("recommendations", "None known."),
        ("recommendations", "- Talk to Ada"),
    ]
    assert report.actions_taken == "- R1: done\n\n## More\nLater."


@pytest.mark.parametrize(
    ("before", "after", "label", "kind"),
    [
        ("003-schedule: MODEL_FAULT", "003-schedule: known gap (harness)", "KNOWN_GAP", "harness"),
        ("003-schedule | tests | MODEL_FAULT", "003-schedule | tests | **KNOWN_GAP**", "KNOWN_GAP", "model"),
    ],
)
def test_label_edited_in_either_heading_or_table_counts(before: str, after: str, label: str, kind: str) -> None:
    for written in (None, REPORT):
        edited = parse(changed(before, after), written).entries[0]
        assert (edited.classification, edited.cause_kind, edited.reviewed) == (label, kind, True)


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("kind: evalscribe-report/1", "kind: evalscribe-compare/1", "evalscribe-compare/1"),
        ("revision: 1", "revision: two", "revision: "),
        ("run: smp7q2kax0d4m81v", "run: [", "says kind None"),
        ("run: smp7q2kax0d4m81v", "run: other", "name different runs"),
        ("| Result | 13 passed", "| Result | many passed", "the row 'Result'"),
        ("## Net impact", "## Net", "the section 'Net impact' is missing"),
        ("### 4. http/001-retry: ", "### http/001-retry: ", "finding 4 needs"),
        ("### 4. http/001-retry: ", "### 3. http/001-retry: ", "finding 3 needs"),
        ("### 4. http/001-retry: ", "### 4. http/002-retry: ", "different evals"),
        ("| 1 | basics", "| x | basics", "lacks cells or a unique number"),
        ("003-schedule: MODEL_FAULT", "003-schedule: MODEL_FALUT", "'MODEL_FALUT' is not a label"),
        ("- R1 (4, would pass)", "- R1 (99, would pass)", "no finding 99"),
        ("- Cause: plw2901 (lint)", "- Cause: what they do", "`Cause:`"),
        ("- Judge: MODEL_FAULT, 0.80", "- Judge: MODEL_FAULT, 7", "`Judge:`"),
        ("- Seen: repeat", "- Seen: often", "`Seen:`"),
        ("# output   schedule.py:19", "# output   schedule.py:0", "place"),
    ],
)
def test_unreadable_page_is_refused_with_reason_and_line(before: str, after: str, reason: str) -> None:
    line = PAGE[: PAGE.index(before)].count("\n") + 1
    with pytest.raises(UnreadableReport, match=reason) as refused:
        parse(changed(before, after))
    assert {1, line, 33}.intersection(refused.value.lines)


def test_missing_section_is_named_in_the_error() -> None:
    with pytest.raises(UnreadableReport, match="the section 'Findings' is missing"):
        parse(changed("## Findings\n", ""))


@pytest.mark.parametrize(
    "text", ["", "\n", "# Model failed\n", "---\n", "---\nkind: 1\n---\n", "---\n- a\n---\n", "\0"]
)
def test_other_documents_are_refused(text: str) -> None:
    with pytest.raises(UnreadableReport):
        parse(text)
    assert run_of(text) is None


def test_randomly_damaged_page_is_read_or_refused_without_a_crash() -> None:
    rng = random.Random(1)
    for at in range(5, PAGE.count("\n")):
        lines = PAGE.split("\n")
        word = rng.choice(generated_reports.HOSTILE)
        lines[at : at + 1] = rng.choice(
            ([], [lines[at][:12]], [word + lines[at]], [lines[at] + word], [lines[at], word])
        )
        with contextlib.suppress(UnreadableReport):
            parse("\n".join(lines))
