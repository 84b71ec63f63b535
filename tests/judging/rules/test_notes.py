"""Parsing the notes of a known-gaps document."""

import pytest

from evalscribe.judging.rules.code import GapNote, parse_notes
from evalscribe.model.evidence import Document


def read(text: str) -> list[str]:
    return [note.text for note in parse_notes((Document(role="known_gaps", path="GAPS.txt", text=text),))]


@pytest.mark.parametrize(
    "text",
    [
        "queries, pages:\n\n",
        "a, b:\n\n- None for now 👏",
        "# Gaps",
        "",
        "- n/a",
        "a:\n- It got it! No help needed.",
        "a:\n- (resolved) The rule was dropped.",
    ],
)
def test_text_without_a_gap_has_no_notes(text: str) -> None:
    assert read(text) == []


def test_praise_with_a_reservation_is_a_note() -> None:
    assert read("- It does a good job, looks great, but `map` is flagged") != []


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("lacks `splitCursor` or `pageStatus`", {"splitCursor", "pageStatus"}),
        ('Doesn\'t know about "use node"', {"use node"}),
        ("maybe-dumb lint: @typescript-eslint/no-misused-promises", {"@typescript-eslint/no-misused-promises"}),
        ("ANN401 fires on every loader", {"ANN401"}),
        ("PaginationOpts are a custom object", {"PaginationOpts"}),
        ("It is trying to store a file from a mutation", set()),
        ("isn't installing @types/node", {"@types/node"}),
    ],
)
def test_terms_are_quoted_or_spelled_like_code(text: str, terms: set[str]) -> None:
    assert set(note(text).terms) == terms


def test_note_holds_missing_and_preferred_terms() -> None:
    installing = note("Isn't installing `@types/node` to access `process.env`")
    assert installing.missing == ("@types/node",)
    assert note("uses `.impl` instead of a helper function.").preferred == "helper function"


def note(text: str) -> GapNote:
    return GapNote(Document(role="known_gaps", path="GAPS.txt", text=text), 1, text)
