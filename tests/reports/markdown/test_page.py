"""`parse(render(r)) == r`, and nothing that a report holds can become more than text."""

import contextlib
import re
from collections.abc import Iterator
from urllib.parse import unquote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.front_matter import front_matter_plugin

from evalscribe.model.finding import CrossModelFailures, FollowUp, Recurrence
from evalscribe.model.report import EvalRef, Report, ReportEntry, replaced
from evalscribe.reports.markdown.blocks import UnreadableReport
from evalscribe.reports.markdown.front_matter import run_of
from evalscribe.reports.markdown.page import parse, render
from support import generated_reports

often = settings(max_examples=150, suppress_health_check=list(HealthCheck))


def test_round_trip(report: Report) -> None:
    assert parse(render(report)) == report


@often
@given(generated_reports.reports)
def test_every_report_round_trips(report: Report) -> None:
    assert parse(render(report)) == report


def inline_tokens(text: str) -> Iterator[Token]:
    page = MarkdownIt("commonmark").enable(["table", "strikethrough"]).use(front_matter_plugin).parse(text)
    for token in page:
        yield token
        yield from token.children or ()


def without_people(report: Report) -> Report:
    """What people wrote may hold links and mentions; it is theirs."""
    entries = tuple(replaced(entry, reviewer=(), notes=()) for entry in report.entries)
    return replaced(report, entries=entries, notes=(), actions_taken="")


@often
@given(generated_reports.reports.map(without_people))
def test_text_from_evidence_is_only_text(report: Report) -> None:
    """No HTML, mention, issue, image, emphasis or link of its own; no heading but ours."""
    tokens = list(inline_tokens(render(report)))
    kinds = {token.type for token in tokens}
    assert not kinds & {"html_inline", "image", "em_open", "s_open", "blockquote_open", "hr", "code_block"}
    assert all(
        re.fullmatch(r"<details><summary>[\w, ]+</summary>\n|</details>\n", t.content)
        for t in tokens
        if t.type == "html_block"
    )
    headings = [token.tag for token in tokens if token.type == "heading_open"]
    assert (headings.count("h1"), headings.count("h2"), headings.count("h3")) == (1, 7, 4 + len(report.entries))
    urls = (report.run.url, *(ref.url for entry in report.entries for ref in entry.evals))
    ours = {unquote(url) for url in urls if url}
    reports = {*report.earlier, *(name for entry in report.entries for name in entry.recurrence.reports)}
    reports |= {one.report for one in report.follow_ups}
    for token in tokens:
        if token.type == "link_open":
            href = str(token.attrs["href"])
            assert unquote(href) in ours | reports
        if token.type == "text":
            assert not re.search(r"(?<!\w)@\w|://|www\.|(?<!\w)#\d|\$.*\$", token.content, re.IGNORECASE)


def test_line_ends_and_a_byte_order_mark_of_an_editor(report: Report) -> None:
    text = render(report)
    assert parse(text.replace("\n", "\r\n")) == report
    assert parse("\ufeff" + text) == report
    assert parse(text.rstrip("\n")) == report


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("kind: evalscribe-report/1", "kind: evalscribe-compare/1", "evalscribe-compare/1"),
        ("revision: 2", "revision: two", "front matter"),
        ("run: smp7q2kax0d4m81v", "run: [", "not valid YAML"),
        ("run: smp7q2kax0d4m81v", "run: other", "name two runs"),
        ("run: smp7q2kax0d4m81v", "owner: me", "front matter"),
        ("| Result | 31 passed", "| Result | many passed", "Result"),
        ("## Net impact", "## Net", "not a section"),
        ("## Net impact\n", "", "section"),
        ("### No action", "### Some action", "not a group of recommendations"),
        ("| 1 | [basics", "| x | [basics", "no number"),
        ("- R1 (2, would pass)", "- R1 (9, would pass)", "no finding 9"),
        ("- Cause: missing-empty-args (model)", "- Cause: missing empty args", "short name"),
        ("- Seen: repeat", "- Seen: often", "Seen"),
        ("# output   schedule.py:20", "# output   schedule.py:0", "place"),
    ],
)
def test_what_cannot_be_read_says_why(report: Report, before: str, after: str, reason: str) -> None:
    text = render(report)
    assert before in text
    with pytest.raises(UnreadableReport, match=reason):
        parse(text.replace(before, after, 1))


@pytest.mark.parametrize(
    "text", ["", "\n", "# Model failed\n", "---\n", "---\nkind: 1\n---\n", "---\n- a\n---\n", "\0"]
)
def test_other_documents_are_no_reports(text: str) -> None:
    with pytest.raises(UnreadableReport):
        parse(text)
    assert run_of(text) is None


@often
@given(st.data())
def test_a_broken_report_is_refused_not_a_crash(report: Report, data: st.DataObject) -> None:
    lines = render(report).split("\n")
    at = data.draw(st.integers(0, len(lines) - 1))
    change = data.draw(st.sampled_from((*generated_reports.HOSTILE, "", None, 12)))
    if change is None:
        del lines[at]
    elif isinstance(change, int):
        lines[at] = lines[at][:change]
    else:
        lines[at] = data.draw(st.sampled_from((change, change + lines[at], lines[at] + change)))
    with contextlib.suppress(UnreadableReport):
        assert parse(render(parse("\n".join(lines)))) == parse("\n".join(lines))


def test_what_was_not_judged_is_named_once_among_what_to_look_at(report: Report) -> None:
    assert "a fix may not have held" in render(report)
    undone = tuple(
        replaced(entry, classification=None) if entry.recurrence.kind == "fix-in-doubt" else entry
        for entry in report.entries
    )
    looked = render(replaced(report, entries=undone))
    assert "a fix may not have held" not in looked
    assert "(not judged)" in looked


def test_a_failure_that_nobody_judged_has_no_cause_in_common_with_an_earlier_one(report: Report) -> None:
    seen = Recurrence(kind="repeat", reports=("old_2026-01-02.md",))
    undone = ReportEntry(evals=(EvalRef(path="a/1"),), classification=None, reasoning="refused", recurrence=seen)
    text = render(replaced(report, entries=(undone,)))
    assert "- Seen: repeat, failed in [2026-01-02](old_2026-01-02.md)" in text
    assert parse(text).entries[0].recurrence == seen


def test_other_models_and_what_held_are_one_line_each(report: Report) -> None:
    across = CrossModelFailures(alike=("a/b", "a/c, d"), more=1, models=7, earlier=("e/f",))
    held = FollowUp(
        report="smp5c1zz_2026-10-12.md",
        text="make `X` a warning",
        evals=("http/001-retry", "style/002-loop"),
        outcome="held",
    )
    other = FollowUp(report="../m2/x_2026-10-13.md", text="reword it", evals=(), outcome="did not hold")
    first = replaced(report.entries[0], across=across)
    told = replaced(report, entries=(first, *report.entries[1:]), follow_ups=(held, other))
    text = render(told)
    assert (
        "- Models: fails the same way for 4 of 7 models, also a/b, `a/c, d` and 1 more; "
        "in an earlier version of this eval: e/f\n"
    ) in text
    assert "- Held since [2026-10-12](smp5c1zz_2026-10-12.md) (or among the 1 that never completed): " in text
    assert ': "make `X` a warning" (2, style/002-loop).\n' in text
    assert '- Did not hold since [2026-10-13](../m2/x_2026-10-13.md) of m2: "reword it".\n' in text
    assert parse(text) == told


def test_so_many_models_are_counted_and_not_all_named(report: Report) -> None:
    across = CrossModelFailures(alike=tuple(f"p/m{n:02}" for n in range(20)), models=30)
    entry = replaced(report.entries[0], across=across)
    assert entry.across is not None
    assert (entry.across.failing, entry.across.models, len(entry.across.alike)) == (21, 30, 8)
    line = next(line for line in render(replaced(report, entries=(entry,))).split("\n") if line.startswith("- Models"))
    assert line.endswith("p/m07 and 12 more")
