"""Citations in hostile answers and subjects, built to be slow or to crash."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalscribe.judging.citations import resolve_citations
from evalscribe.judging.subjects import Subject, agent_run_subject, failure_subject
from evalscribe.model.evidence import Document, Evidence
from evalscribe.model.run import Eval
from evalscribe.model.transcript import AgentRun, Transcript, UserMessage
from support.machine_speed import cpu_below

MEGABYTE = 1_000_000
PIECES = (
    *("[", "]", "T0B0", "R0M", ".a", "A0", ":", "<RANGE>", "</RANGE>", ",", " ", "\n", "output ", "a/[b]: c.py", "3-4"),
    *("failure", "one two", "🙂", "\x00", "\ud800", "\uffff", "T9B9", "M.", "\\", '"', "-5", "99999999999"),
)


def subject(*texts: str) -> Subject:
    messages = tuple(UserMessage(content=text) for text in texts)
    return agent_run_subject(AgentRun(metadata={"a": {"": [1]}}, transcripts=(Transcript(messages=messages),)))


SMALL = subject("one two\nthree", "[T0B0:<RANGE>one two</RANGE>]", "\x00\uffff\ud800", "")
DOCUMENTS = failure_subject(
    "r",
    Evidence(
        eval=Eval(id="e", category="a", name="b"),
        documents=tuple(
            Document(role="output", path=path, text="one two") for path in ("", "a/[b]: c.py", "a", "x" * 4000)
        ),
    ),
)


def read_twice(text: str, known: Subject) -> None:
    """Resolve the text as it is and with `</RANGE>]` appended."""
    assert resolve_citations(text, known).text == text
    assert resolve_citations(text + "</RANGE>]", known).text == text + "</RANGE>]"


@pytest.mark.benchmark
@pytest.mark.parametrize("piece", ["[", "[T0B0:<RANGE>", "[output a:"])
def test_megabyte_of_unclosed_citations_is_read_within_ten_seconds(piece: str) -> None:
    with cpu_below(10):
        read_twice(piece * (MEGABYTE // len(piece)), SMALL)


@pytest.mark.benchmark
@pytest.mark.parametrize(
    "piece",
    [
        *("[T0B0", "[T0B0:<RANGE>one", "[output ", "[output a/[", "[R0M.", "[R0M.a", "[T0B0, ", "[ ", "[output x["),
        *(":<RANGE>", "</RANGE>", "[T0B0:<RANGE></RANGE>", "T0B0]", "[A0;\n", "[output a\n", "[failure"),
        *("[output " + "x" * 390, "[R0M." + "a." * 190),
    ],
)
def test_repeated_citation_syntax_does_not_hang(piece: str) -> None:
    for known in (SMALL, DOCUMENTS):
        with cpu_below(3):
            read_twice(piece * (MEGABYTE // 20 // len(piece)), known)


@given(st.lists(st.sampled_from(PIECES), max_size=30))
@settings(max_examples=300)
def test_offsets_are_ordered_and_statuses_match_targets(pieces: list[str]) -> None:
    text = "".join(pieces)
    for known in (SMALL, DOCUMENTS):
        before = 0
        for citation in resolve_citations(text, known).citations:
            assert before <= citation.start_idx < citation.end_idx <= len(text)
            before = citation.end_idx
            assert (citation.target is None) == (citation.status == "unverified")
            if citation.target and citation.target.start_idx is not None:
                there = known.text_of(citation.target)
                assert there is not None
                assert there[citation.target.start_idx : citation.target.end_idx].split()
                assert citation.quote


@pytest.mark.benchmark
def test_hundred_citations_in_a_million_tokens_resolve_within_two_seconds() -> None:
    chance = random.Random(5)
    texts = [
        "\n".join(f"{chance.randrange(10**9)} some words  of a long log line {n}" for n in range(90))
        for _ in range(1000)
    ]
    known = subject(*texts)
    assert sum(map(len, texts)) > 3_800_000
    quotes = [chance.choice(texts[n * 10].split("\n")) for n in range(100)]
    answer = " ".join(
        f"[T0B{n * 10 if n % 3 else 7}:<RANGE>{quote if n % 5 else quote + ' x'}</RANGE>]"
        for n, quote in enumerate(quotes)
    )
    with cpu_below(2):
        statuses = [citation.status for citation in resolve_citations(answer, known).citations]
    assert statuses == ["unverified" if n % 5 == 0 else "verified" if n % 3 else "relocated" for n in range(100)]


@pytest.mark.benchmark
@pytest.mark.parametrize(
    ("text", "quote"),
    [
        ("a" * 4 * MEGABYTE, "a" * 10_000),
        ("a " * 2 * MEGABYTE, "a " * 9_000 + "b"),
        ("port1 " * (MEGABYTE // 2), "port"),
        (" " * 4 * MEGABYTE, "one two"),
        ("\n \n" * MEGABYTE, "one\ntwo"),
        ("\x1b[" * MEGABYTE, "one two"),
        ("\x1b[1" * MEGABYTE, "one two"),
        ("a  b" * MEGABYTE, "b  a"),
        ("x" * MEGABYTE + " one two", "one two" + " " * MEGABYTE),
    ],
)
def test_repetitive_text_does_not_hang_the_search(text: str, quote: str) -> None:
    with cpu_below(6):
        (citation,) = resolve_citations(f"[T0B0:<RANGE>{quote}</RANGE>]", subject("nothing", text)).citations
    assert citation.status in ("relocated", "unverified")


@pytest.mark.benchmark
def test_ambiguous_metadata_path_does_not_hang() -> None:
    nested: dict[str, object] = {}
    for _ in range(13):
        nested = {"a": nested, "a.a": nested}
    run = AgentRun(metadata={"x": nested}, transcripts=(Transcript(),))
    with cpu_below(2):
        (citation,) = resolve_citations(f"[R0M.x{'.a' * 40}]", agent_run_subject(run)).citations
    assert citation.status == "unverified"
