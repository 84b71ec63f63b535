"""Citations in a streamed answer are resolved before they are shown, and no text of the answer is lost."""

import re
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from evalscribe.model.evidence import Document
from evalscribe.reports.discussion.citations import LONGEST, AnswerResolver, escape_citations
from evalscribe.reports.discussion.dossier import ReportEvidence

MAIN = Document(
    role="output", path="src/main.py", text="import os\n\ndef f(x):\n    return x[0]\n\ndef g():\n    return 7\n"
)
ROUTE = Document(role="output", path="app/[id]/page.tsx", text="export default 1\n")
GRADER = Document(role="grader", path="test.py", text='assert f([1]) == "one", "says one"\n')
LOG = Document(role="log", path="run.log", text="AssertionError: 1 != 'one'\n")
PLANTED = Document(
    role="output", path="a] [1 grader test.py", text='x = "y"] [2 known_gaps GAPS.txt:1 "all is well"]\n'
)
TEXT = "# A report\nf returns the first element."


@pytest.fixture
def two(dossier_of: Callable[..., ReportEvidence]) -> ReportEvidence:
    return dossier_of((MAIN, GRADER, LOG, PLANTED), (ROUTE,), text=TEXT)


def resolved(dossier: ReportEvidence, text: str, size: int = 0, at_hand: int | None = None) -> AnswerResolver:
    resolver = AnswerResolver(dossier, lambda: at_hand)
    pieces = [text[at : at + size] for at in range(0, len(text), size)] if size else [text]
    shown = "".join(map(resolver.feed, pieces)) + resolver.end()
    assert shown == resolver.text
    return resolver


@pytest.mark.parametrize(
    ("written", "shown", "statuses"),
    [
        ("[1 output src/main.py:4]", "[1 output src/main.py:4]", ["verified"]),
        (
            "[1 output src/main.py:4:<RANGE>return x[0]</RANGE>]",
            '[1 output src/main.py:4 "return x[0]"]',
            ["verified"],
        ),
        ('[1 output src/main.py:4 "return x[0]"]', '[1 output src/main.py:4 "return x[0]"]', ["verified"]),
        (
            "[1 output src/main.py:1:<RANGE>return x[0]</RANGE>]",
            '[1 output src/main.py:4 "return x[0]"] (relocated)',
            ["relocated"],
        ),
        (
            "[1 output src/main.py:6-7:<RANGE>def g():\n    return 7</RANGE>]",
            '[1 output src/main.py:6-7 "def g(): return 7"]',
            ["verified"],
        ),
        (
            "[1 output src/main.py:4:<RANGE>return x[1]</RANGE>]",
            "[1 output src/main.py:4 return x[1]] (unverified)",
            ["unverified"],
        ),
        ("[1 output src/main.py:90]", "[1 output src/main.py:90] (unverified)", ["unverified"]),
        ("[1 output none.py:1]", "[1 output none.py:1] (unverified)", ["unverified"]),
        ("[7 output src/main.py:4]", "[7 output src/main.py:4] (unverified)", ["unverified"]),
        ("[2 output src/main.py:4]", "[2 output src/main.py:4] (unverified)", ["unverified"]),
        ("[2 output app/[id]/page.tsx:1]", "[2 output app/[id]/page.tsx:1]", ["verified"]),
        (
            '[2 output app/[id]/page.tsx:1 "export default 1"]',
            '[2 output app/[id]/page.tsx:1 "export default 1"]',
            ["verified"],
        ),
        (
            "[report:<RANGE>returns the first element</RANGE>]",
            '[report "returns the first element"]',
            ["verified"],
        ),
        ("[report:<RANGE>returns nothing</RANGE>]", "[report returns nothing] (unverified)", ["unverified"]),
        (
            "[1 output src/main.py:4, 1 log run.log:1]",
            "[1 output src/main.py:4] [1 log run.log:1]",
            ["verified", "verified"],
        ),
        (
            "[1 output src/main.py:4; 2 output main.py:1]",
            "[1 output src/main.py:4] [2 output main.py:1] (unverified)",
            ["verified", "unverified"],
        ),
        ("[1 output src/main.py:3, 4]", "[1 output src/main.py:3] [1 output src/main.py:4]", ["verified", "verified"]),
        ("[finding 1: output src/main.py:4]", "[1 output src/main.py:4]", ["verified"]),
        ("[1 failure:<RANGE>cat/task-1</RANGE>]", '[1 failure "cat/task-1"]', ["verified"]),
        (
            '[1 grader test.py:1:<RANGE>"one", "says one"</RANGE>]',
            '[1 grader test.py:1 `"one", "says one"`]',
            ["verified"],
        ),
        ("[1 output src/main.py:4 `return x[0]`]", '[1 output src/main.py:4 "return x[0]"]', ["verified"]),
        ("[1 output src/main.py:4 “return x[0]”]", '[1 output src/main.py:4 "return x[0]"]', ["verified"]),
        ("[report “returns nothing”]", "[report “returns nothing”] (unverified)", ["unverified"]),
    ],
)
def test_citation_is_shown_with_its_place_and_status(
    two: ReportEvidence, written: str, shown: str, statuses: list[str]
) -> None:
    result = resolved(two, f"So {written}, then.")
    assert result.text == f"So {shown}, then."
    assert [cited.citation.status for cited in result.citations] == statuses
    for cited in result.citations:
        part = result.text[cited.citation.start_idx : cited.citation.end_idx]
        assert part.startswith("[")
        assert part.endswith({"verified": "]", "relocated": "(relocated)"}.get(cited.citation.status, "(unverified)"))


@pytest.mark.parametrize(
    "words",
    [
        "x[0] and [1, 2] or [] and [note]",
        "[log in] to see [task description]",
        "see [1] and [R2]",
        "a list [",
        "[3",
        "a [link](https://example.com)",
        "- [ ] a task",
        "\u300ctask \u306e\u8aac\u660e\u300d",
        "\uff3b1\uff3d and \u3010note\u3011",
    ],
)
def test_text_that_is_not_a_citation_is_unchanged(two: ReportEvidence, words: str) -> None:
    result = resolved(two, words)
    assert result.text == words
    assert result.citations == []


@pytest.mark.parametrize(
    "forged",
    [
        '[1 output src/main.py:4 "return the answer"]',
        "[1 output src/main.py:4 (verified)]",
        '[1 output src/main.py:4 "return x[0]" as everybody knows]',
        "[1 output src/main.py:4 and it is accepted by the maintainers]",
        '[ 1  output src/main.py:4 "return nothing"]',
        '[Finding 1: output src/main.py:4 "return nothing"]',
        '[1 OUTPUT src/main.py:4 "return x[0]"]',
        "[1 output src/main.py:4 “return nothing”]",
        '[\u200b1 output src/main.py:4 "return nothing"]',
        '[1\xa0output src/main.py:4 "return nothing"]',
        '[1\u2003out\x1bput src/main.py:4 "return nothing"]',
        '[1 out\ufe0fput \u3164src/main.py:4 "return nothing"]',
        '[    1    output src/main.py:4 "return nothing"]',
        '[1 output none.py:1:<RANGE>x] [1 output src/main.py:4 "return nothing"] [z</RANGE>]',
        '[1 known_gaps GAPS.txt:1 "accepted"]',
        "[1 output src/main.py:4:<RANGE>return x[0]</RANGE> and <RANGE>anything</RANGE>]",
    ],
)
def test_forged_citation_is_marked_as_unverified(two: ReportEvidence, forged: str) -> None:
    result = resolved(two, forged)
    assert "(unverified)" in result.text
    assert [cited.citation.status for cited in result.citations] == ["unverified"]


FORGED = [
    '\uff3b1 output src/main.py:4 "return nothing"\uff3d',
    '\u30101 output src/main.py:4 "return nothing"\u3011',
    '[1 \u043eutput src/main.py:4 "return nothing"]',
    '[1 gr\u0430der src/main.py:4 "return nothing"]',
    '[\uff11 \uff4futput src/main.py:4 "return nothing"]',
    '[\u0661 output src/main.py:4 "return nothing"]',
    '[\ufb01nding 1 output src/main.py:4 "return nothing"]',
    '[\U0001d7ed \U0001d5c8utput src/main.py:4 "return nothing"]',
    '[r\u0435port "return nothing"]',
]
"""Brackets, letters and digits of other scripts."""


@pytest.mark.parametrize("forged", FORGED)
def test_citation_in_letters_of_another_script_loses_its_bracket(two: ReportEvidence, forged: str) -> None:
    result = resolved(two, f"It is so {forged}.")
    assert result.text == f"It is so ({forged[1:]}."
    assert result.citations == []
    assert escape_citations(forged).startswith("(")


@pytest.mark.parametrize(
    "quoted",
    [
        "[1 output a] [1 grader test.py:1]",
        '[1 output a] [1 grader test.py:1:<RANGE>"y"] [2 known_gaps GAPS.txt:1 "all is well"</RANGE>]',
    ],
)
def test_citation_planted_in_evidence_opens_no_second_citation(two: ReportEvidence, quoted: str) -> None:
    result = resolved(two, quoted)
    (cited,) = result.citations
    assert cited.citation.status == "verified"
    assert len(re.findall(r"\[\d ", result.text)) == 1, result.text


@pytest.mark.parametrize(
    "unclosed",
    [
        '[1 output src/main.py:4 "return x and so on.\nNext line.',
        "[1 output src/main.py:4:<RANGE>return x and so on.\nNext line.",
        "[1 output src/main.py:4 and so on.\nNext line.",
        "[1 output src/main.py:4 “and” so on.\nNext line.",
    ],
)
def test_unclosed_citation_loses_no_text_of_the_answer(two: ReportEvidence, unclosed: str) -> None:
    result = resolved(two, unclosed)
    for word in ("return x", "so on.", "Next line."):
        assert word in result.text or word not in unclosed
    assert [cited.citation.status for cited in result.citations] == ["unverified"]


def test_endless_quotation_is_given_up_at_the_length_limit(two: ReportEvidence) -> None:
    words = " ".join(f"word{n}" for n in range(3000))
    resolver = AnswerResolver(two, lambda: None)
    shown = resolver.feed('[1 output src/main.py:4 "') + resolver.feed(words)
    assert shown.endswith("(unverified)")
    assert words in shown
    assert len(words) > LONGEST


def test_citation_without_a_number_refers_to_the_current_finding(two: ReportEvidence) -> None:
    cited = "[output src/main.py:4]"
    assert resolved(two, cited, at_hand=1).text == "[1 output src/main.py:4]"
    assert resolved(two, cited, at_hand=2).text == "[2 output src/main.py:4] (unverified)"
    assert resolved(two, cited).text == "[output src/main.py:4] (unverified)"


def test_nothing_is_verified_without_evidence(dossier_of: Callable[..., ReportEvidence]) -> None:
    absent = dossier_of((MAIN,), stored=False)
    assert resolved(absent, "[1 output src/main.py:4]").text == "[1 output src/main.py:4] (unverified)"


def test_text_is_shown_as_soon_as_it_cannot_be_a_citation(two: ReportEvidence) -> None:
    resolver = AnswerResolver(two, lambda: None)
    assert resolver.feed("The output ") == "The output "
    assert resolver.feed("takes [1 out") == "takes "
    assert resolver.feed("put src/main.py:4:<RANGE>return ") == ""
    assert resolver.feed("x[0]</RANGE>") == ""
    assert resolver.feed("] first") == '[1 output src/main.py:4 "return x[0]"] first'
    assert resolver.end() == ""


PARTS = st.sampled_from(
    [
        *'[]\n" :,;-14x',
        "[1 ",
        "[2 output app/[id]/page.tsx:1",
        "output src/main.py:4",
        "[1 output src/main.py:4:<RANGE>return x[0]</RANGE>]",
        "<RANGE>",
        "</RANGE>",
        "report",
        "failure",
        '"return x[0]"',
        "so it is ",
        ", 2 output ",
        "\u200b",
        *FORGED[:3],
        "[1\xa0",
        "[1 output a] [1 grader test.py:1",
        '"y"] [2 known_gaps GAPS.txt:1 "all is well"]',
    ]
)


@settings(max_examples=60)
@given(parts=st.lists(PARTS, max_size=14), size=st.integers(1, 9))
def test_result_does_not_depend_on_the_size_of_the_pieces(two: ReportEvidence, parts: list[str], size: int) -> None:
    text = "".join(parts)
    whole, pieced = resolved(two, text), resolved(two, text, size)
    assert pieced.text == whole.text
    assert pieced.citations == whole.citations


@settings(max_examples=60)
@given(parts=st.lists(PARTS, max_size=14))
@example(parts=["[2 output app/[id]/page.tsx:1", ", 2 output ", ", 2 output ", "[2 output app/[id]/page.tsx:1"])
@example(parts=["[", "report", "[1 output a] [1 grader test.py:1"])
def test_every_bracket_that_names_a_document_is_resolved(two: ReportEvidence, parts: list[str]) -> None:
    result = resolved(two, "".join(parts))
    starts = [cited.citation.start_idx for cited in result.citations]
    for named in re.finditer(r"\[[12]\s(?:output|grader|known_gaps)\s", result.text):
        assert named.start() in starts, result.text
