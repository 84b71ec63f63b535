"""A colleague's clone, where nobody knows what evalscribe wrote last: nothing that a person wrote goes silently."""

from collections.abc import Callable

import pytest
from evalscribe.reports.edits import find_base

from evalscribe.model.report import Report, ReportEntry, replaced
from evalscribe.reports.markdown.blocks import UnreadableReport
from evalscribe.reports.markdown.page import parse, render
from evalscribe.reports.merge import merge_report, reconcile

MakeReport = Callable[..., Report]
MakeEntry = Callable[..., ReportEntry]


@pytest.fixture
def text(report: Report) -> str:
    return render(report)


def by_another_judge(report: Report) -> Report:
    entries = (
        replaced(entry, judge=entry.judge and replaced(entry.judge, id="local/m"), why="so", reasoning="Because.")
        for entry in report.entries
    )
    return replaced(report, entries=tuple(entries), judges=("local/m", "rules@1"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("why a/1", "zebra"),
        ("`Error in b/2`", "`zebra`"),
        ("Reasoning about b/2.", "It is the zebra."),
        ("Cause: cause-of-c-3 (task)", "Cause: zebra (task)"),
        ("call('a/1')", "zebra()"),
        ("- Lint decides (2): all", "- Lint decides (2): zebra; all"),
        ("- R2 (3): mend c", "- R2 (3): mend the zebra"),
        ("the model's own", "the zebra's own"),
    ],
)
def test_other_words_for_the_same_verdict_are_kept_beside_it(
    before: str, after: str, report: Report, text: str
) -> None:
    edited = text.replace(before, after, 1)
    assert edited != text
    merged = merge_report(report, edited, None)
    assert "zebra" in merged.text
    assert before in merged.text or before.strip("`") in merged.text
    again = merge_report(report, merged.text, merged.text)
    assert not again.changed, "now that the store knows the text, a person's words are still a person's"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("# m-1: 7", "# m-1, the zebra: 7"),
        ("**1 failure is the model's", "**1 failure is the zebra's"),
        ("experiment default", "experiment zebra"),
        ("5 passed", "6 passed"),
        ("| tests | 7 |", "| zebra | 7 |"),
        ("| 1 | a/1 | tests |", "| 1 | a/1 | zebra |"),
        ("| Seen | Why |", "| Seen | Zebra |"),
        ("| As run |", "| As zebra |"),
        ("0.80, rules@1\n", "0.80, rules@1 zebra\n"),
        ("- Seen: new\n", "- Seen: new zebra\n"),
        ("revision: 1\n", "revision: 1 # zebra\n"),
    ],
)
def test_what_is_derived_cannot_be_reworded(before: str, after: str, report: Report, text: str) -> None:
    edited = text.replace(before, after, 1)
    assert edited != text
    line = next(
        at for at, (old, new) in enumerate(zip(text.split("\n"), edited.split("\n"), strict=True), 1) if old != new
    )
    with pytest.raises(UnreadableReport) as caught:
        merge_report(report, edited, None)
    assert line in caught.value.lines


def test_a_corrected_report_is_no_reworded_one(report: Report, text: str) -> None:
    """The sums on the page still count what was there before each correction."""
    once = merge_report(report, text.replace("1. a/1: MODEL_FAULT", "1. a/1: KNOWN_GAP"), None).text
    twice = once.replace("2. b/2: OVERLY_STRICT (harness)", "2. b/2: MODEL_FAULT")
    twice = twice.replace("5. u/9: UNCLASSIFIED", "5. u/9: AMBIGUOUS_TASK").replace(
        "UNCLASSIFIED |", "AMBIGUOUS_TASK |"
    )
    labels = [entry.classification for entry in merge_report(report, twice, None).report.entries]
    assert labels == ["KNOWN_GAP", "MODEL_FAULT", "AMBIGUOUS_TASK", "KNOWN_GAP", "AMBIGUOUS_TASK"]


def test_git_has_what_people_began_with(report: Report, text: str) -> None:
    edited = text.replace("Reasoning about b/2.", "It is the zebra.")
    assert find_base(edited, (text, edited)) == text
    merged = merge_report(by_another_judge(report), edited, None, find_base(edited, (text, edited)))
    assert "> It is the zebra." in merged.text
    assert "Reasoning about a/1" not in merged.text


def test_what_was_edited_before_it_was_committed_is_not_what_people_began_with(report: Report, text: str) -> None:
    edited = text.replace("1. a/1: MODEL_FAULT", "1. a/1: KNOWN_GAP")
    assert find_base(edited, (edited,)) is None
    assert find_base(text, (render(replaced(report, evidence="sha256:00000002")), "no report")) is None


def test_a_failure_that_a_person_added_is_kept(report: Report, text: str) -> None:
    row = "| 5 | u/9 | tests | UNCLASSIFIED | new | why u/9 |"
    finding = "### 6. my/eval: KNOWN_GAP\n\nThe zebra.\n\n"
    edited = text.replace(row, f"{row}\n| 6 | my/eval | tests | KNOWN_GAP | new | stripes |")
    edited = edited.replace("## Patterns", f"{finding}## Patterns")
    for written in (text, None):
        merged = merge_report(report, edited, written)
        assert "Not among the failures that the source lists: my/eval (KNOWN_GAP)." in merged.text
        assert "> stripes" in merged.text
        assert "> The zebra." in merged.text


@pytest.mark.parametrize("known", [True, False])
def test_a_finding_that_was_taken_out_comes_back_with_a_word(report: Report, text: str, known: bool) -> None:
    finding = text[text.index("### 5. u/9") : text.index("## Patterns")]
    edited = text.replace(finding, "\n").replace("| 5 | u/9 | tests | UNCLASSIFIED | new | why u/9 |\n", "")
    assert len(parse(edited).entries) == 4
    assert merge_report(report, edited.replace("| tests | 7 |", "| tests | 6 |"), None).back == ("u/9",)
    assert merge_report(report, edited, text if known else None).back == ("u/9",)
    assert merge_report(report, text, None).back == ()


@pytest.mark.parametrize("known", [True, False])
def test_a_copy_whose_edits_are_all_ours_to_derive_is_not_left_out(report: Report, text: str, known: bool) -> None:
    """What only the other copy has must be there, also where the two united are our copy again."""
    ours = text.replace("## Patterns", "A remark.\n\n## Patterns")
    ours = merge_report(report, ours, text).text
    theirs = text.replace("| As run |", "| As zebra |")
    with pytest.raises(UnreadableReport, match="generated"):
        reconcile(ours, theirs, text if known else None)


@pytest.mark.parametrize("line", ["- Reviewers: we agree", "- Reviewer @ada: we agree", "- Reviewer Ada L: we agree"])
def test_reviewers_with_names_confirm(line: str, report: Report, text: str) -> None:
    edited = text.replace("- Seen: new\n", f"- Seen: new\n{line}\n", 1)
    (said,) = parse(edited).entries[0].reviewer
    assert said.endswith("we agree")
    assert line.partition(":")[0].removeprefix("- ").removeprefix("Reviewers").removeprefix("Reviewer ") in said


def test_front_matter_that_is_not_ours_says_which_and_where(report: Report, text: str) -> None:
    with pytest.raises(UnreadableReport, match=r"line 1: front matter, layout: Extra inputs are not permitted$"):
        merge_report(report, text.replace("revision: 1\n", "revision: 1\nlayout: post\n"), text)
