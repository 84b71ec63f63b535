"""Names that the output imports from another module than the reference does."""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from evalscribe.judging.rules import code, quote
from evalscribe.judging.rules.decision import Decision
from evalscribe.judging.rules.facts import CodeLine, Facts

BRACED = re.compile(r"""\bimport\s+[^;{}"']{0,80}\{([^{}]*)\}\s*from\s*(["'])([^"'\n]+)\2""")
LISTED = re.compile(r"^from[ \t]+([\w.]+)[ \t]+import[ \t]+(\([^()]*\)|[^\n(]+)", re.MULTILINE)
FIRST_NAME = re.compile(r"(?:type\s+)?([A-Za-z_$][\w$]*)")
Module = tuple[bool, str]
"""Whether it is a file of the project, and its name: folders and endings may differ between equal imports."""


class Misplaced(NamedTuple):
    """A name, where the output imports it from, and the reference's line."""

    name: str
    ours: CodeLine
    theirs: CodeLine


def imports_from_elsewhere(facts: Facts) -> Decision | None:
    """The log gives no reason, but a name is imported from a module other than the one it is in."""
    found = None if facts.errors or facts.outcome.failures else misplaced(facts)
    if found is None:
        return None
    line, other = found.ours, found.theirs
    return Decision(
        label="MODEL_FAULT",
        kind="model",
        cause="wrong-import-" + code.kebab(found.name, 34),
        confidence=0.7,
        why=f"imports `{found.name}` from the wrong module",
        reasoning=f"{line.document.path}:{line.number} imports `{found.name}` from another module than the reference "
        f"({other.document.path}:{other.number}). The log ends before the reason; this is the likeliest.",
        citations=(*quote.opposed(line, other), *quote.log(facts)),
    )


def misplaced(facts: Facts) -> Misplaced | None:
    """The first name that both sides import, from different modules."""
    theirs = {name: (module, line) for name, module, line in _imports(facts.expected_lines)}
    everywhere = {(name, module) for name, module, _ in _imports(facts.expected_lines)}
    for name, module, line in _imports(facts.output_lines):
        if name in theirs and (name, module) not in everywhere:
            return Misplaced(name, line, theirs[name][1])
    return None


def _imports(lines: Sequence[CodeLine]) -> Iterator[tuple[str, Module, CodeLine]]:
    """Every imported name with its module and the line that ends the import."""
    for _, group in groupby((line for line in lines if line.is_code), lambda line: line.document.path):
        own = list(group)
        text = code.joined(line.text for line in own)
        for names, module, end in _statements(text):
            at = own[text.count("\n", 0, end)]
            yield from ((name, module, at) for name in names)


def _statements(text: str) -> Iterator[tuple[list[str], Module, int]]:
    for found in BRACED.finditer(text):
        yield _names(found.group(1)), _module(found.group(3)), found.end() - 1
    for found in LISTED.finditer(text):
        yield _names(found.group(2)), (False, found.group(1).rsplit(".", 1)[-1]), found.start(2)


def _names(text: str) -> list[str]:
    named = (FIRST_NAME.match(part.strip()) for part in text.strip("()").split(","))
    return [found.group(1) for found in named if found]


def _module(path: str) -> Module:
    last = path.removeprefix("node:").rsplit("/", 1)[-1]
    return path.startswith("."), re.sub(r"\.(?:[cm]?[jt]sx?)$", "", last)
