"""Quotations: whitespace and line numbers may differ, but a near miss is never verified."""

import random
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from evalscribe.judging import quotations
from evalscribe.model.evidence import Citation, Document, Evidence
from evalscribe.model.run import Eval
from support.real_runs import failures

CODE = """\
export const list = query({
  args: { limit: v.number() },

  handler: async (ctx, args) => {
    if (!args.limit || args.limit > 100) {
      throw new Error("limit must not exceed 100");
    }
    return await ctx.db.query("posts").take(args.limit);
  },
});"""


def evidence(text: str = CODE, other: str = "const elsewhere = 1;") -> Evidence:
    documents = (
        Document(role="output", path="src/list.ts", text=text),
        Document(role="output", path="src/other.ts", text=other),
        Document(role="expected", path="src/list.ts", text="const expected = 2;"),
    )
    return Evidence(eval=Eval(id="e1", category="c", name="n"), documents=documents)


def claim(text: str, first: int, last: int, path: str = "src/list.ts") -> Citation:
    return Citation(role="output", path=path, first=first, last=last, text=text)


def lines(first: int, last: int, text: str = CODE) -> str:
    return "\n".join(text.split("\n")[first - 1 : last])


def test_exact_quotation_is_verified() -> None:
    assert quotations.verify_citation(claim(lines(5, 7), 5, 7), evidence()) == claim(lines(5, 7), 5, 7).model_copy(
        update={"status": "verified"}
    )


@pytest.mark.parametrize(
    "text",
    [
        "if (!args.limit || args.limit > 100) {",
        "\t\tif (!args.limit  ||   args.limit > 100) {  ",
        "\nif (!args.limit || args.limit > 100) {\r\n",
    ],
    ids=["without indentation", "tabs and blanks", "blank lines around"],
)
def test_whitespace_may_differ_and_the_document_text_is_returned(text: str) -> None:
    citation = quotations.verify_citation(claim(text, 5, 5), evidence())
    assert (citation.status, citation.text) == ("verified", lines(5, 5))


def test_shifted_lines_are_relocated() -> None:
    citation = quotations.verify_citation(claim(lines(5, 7), 25, 27), evidence())
    assert (citation.status, citation.first, citation.last, citation.text) == ("relocated", 5, 7, lines(5, 7))


def test_nearest_of_several_matches_is_chosen() -> None:
    citation = quotations.verify_citation(claim("}", 9, 9), evidence("}\nx\n}\ny\ny\ny\n}"))
    assert (citation.status, citation.first) == ("relocated", 7)


def test_claimed_range_may_include_blank_lines_but_no_other_lines() -> None:
    assert quotations.verify_citation(claim(lines(2, 2), 2, 3), evidence()).status == "verified"
    assert quotations.verify_citation(claim(lines(2, 2), 1, 2), evidence()).status == "relocated"


NEAR_MISSES = [
    ("if (args.limit || args.limit > 100) {", "negation dropped"),
    ("if (!args.limit || args.limit >= 100) {", "operator changed"),
    ("if (!args.limit || args.limit > 10) {", "number shortened"),
    ("if (!args.limit || args.limits > 100) {", "identifier changed"),
    ("args.limit > 100", "part of a line"),
    ("if (!args.limit || args.limit > 100) { throw new Error(", "two lines joined"),
    ('if (!args.limit || args.limit > 100) { throw new Error("limit must not exceed 100");', "whole lines joined"),
    ("const elsewhere = 1;", "another file"),
    ("const expected = 2;", "another role"),
    ("if (!args.limit || args.limit > 100) {\n}", "a line left out"),
    ("}\nif (!args.limit || args.limit > 100) {", "lines in another order"),
    ("", "nothing"),
    ("  \n \n", "white space"),
]


@pytest.mark.parametrize(("text", "why"), NEAR_MISSES, ids=[why for _, why in NEAR_MISSES])
def test_near_misses_are_unverified(text: str, why: str) -> None:
    citation = quotations.verify_citation(claim(text, 5, 5), evidence())
    assert (citation.status, citation.text) == ("unverified", text)


def test_an_unknown_path_is_unverified() -> None:
    assert quotations.verify_citation(claim(lines(5, 5), 5, 5, "src/../src/list.ts"), evidence()).status == "unverified"


def test_terminal_codes_in_a_log_are_ignored() -> None:
    log = Document(role="log", path="run.log", text="\x1b[31mE   boom\x1b[0m\nnext")
    source_evidence = evidence().model_copy(update={"documents": (log,)})
    citation = quotations.verify_citation(
        Citation(role="log", path="run.log", first=1, last=1, text="E   boom"), source_evidence
    )
    assert (citation.status, citation.text) == ("verified", "\x1b[31mE   boom\x1b[0m")


def test_cited_range_is_clipped_to_the_document() -> None:
    document = evidence().documents[0]
    assert quotations.cite_lines(document, 9, 99) == claim(lines(9, 10), 9, 10).model_copy(
        update={"status": "verified"}
    )
    assert quotations.cite_lines(document, -5, 1).first == 1
    assert quotations.cite_lines(document, 50, 40).last == 10


SWAPS = [("===", "!=="), ("==", "!="), ("<=", "<"), (">", "<"), ("&&", "||"), ("+", "-"), ("=", "+=")]
NEGATIONS = [(" is ", " is not "), ("not ", ""), ("!", ""), ("true", "false"), ("True", "False"), ("await ", "")]
WORD = re.compile(r"[A-Za-z_]\w{2,}")
NUMBER = re.compile(r"\d+")


def near_misses(line: str, draw: random.Random) -> Iterator[str]:
    """Yield the line with one identifier, number, operator or negation changed, dropped or doubled."""
    for pattern in (WORD, NUMBER):
        for match in draw.sample(matches := list(pattern.finditer(line)), min(2, len(matches))):
            changed = (
                str(int(match[0]) + 1) if match[0].isdigit() else match[0][:-1] + ("x" if match[0][-1] != "x" else "y")
            )
            yield line[: match.start()] + changed + line[match.end() :]
            yield line[: match.start()] + line[match.end() :]
            yield line[: match.end()] + " " + line[match.start() :]
    for old, new in [*SWAPS, *NEGATIONS]:
        if old in line:
            yield line.replace(old, new, 1)


def test_hundreds_of_generated_near_misses_are_never_verified(real_data: Path) -> None:
    draw, tried, wrong = random.Random(20261121), 0, []
    for source_evidence in failures(real_data):
        for document in source_evidence.documents:
            there = {quotations.fold_line(line) for line in document.lines}
            for number in draw.sample(range(len(document.lines)), min(2, len(document.lines))):
                line = document.lines[number]
                for miss in near_misses(line, draw) if len(line) < 400 else ():
                    if quotations.fold_line(miss) in there or not miss.strip():
                        continue
                    near_miss = Citation(
                        role=document.role, path=document.path, first=number + 1, last=number + 1, text=miss
                    )
                    tried += 1
                    wrong += (
                        [miss] if quotations.verify_citation(near_miss, source_evidence).status != "unverified" else []
                    )
    assert tried > 1000
    assert wrong == []


def test_joined_and_foreign_lines_of_real_failures_are_never_verified(real_data: Path) -> None:
    tried = 0
    for source_evidence in failures(real_data):
        documents = [d for d in source_evidence.documents if len(d.lines) > 3]
        for document, other in pairwise(documents):
            there = {quotations.fold_line(line) for line in document.lines}
            filled = [line for line in document.lines if line.strip()]
            joined = f"{filled[0].rstrip()} {filled[1].strip()}"
            foreign = next(
                (line for line in other.lines if quotations.fold_line(line) not in there and line.strip()), "no line"
            )
            for miss in (joined, foreign):
                near_miss = Citation(role=document.role, path=document.path, first=1, last=1, text=miss)
                tried += 1
                assert quotations.verify_citation(near_miss, source_evidence).status == "unverified"
    assert tried > 500


def test_true_lines_of_real_failures_are_verified_and_shifted_ones_relocated(real_data: Path) -> None:
    draw = random.Random(1)
    for source_evidence in failures(real_data):
        document = draw.choice(source_evidence.documents)
        filled = [n for n, line in enumerate(document.lines, 1) if line.strip()]
        if not filled:
            continue
        n = draw.choice(filled)
        true = Citation(
            role=document.role, path=document.path, first=n, last=n, text="  " + document.lines[n - 1] + "\t"
        )
        assert quotations.verify_citation(true, source_evidence).status == "verified"
        shifted = true.model_copy(update={"first": n + 10_000, "last": n + 10_000})
        assert quotations.verify_citation(shifted, source_evidence).status == "relocated"


def test_quotation_beside_a_line_of_megabytes_is_verified() -> None:
    source_evidence = evidence("x " * 2_500_000 + "\nshort")
    assert quotations.verify_citation(claim("short", 2, 2), source_evidence).status == "verified"
