"""Fields that an interface returns but the task never mentions: a gap of the eval, shown by the reference.

The reference lists the fields of a value that it passes on unchanged. If it never builds a field itself and the task
does not name it, only somebody who already knows the interface can list it.
"""

import re
from collections.abc import Iterator

from evalscribe.judging.rules import code, quote, wording
from evalscribe.judging.rules.decision import Decision
from evalscribe.judging.rules.facts import CodeLine, Facts
from evalscribe.model.evidence import Citation

FIELD = re.compile(r"([A-Za-z_$][\w$]*)\s*:\s*([A-Za-z_$][\w$]*)\.")
"""A field and the object whose method gives its type: `isDone: v.boolean()`."""
RETURNED = re.compile(r"(?<![a-z])(?:returns?|response|result|output)(?![a-z])", re.IGNORECASE)
"""First line of a list of returned fields; any other list may describe the model's own data."""
SIBLINGS = 2
"""Fewest other fields of the list that the output must have; with fewer, it lists something else."""


def undocumented_fields(facts: Facts) -> Decision | None:
    """The output lacks a field, or gives it another type, that only somebody who knows the interface can list."""
    if facts.check not in ("build", "tests") or not facts.produced or (facts.check == "build" and not facts.first):
        return None
    if facts.check == "tests" and not facts.outcome.failures:
        return None
    found = next(_fields(facts), None)
    if found is None:
        return None
    name, line, proven = found
    return Decision(
        label="KNOWN_GAP",
        kind="task",
        cause="undocumented-field-" + code.kebab(name, 30),
        confidence=0.65 if proven else 0.5,
        uncertain=not proven,
        why=wording.cut(f"the task does not mention `{name}`, which the interface returns"),
        reasoning=f"The reference lists `{name}` among the fields of a value that it only passes on. It never builds "
        f"that field, and the task does not name it. "
        + (f"The error is about `{name}`." if proven else f"The log has no message that names `{name}`."),
        citations=(*_ours(facts, name), *quote.pairs(facts, [line])[:1], *quote.log_naming(facts, name)),
        fix=f"name the field `{name}` of the value in the task",
        would_pass=False,
        by_error_text=proven,
    )


def _fields(facts: Facts) -> Iterator[tuple[str, CodeLine, bool]]:
    """Such fields, with their line in the reference, and whether the error names them; those first."""
    ours = facts.output_names
    found = []
    for line in facts.left_out:
        match = FIELD.match(line.text)
        if match is None or code.says(facts.task, match[1]) or _uses(facts, match[1]) > 1:
            continue
        # Alone between quotes: a type that is written out names all its fields, also those that fit.
        named = re.search(rf"(['\"`]){re.escape(match[1])}\1", facts.said) is not None
        if not named and (match[1] in ours or not facts.outcome.silent):
            continue
        if _lists_the_rest(facts, line, match[2]):
            found.append((match[1], line, named))
    yield from sorted(found, key=lambda one: not one[2])


def _uses(facts: Facts, name: str) -> int:
    """Count the lines of the reference that contain a name."""
    return sum(code.says(line.text, name) for line in facts.expected_lines)


def _lists_the_rest(facts: Facts, line: CodeLine, owner: str) -> bool:
    """Whether the output has the same list: its first line and other fields of it."""
    text = line.document.lines
    field = FIELD.match(line.text)
    own = _indent(text[line.number - 1])
    above = next((n for n in range(line.number - 2, -1, -1) if text[n].strip() and _indent(text[n]) < own), None)
    if field is None or above is None or not RETURNED.search(text[above]):
        return False
    if quote.first_with(facts.output_lines, text[above]) is None:
        return False
    block = [t for t in text[above + 1 : line.number + 40] if _indent(t) == own]
    names = [m[1] for t in block if (m := FIELD.match(t.strip())) and m[2] == owner]
    listed = {m[1] for one in facts.output_lines if (m := FIELD.match(one.text)) and m[2] == owner}
    return len(listed & set(names) - {field[1]}) >= SIBLINGS


def _ours(facts: Facts, name: str) -> tuple[Citation, ...]:
    line = next((one for one in facts.output_lines if code.says(one.text, name)), None)
    return quote.pairs(facts, [line])[:1] if line else quote.suspects(facts, 1)


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())
