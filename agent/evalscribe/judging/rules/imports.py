"""Names that the output imports from another module than the reference does."""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from evalscribe.judging.rules import code, quote, wording
from evalscribe.judging.rules.decision import Decision
from evalscribe.judging.rules.facts import CodeLine, Facts

BRACED = re.compile(r"""\bimport\s+[^;{}"']{0,80}\{([^{}]*)\}\s*from\s*(["'])([^"'\n]+)\2""")
LISTED = re.compile(r"^from[ \t]+([\w.]+)[ \t]+import[ \t]+(\([^()]*\)|[^\n(]+)", re.MULTILINE)
FIRST_NAME = re.compile(r"(?:type\s+)?([A-Za-z_$][\w$]*)")
Module = tuple[bool, str]
"""Whether it is a file of the project, and its name: folders and endings may differ between equal imports."""


class Misplaced(NamedTuple):
    """A name, the modules that output and reference import it from, and their lines."""

    name: str
    module: str
    right: str
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
        why=wording.whole_or(_said(found), f"imports `{found.name}` from the wrong module"),
        reasoning=f"The log ends before the reason. {line.document.path}:{line.number} {_said(found)}: the likeliest "
        "cause.",
        citations=(*quote.opposed(line, other), *quote.log(facts)),
    )


def misplaced(facts: Facts) -> Misplaced | None:
    """The first name that both sides import, from different modules."""
    theirs = list(_imports(facts.expected_lines))
    known = {name: (path, line) for name, path, line in reversed(theirs)}
    right = {(name, _module(path)) for name, path, _ in theirs}
    for name, path, line in _imports(facts.output_lines):
        if name in known and (name, _module(path)) not in right:
            return Misplaced(name, path, known[name][0], line, known[name][1])
    return None


def _imports(lines: Sequence[CodeLine]) -> Iterator[tuple[str, str, CodeLine]]:
    """Every imported name with the path of its module and the line that ends the import."""
    for _, group in groupby((line for line in lines if line.is_code), lambda line: line.document.path):
        own = list(group)
        text = code.joined(line.text for line in own)
        for names, path, end in _statements(text):
            at = own[text.count("\n", 0, end)]
            yield from ((name, path, at) for name in names)


def _statements(text: str) -> Iterator[tuple[list[str], str, int]]:
    for found in BRACED.finditer(text):
        yield _names(found.group(1)), found.group(3), found.end() - 1
    for found in LISTED.finditer(text):
        yield _names(found.group(2)), found.group(1), found.start(2)


def _names(text: str) -> list[str]:
    named = (FIRST_NAME.match(part.strip()) for part in text.strip("()").split(","))
    return [found.group(1) for found in named if found]


def _module(path: str) -> Module:
    """Dotted paths are Python's, where one module has several spellings."""
    if re.fullmatch(r"\.*[\w.]+", path):
        return False, path.rsplit(".", 1)[-1]
    last = wording.basename(path.removeprefix("node:"))
    return path.startswith("."), re.sub(r"\.(?:[cm]?[jt]sx?)$", "", last)


def _said(found: Misplaced) -> str:
    return f"imports `{found.name}` from `{found.module}`, the reference from `{found.right}`"
