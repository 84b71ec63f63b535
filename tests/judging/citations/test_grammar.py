"""Citation syntax: what each form resolves to, and what stays unverified."""

import pytest

from evalscribe.judging.citations import resolve_citations
from evalscribe.judging.subjects import Subject, agent_run_subject, failure_subject
from evalscribe.model.evidence import Document, Evidence
from evalscribe.model.finding import Precedent
from evalscribe.model.result import JudgeResult, ResolvedCitation, ResultType
from evalscribe.model.run import Eval
from evalscribe.model.transcript import (
    AgentRun,
    AssistantMessage,
    ToolMessage,
    Transcript,
    TranscriptToolCall,
    UserMessage,
)

EARLIER = JudgeResult(
    id="result-1",
    agent_run_id="run",
    rubric_id="rub",
    rubric_version=1,
    output={"label": "bad", "why": "the port was never opened\nby the server"},
    result_type=ResultType.DIRECT_RESULT,
    judge="a/b",
)
RUN = AgentRun(
    id="run",
    metadata={
        "scores": {"reward": 0.25, "by": [{"name": "exact match"}]},
        "odd.key": {"a]b, c": "odd value here"},
        "trace": 'Traceback:\n  ValueError: no "port" given',
    },
    transcripts=(
        Transcript(
            id="t0",
            metadata={"seed": 4711},
            messages=(
                UserMessage(content="Which port is used?\nSay it [now]."),
                AssistantMessage(
                    content="It is port 35076, 🙂 I think.",
                    reasoning="The user wants a port.",
                    tool_calls=(TranscriptToolCall(id="c", function="look_up", arguments={"name": "server.port"}),),
                ),
                ToolMessage(content="35076", error="took too long", metadata={"ms": 12}),
            ),
        ),
        Transcript(id="t1", messages=(UserMessage(content="Another one: which host is used?"),)),
    ),
)
SUBJECT = agent_run_subject(RUN, [EARLIER])
CODE = "import os\n\ndef main(port):\n    host = 'localhost'\n    return host, port\n"
FAILED = failure_subject(
    "run",
    Evidence(
        eval=Eval(id="e", category="basics", name="003", failed_step="tests", reason="Tests failed: 2 of 3"),
        documents=(
            Document(role="output", path="src/main.py", text=CODE),
            Document(role="expected", path="src/main.py", text=CODE.replace("localhost", "0.0.0.0")),
            Document(role="output", path="a b/[id]: 3-4, x.py", text="one two\nthree four\n"),
            Document(role="output", path="bad\npath", text="five six\n"),
            Document(role="log", path="run.log", text="\x1b[31mTypeError\x1b[0m: every() needs\r\n\targs  given\r\n"),
        ),
    ),
    [Precedent(report="old.md", eval="003", by_person=True, reasoning="the grader asks port + 1")],
)


def only(text: str, subject: Subject = SUBJECT) -> ResolvedCitation:
    cited = resolve_citations(text, subject)
    assert cited.text == text
    (citation,) = cited.citations
    return citation


def quoted(citation: ResolvedCitation, subject: Subject = SUBJECT) -> str | None:
    """Return the text at the target of a citation."""
    assert citation.target is not None
    text = subject.text_of(citation.target)
    assert text is not None
    return None if citation.target.start_idx is None else text[citation.target.start_idx : citation.target.end_idx]


@pytest.mark.parametrize(
    ("mark", "kind"),
    [
        ("T0B1", "block"),
        ("T1B0", "block"),
        ("R0M", "metadata"),
        ("T0M", "metadata"),
        ("T0B2M", "metadata"),
        ("R0M.scores", "metadata"),
        ("R0M.scores.reward", "metadata"),
        ("R0M.scores.by.0.name", "metadata"),
        ("R0M.scores.by[0].name", "metadata"),
        ("R0M.odd.key", "metadata"),
        ("R0M.odd.key.a]b, c", "metadata"),
        ("T0M.seed", "metadata"),
        ("T0B2M.ms", "metadata"),
        ("A0", "result"),
    ],
)
def test_existing_mark_is_verified(mark: str, kind: str) -> None:
    citation = only(f"So [{mark}] says.")
    assert (citation.status, citation.start_idx, citation.end_idx) == ("verified", 3, 5 + len(mark))
    assert citation.target is not None
    assert (citation.target.kind, citation.target.item) == (kind, mark)
    assert citation.target.start_idx is None


@pytest.mark.parametrize(
    "mark",
    [
        *("T0B99", "T7B0", "T0B0M", "T1M", "R1M", "A1", "P0", "T0", "R0"),
        *("R0M.missing", "R0M.scores.rewar", "R0M.scores.reward.x", "R0M.scores.by.1", "R0M.", "T0M.seed.0"),
        *("T0B1-T0B2", "T0B1:3-5", "T0B1 to T0B2", "T0B1.content", "T00B1"),
        *("output src/main.py:3", "log x:1", "task TASK.txt", "T999999999B1"),
    ],
)
def test_unknown_mark_is_reported_as_unverified(mark: str) -> None:
    citation = only(f"So [{mark}] says.")
    assert (citation.status, citation.target, citation.quote) == ("unverified", None, None)
    assert f"So [{mark}] says."[citation.start_idx : citation.end_idx] == f"[{mark}]"


@pytest.mark.parametrize(
    "text",
    [
        *("", "[", "[]", "a[0] and [1, 2]", "[see above]", "[t0b1]", "[T0B1x]", "List[T1x]", "[output omitted]"),
        *(
            "[log truncated]",
            "[task 3]",
            "T0B1",
            "(T0B1)",
            "[R2D2]",
            "[A1:C3]",
            "[failure]",
            "[x](T0B1)",
            "[output of a]",
        ),
    ],
)
def test_brackets_without_a_citation_are_ignored(text: str) -> None:
    assert resolve_citations(text, SUBJECT).citations == ()


@pytest.mark.parametrize(
    ("mark", "quote", "really"),
    [
        ("T0B0", "Which port is used?", None),
        ("T0B0", "Which   port\tis used?\n\nSay it", "Which port is used?\nSay it"),
        ("T0B0", "Say it [now].", None),
        ("T0B1", "port 35076, 🙂 I think", None),
        ("T0B1", "The user wants", None),
        ("T0B1", "name: server.port", None),
        ("T0B2", "took too long", None),
        ("R0M", '"reward": 0.25', None),
        ("R0M.scores.reward", "0.25", None),
        ("R0M.trace", 'ValueError: no "port" given', None),
        ("R0M.trace", 'Traceback:\nValueError: no "port"', 'Traceback:\n  ValueError: no "port"'),
        ("R0M.odd.key.a]b, c", "odd value", None),
        ("A0", "the port was never opened", None),
    ],
)
def test_existing_quotation_is_verified_with_its_span(mark: str, quote: str, really: str | None) -> None:
    citation = only(f"[{mark}:<RANGE>{quote}</RANGE>]")
    assert (citation.status, citation.quote) == ("verified", quote)
    assert quoted(citation) == (really or quote)


@pytest.mark.parametrize(
    ("mark", "quote"),
    [
        ("T0B0", "Which port is used? Say it"),
        ("T0B0", "which port is used?"),
        ("T0B1", "port 350"),
        ("T0B1", "role: assistant"),
        ("T0B1", "T0B1"),
        ("T0B1", "reasoning"),
        ("T0B1", "The user wants a port.\nIt is port"),
        ("T0B0", "It"),
        ("T0B0", ""),
        ("T0B0", "   "),
        ("T0B0", "..."),
        ("T0B0", "Cite what you rely on"),
        ("T0B1", "port was never opened"),
        ("T9B9", "port was never opened"),
        ("R0M.scores.reward", "0.2"),
    ],
)
def test_quotation_found_nowhere_is_unverified(mark: str, quote: str) -> None:
    citation = only(f"[{mark}:<RANGE>{quote}</RANGE>]")
    assert (citation.status, citation.target, citation.quote) == ("unverified", None, quote)


@pytest.mark.parametrize(
    ("mark", "quote", "item"),
    [
        ("T0B0", "which host is used", "T1B0"),
        ("T1B0", "took too long", "T0B2"),
        ("T9B9", "took too long", "T0B2"),
        ("R0M.scores", "took too long", "T0B2"),
        ("R0M.missing", "exact match", "R0M"),
        ("A0", "port 35076", "T0B1"),
        ("T0B2", "port 35076", "T0B1"),
    ],
)
def test_quotation_of_another_item_is_relocated_to_it(mark: str, quote: str, item: str) -> None:
    citation = only(f"[{mark}:<RANGE>{quote}</RANGE>]")
    assert citation.status == "relocated"
    assert citation.target is not None
    assert citation.target.item == item
    assert quoted(citation) == quote


def test_targets_carry_the_ids_of_the_run() -> None:
    block = only("[T1B0]").target
    assert block is not None
    assert (block.agent_run_id, block.transcript_id, block.block_idx) == ("run", "t1", 0)
    value = only("[T0B2M.ms]").target
    assert value is not None
    assert (value.transcript_id, value.block_idx, value.metadata_key) == ("t0", 2, "ms")
    result = only("[A0]").target
    assert result is not None
    assert result.result_id == "result-1"


def test_offsets_are_code_points_of_the_citing_text() -> None:
    text = "🙂🙂 [T0B0], é [T0B1:<RANGE>It is</RANGE>]"
    assert [text[c.start_idx : c.end_idx] for c in resolve_citations(text, SUBJECT).citations] == [
        "[T0B0]",
        "[T0B1:<RANGE>It is</RANGE>]",
    ]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("[T0B0, T0B1]", [("[T0B0", "verified"), ("T0B1]", "verified")]),
        ("[T0B0; T9B1 , A0]", [("[T0B0", "verified"), ("T9B1", "unverified"), ("A0]", "verified")]),
        (
            "[T0B0:<RANGE>Say it</RANGE>, T0B1:<RANGE>Say so</RANGE>]",
            [("[T0B0:<RANGE>Say it</RANGE>", "verified"), ("T0B1:<RANGE>Say so</RANGE>]", "unverified")],
        ),
        ("[R0M.scores.reward, T0B0]", [("[R0M.scores.reward", "verified"), ("T0B0]", "verified")]),
        ("[R0M.none, T0B0]", [("[R0M.none", "unverified"), ("T0B0]", "verified")]),
        ("[T0B0, see above]", [("[T0B0", "verified")]),
        ("[T0B0:<RANGE>Say it", [("[T0B0:<RANGE>", "unverified")]),
        (
            "[T0B0:<RANGE>Say it] [T0B1:<RANGE>I think</RANGE>]",
            [("[T0B0:<RANGE>", "unverified"), ("[T0B1:<RANGE>I think</RANGE>]", "verified")],
        ),
        ("[T0B0:<RANGE>Say it</RANGE>", [("[T0B0:<RANGE>Say it</RANGE>", "verified")]),
        ("[T0B0: <RANGE>Say it</RANGE>]", [("[T0B0: <RANGE>Say it</RANGE>]", "verified")]),
        ("[[T0B0]]", [("[T0B0]", "verified")]),
    ],
)
def test_several_citations_in_one_bracket_and_unclosed_ones_are_parsed(text: str, parts: list[tuple[str, str]]) -> None:
    citations = resolve_citations(text, SUBJECT).citations
    assert [(text[c.start_idx : c.end_idx], c.status) for c in citations] == parts


@pytest.mark.parametrize(
    ("text", "status", "lines"),
    [
        ("[output src/main.py:3-5]", "verified", (3, 5)),
        ("[output src/main.py:3]", "verified", (3, 3)),
        ("[output src/main.py:3\u20135]", "verified", (3, 5)),
        ("[output src/main.py]", "verified", (None, None)),
        ("[output src/main.py:3-99]", "unverified", None),
        ("[output src/main.py:5-3]", "unverified", None),
        ("[output src/main.py:0]", "unverified", None),
        ("[output src/nope.py:1]", "unverified", None),
        ("[grader src/main.py:1]", "unverified", None),
        ("[output src/main.py:4:<RANGE>host = 'localhost'</RANGE>]", "verified", (4, 4)),
        ("[output src/main.py:3-5:<RANGE>return host, port</RANGE>]", "verified", (5, 5)),
        ("[output src/main.py:3-4:<RANGE>def main(port):\nhost =</RANGE>]", "verified", (3, 4)),
        ("[output src/main.py:1:<RANGE>return host, port</RANGE>]", "relocated", (5, 5)),
        ("[output src/main.py:4-99:<RANGE>return host, port</RANGE>]", "relocated", (5, 5)),
        ("[output src/main.py:<RANGE>return host, port</RANGE>]", "verified", (5, 5)),
        ("[output src/main.py:4:<RANGE>host = '0.0.0.0'</RANGE>]", "relocated", (4, 4)),
        ("[output src/main.py:4:<RANGE>4| host = 'localhost'</RANGE>]", "unverified", None),
        ("[output src/main.py:4:<RANGE>host = 'localhos'</RANGE>]", "unverified", None),
        ("[output a b/[id]: 3-4, x.py:1-2]", "verified", (1, 2)),
        ("[output a b/[id]: 3-4, x.py:2:<RANGE>three four</RANGE>]", "verified", (2, 2)),
        ('[output "a b/[id]: 3-4, x.py":2]', "verified", (2, 2)),
        ('[output "bad\\npath":1:<RANGE>five six</RANGE>]', "verified", (1, 1)),
        ("[log run.log:1:<RANGE>TypeError: every() needs</RANGE>]", "verified", (1, 1)),
        ("[log run.log:1:<RANGE>\ufffd[31mTypeError\ufffd[0m: every() needs</RANGE>]", "verified", (1, 1)),
        ("[log run.log:1-2:<RANGE>every() needs\nargs given</RANGE>]", "verified", (1, 2)),
        ("[failure]", "verified", (None, None)),
        ("[failure:<RANGE>Tests failed: 2 of 3</RANGE>]", "verified", (None, None)),
        ("[failure:<RANGE>recorded reason</RANGE>]", "unverified", None),
        ("[P0:<RANGE>the grader asks port + 1</RANGE>]", "verified", (None, None)),
    ],
)
def test_document_citation_resolves_to_its_lines(
    text: str, status: str, lines: tuple[int | None, int | None] | None
) -> None:
    citation = only(text, FAILED)
    assert citation.status == status
    assert (citation.start_idx, citation.end_idx) == (0, len(text))
    assert (citation.target and (citation.target.first, citation.target.last)) == lines


def test_comma_separated_lines_of_a_document_are_separate_citations() -> None:
    cited = resolve_citations("[output src/main.py:3, 5-6, 99; expected src/main.py:1]", FAILED)
    assert [c.target and (c.target.role, c.target.first, c.target.last) for c in cited.citations] == [
        ("output", 3, 3),
        ("output", 5, 6),
        None,
        ("expected", 1, 1),
    ]


def test_relocation_chooses_the_nearest_line_of_a_document() -> None:
    text = "\n".join(["x = call(1)" if n % 10 == 0 else f"line {n}" for n in range(100)])
    known = failure_subject(
        "r",
        Evidence(eval=Eval(id="e", category="a", name="b"), documents=(Document(role="log", path="l", text=text),)),
    )
    citation = only("[log l:44-45:<RANGE>x = call(1)</RANGE>]", known)
    assert citation.status == "relocated"
    assert citation.target is not None
    assert citation.target.first == 41
