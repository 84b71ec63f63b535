"""Merging in a clone whose store lacks the page as evalscribe wrote it; no text of a person is lost silently."""

import pytest

from evalscribe.model.report import Report, replaced
from evalscribe.reports.page import page_digest
from evalscribe.reports.page_edits import UnmergedEdits
from support.edited_reports import corrected, entry_of, page_of, rewrite


@pytest.fixture
def text(report: Report) -> str:
    """Page of another version of evalscribe, whose digest no current rendering has."""
    return page_of(report).replace("written: sha256:", "written: sha256:00")


def test_labels_reviewers_notes_and_actions_are_read(report: Report, text: str) -> None:
    edited = corrected(text, 1, "KNOWN_GAP").replace("\n### 2. b/2", "\n\nA remark.\nReviewer: Ada\n\n### 2. b/2")
    edited = edited.replace("## Actions taken\nNone.", "## Actions taken\n- R1: done")
    merged = rewrite(report, edited, report)
    entry = entry_of(merged.report, "a/1")
    assert (entry.classification, entry.reviewer, entry.notes) == ("KNOWN_GAP", ("Ada",), ("A remark.",))
    assert merged.report.actions_taken == "- R1: done"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("why a/1", "zebra"),
        ("`Error in b/2`", "`zebra`"),
        ("Reasoning about b/2.", "It is the zebra."),
        ("why c/3", "zebra"),
        ("call('a/1')", "zebra()"),
        ("- **Lint decides**", "- **Zebra decides**"),
        ("Mend c", "Mend the zebra"),
        ("The model's own", "The zebra's own"),
        ("# m-1: 7", "# m-1, the zebra: 7"),
        ("experiment default", "experiment zebra"),
        ("5 passed", "6 passed"),
        ("| Effect |", "| Zebra |"),
        ("As run", "As zebra"),
    ],
)
def test_edit_of_a_generated_line_is_refused_with_its_line(before: str, after: str, report: Report, text: str) -> None:
    edited = text.replace(before, after, 1)
    assert edited != text
    pairs = zip(text.split("\n"), edited.split("\n"), strict=True)
    line = next(at for at, (old, new) in enumerate(pairs, 1) if old != new)
    with pytest.raises(UnmergedEdits, match=rf"git has the page as it was written: lines? {line}\b"):
        rewrite(report, edited, report)


def test_edits_of_generated_lines_are_merged_if_git_has_the_original_page(report: Report) -> None:
    text = page_of(report).replace("As run ", "As it ran ")
    digest = next(line for line in text.split("\n") if line.startswith("written: "))
    text = text.replace(digest, f"written: {page_digest(text)}")
    edited = text.replace("Reasoning about b/2.", "It is the zebra.")
    merged = rewrite(report, edited, report, "no report", edited, text)
    assert "It is the zebra." in merged.text
    assert "As run " in merged.text


def test_finding_added_by_a_person_is_kept(report: Report) -> None:
    text = page_of(report)
    finding = "### 6. my/eval\n**KNOWN_GAP** · mine\n\nThe zebra.\n\n"
    edited = text.replace("## Patterns", f"{finding}## Patterns")
    new = replaced(report, recommendations=())
    merged = rewrite(new, edited, report)
    assert finding.strip() in merged.text
    assert len(merged.report.entries) == 5
    assert not rewrite(new, merged.text, merged.report).changed


@pytest.mark.parametrize("line", ["- Reviewers: we agree", "- Reviewer @ada: we agree", "- Reviewer Ada L: we agree"])
def test_reviewer_line_with_a_name_is_read(line: str, report: Report, text: str) -> None:
    edited = text.replace("\n- Error: `Error in a/1`", f"\n{line}\n\n- Error: `Error in a/1`", 1)
    assert edited != text
    (reviewer,) = entry_of(rewrite(report, edited, report).report, "a/1").reviewer
    assert reviewer.endswith("we agree")
    assert line.partition(":")[0].removeprefix("- ").removeprefix("Reviewers").removeprefix("Reviewer ") in reviewer
