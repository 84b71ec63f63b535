"""Choose the lines that a finding quotes, and shorten texts for reports."""

import re
from collections.abc import Callable, Iterable, Sequence
from difflib import SequenceMatcher
from itertools import takewhile

from evalscribe.evidence.log import failed_log
from evalscribe.judging.quotations import cite_lines
from evalscribe.judging.rules import code
from evalscribe.judging.rules.code import GapNote, stems
from evalscribe.judging.rules.facts import CodeLine, Facts
from evalscribe.model.evidence import Citation, Document, Role

LONGEST = 90
FOLDED = 24
"""Minimum characters between braces of a type that is folded."""


def cut(text: str, longest: int = LONGEST) -> str:
    """Return one line of at most `longest` characters."""
    text = " ".join(text.split())
    return text if len(text) <= longest else text[: longest - 1].rsplit(" ", 1)[0].rstrip(" ,;:.…") + " …"


def whole_or(text: str, shorter: str) -> str:
    """Return a text if it fits the report's table, else a shorter one."""
    return text if text and len(text) <= LONGEST else shorter


def brief(text: str) -> str:
    """Fold long object types in a tool's message to `{ … }`, including one that the tool cut off."""
    folded, at = [], 0
    while (start := text.find("{", at)) >= 0:
        end = _end(text, start)
        block = text[start:end]
        folded += [text[at:start], "{ … }" if len(block) > FOLDED else block]
        at = end
    whole = "".join((*folded, text[at:]))
    return whole + "`" * (whole.count("`") % 2)


def _end(text: str, start: int) -> int:
    """Return the offset where the braces that open at `start` are closed, else the end."""
    depth = 0
    for at in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return at + 1
    return len(text)


LOG_LINES = 3
CELLS = ("input", "output", "expected", "expected_output")
"""Names of the documents of an experiment's item or a table's row, without suffix."""
CELL_LINES = 4
ADDRESS = re.compile(r"(?:https?://|localhost|127\.0\.0\.1|0\.0\.0\.0).*[{$+]|\bport\b.*[+-]\s*\d")
COMPARED = 400
"""Maximum reference lines compared with one output line, and maximum characters of each line."""
RANKED = 12
"""Maximum lines that are also ranked by similarity to the reference."""
SIGNATURE = re.compile(r"\([\w\s,:.?{}]*\)(?:\s*:\s*[\w<>\[\]|\"' ,.]+?)?(?=\s*(?:=>|\{|:$))")
KEY = re.compile(r"(?:(?:export|const|let|var)\s+)*([A-Za-z_$][\w$]*)\s*([:=])(?![=>])")
ALIKE = 0.6
"""Minimum similarity of a reference line to be the counterpart of an output line."""


def note(note_: GapNote) -> Citation:
    return cite_lines(note_.document, note_.line, note_.line)


def task(facts: Facts, says: Callable[[str], bool]) -> tuple[Citation, ...]:
    """Quote the first line of the task that satisfies `says`; nothing if it spans several lines."""
    for document in facts.evidence.of("task"):
        for number, text in enumerate(document.lines, 1):
            if says(text):
                return (cite_lines(document, number, number),)
    return ()


def cells(facts: Facts, *roles: Role) -> tuple[Citation, ...]:
    """Quote what an item or a row has in these roles: its input, output or expected output.

    Of an output and an expected output that are longer, the lines from their first difference on.
    """
    documents = [d for role in roles for d in facts.evidence.of(role) if cell_name(d) in CELLS and d.text.strip()]
    compared = [d.lines for d in documents if d.role != "task"]
    differing = (number for number, lines in enumerate(zip(*compared, strict=False)) if len(set(lines)) > 1)
    start = next(differing, 0) + 1
    return tuple(_cell(document, 1 if document.role == "task" else start) for document in documents)


def _cell(document: Document, start: int) -> Citation:
    first = max(1, min(start, len(document.lines) - CELL_LINES + 1))
    return cite_lines(document, first, first + CELL_LINES - 1)


def cell_name(document: Document) -> str:
    return document.path.removesuffix(".txt").removesuffix(".json")


def log(facts: Facts) -> tuple[Citation, ...]:
    """Quote the log lines of the first error, else of the first failed test, else the last line."""
    if facts.first and facts.first.citation:
        return (short(facts, facts.first.citation),)
    if facts.outcome.failures:
        return (short(facts, facts.outcome.failures[0].citation),)
    return _last_line(facts)


def log_naming(facts: Facts, name: str) -> tuple[Citation, ...]:
    """Quote the log line of an error's details that contains a name, else what `log` quotes."""
    for error in facts.errors:
        document = facts.evidence.document("log", error.citation.path) if error.citation else None
        for number, text in facts.details(error.citation) if error.citation else ():
            if document and name in text:
                return (cite_lines(document, number, number),)
    return log(facts)


def short(facts: Facts, citation: Citation) -> Citation:
    """Return the first lines of a long quotation."""
    document = facts.evidence.document(citation.role, citation.path)
    return (
        cite_lines(document, citation.first, min(citation.last, citation.first + LOG_LINES - 1))
        if document
        else citation
    )


def blamed(facts: Facts, longest: int = 2) -> tuple[Citation, ...]:
    """Quote the output lines that the errors point to, each followed by its counterpart in the reference."""
    return pairs(facts, facts.blamed[:longest])


def naming(facts: Facts, subject: str, longest: int = 2) -> tuple[Citation, ...]:
    """Quote the model's own lines with the name that an error is about."""
    own = (line for line in facts.introduced if subject and subject in code.names(line.text))
    return pairs(facts, list(own)[:longest])


def telling(facts: Facts, words: frozenset[str], longest: int = 2) -> tuple[Citation, ...]:
    """Quote the model's own lines with most of the words."""
    ranked = sorted(facts.introduced, key=lambda line: -len(stems(line.text) & words))
    return pairs(facts, [line for line in ranked[:longest] if stems(line.text) & words])


def pairs(facts: Facts, lines: Iterable[CodeLine]) -> tuple[Citation, ...]:
    found: dict[tuple[Role, str, int], Citation] = {}
    for line in lines:
        other = counterpart(facts, line)
        differs = other is not None and other.folded != line.folded
        for citation in (_of(line), *([_of(other)] if other and differs else [])):
            found.setdefault((citation.role, citation.path, citation.first), citation)
    return tuple(found.values())


def opposed(line: CodeLine, other: CodeLine) -> tuple[Citation, ...]:
    """Quote an output line and its counterpart in the reference."""
    return (_of(line), _of(other))


def difference(facts: Facts, line: CodeLine) -> str:
    """Render an output line beside the reference's, without their common start; empty if one only extends the other."""
    other = counterpart(facts, line)
    if other is None or "`" in line.text + other.text:
        return ""
    begin, end = _alike(line.text, other.text), _alike(line.text[::-1], other.text[::-1])
    if begin + end >= min(len(line.text), len(other.text)):
        return ""
    start = max(line.text.rfind(mark, 0, begin) for mark in " (.") + 1
    return f"`{line.text[start:]}` where the reference has `{other.text[start:]}`"


def _alike(one: str, other: str) -> int:
    """Return the length of the common prefix."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def counterpart(facts: Facts, line: CodeLine) -> CodeLine | None:
    """Return the most similar reference line in the counterpart of an output line's file."""
    place = (line.document.path, line.number)
    if place not in facts.counterparts:
        facts.counterparts[place] = _counterpart(facts, line)
    return facts.counterparts[place]


def _counterpart(facts: Facts, line: CodeLine) -> CodeLine | None:
    partner = next((p.expected for p in facts.pairs if p.output and p.output.path == line.document.path), None)
    if partner is None:
        return None
    candidates = [c for c in facts.expected_lines if c.document.path == partner.path][:COMPARED]
    likeness = _Likeness(line.text)
    best, highest = None, 0.0
    for other in sorted(candidates, key=lambda c: abs(c.number - line.number)):
        score = max(likeness.to(other.text, highest), _same_key(line, other))
        if score > highest:  # of equals the nearest, which comes first
            best, highest = other, score
        if highest >= 1:
            break
    return best


def suspects(facts: Facts, longest: int = 3) -> tuple[Citation, ...]:
    """Quote the output lines that differ most from reference and task, if no error names a line."""
    spoken = [line for line in facts.introduced if code.NAME.search(line.text)]
    strangest = sorted(spoken, key=lambda line: -_strangeness(facts, line))[:RANKED]
    ranked = sorted(strangest, key=lambda line: (-_strangeness(facts, line) - _change(facts, line), line.number))
    return pairs(facts, ranked[:longest])


def instead_of(facts: Facts, missing: Document) -> tuple[Citation, ...]:
    """Quote the first line of the file that the model wrote in place of a reference file."""
    written = next((p.output for p in facts.pairs if p.expected and p.expected.path == missing.path), None)
    return tuple(cite_lines(document, 1, 1) for document in (written, missing) if document)


def both(facts: Facts, text: str) -> tuple[Citation, ...]:
    """Quote a text in output and reference."""
    lines = (first_with(facts.output_lines, text), first_with(facts.expected_lines, text))
    return tuple(_of(line) for line in lines if line)


def first_with(lines: Sequence[CodeLine], text: str) -> CodeLine | None:
    """Return the first line that contains a text, ignoring white space."""
    wanted = code.fold(text)
    return next((line for line in lines if wanted and wanted in line.folded), None)


def grader_lines(facts: Facts, message: str, longest: int = 1) -> tuple[Citation, ...]:
    """Quote the grader's lines that a message names as `file:line`, else those with the failed test's name."""
    found = []
    for document in facts.evidence.of("grader"):
        name = re.escape(document.path.rsplit("/", 1)[-1])
        found += [cite_lines(document, int(n), int(n)) for n in re.findall(rf"{name}:(\d{{1,6}})", message)]
        found += [cite_lines(document, n, n) for n in _naming_a_test(facts, document)]
    return tuple(found[:longest])


def grader_addresses(facts: Facts) -> tuple[Citation, ...]:
    """Quote the grader's first line that builds an address."""
    for document in facts.evidence.of("grader"):
        for number, line in enumerate(document.lines, 1):
            if ADDRESS.search(line):
                return (cite_lines(document, number, number),)
    return ()


def _naming_a_test(facts: Facts, document: Document) -> list[int]:
    titles = [test.title.split("[")[0] for test in facts.outcome.failures]
    return [n for n, line in enumerate(document.lines, 1) if any(len(t) > 3 and t in line for t in titles)]


def _strangeness(facts: Facts, line: CodeLine) -> float:
    """Return a score for names that the reference lacks; names that occur nowhere else count more."""
    reached = frozenset(re.findall(r"\.([A-Za-z_$][\w$]*)", line.text)) - facts.expected_names
    return 2.0 * len(code.names(line.text) & facts.foreign) + len(reached)


def _change(facts: Facts, line: CodeLine) -> float:
    """Return the share of a line that the reference also has: a changed line is more informative than a new one."""
    other = counterpart(facts, line)
    if other is None:
        return 0.0
    if _plain(other.text) == _plain(line.text):
        return -1.0
    return _Likeness(line.text).to(other.text)


def _plain(text: str) -> str:
    """Remove parts that are rarely wrong: parameters and types, the order of imported names, the text of an error."""
    if text.startswith("import"):
        return " ".join(sorted(code.names(text) - {"type"}))
    if text.startswith(("throw", "raise")):
        return re.sub(code.STRING, "", text)
    return code.fold(SIGNATURE.sub("()", text))


def _same_key(line: CodeLine, other: CodeLine) -> float:
    """Score two lines that assign the same key or variable as counterparts, however much they differ."""
    ours, theirs = KEY.match(line.text), KEY.match(other.text)
    return ALIKE if ours and theirs and ours.groups() == theirs.groups() else 0.0


def _last_line(facts: Facts) -> tuple[Citation, ...]:
    excerpt = failed_log(facts.evidence)
    document = facts.evidence.document("log", excerpt.path) if excerpt else None
    if excerpt is None or document is None:
        return ()
    spoken = [excerpt.first + i for i, text in enumerate(excerpt.text.split("\n")) if text.strip()]
    return (cite_lines(document, spoken[-1], spoken[-1]),) if spoken else ()


class _Likeness:
    """Similarity of one line to others as a share; values below `ALIKE` are not computed."""

    def __init__(self, text: str) -> None:
        self._matcher = SequenceMatcher(None, "", text[:COMPARED], autojunk=False)

    def to(self, text: str, beaten: float = 0.0) -> float:
        """Return the similarity; 0 if it is below `ALIKE` or not above `beaten`."""
        self._matcher.set_seq1(text[:COMPARED])
        bounds = (self._matcher.real_quick_ratio, self._matcher.quick_ratio, self._matcher.ratio)
        for bound in bounds:
            share = bound()
            if share < ALIKE or share <= beaten:
                return 0.0
        return share


def _of(line: CodeLine) -> Citation:
    return cite_lines(line.document, line.number, line.number)
