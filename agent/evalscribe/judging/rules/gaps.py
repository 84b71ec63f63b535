"""Known-gap notes of the eval: whether one of them speaks of this failure."""

import re
from collections.abc import Callable

from evalscribe.evidence import Citation
from evalscribe.judging.rules import code, quote
from evalscribe.judging.rules.decision import Decision
from evalscribe.judging.rules.facts import Facts
from evalscribe.judging.rules.notes import Note, stems

TOLD = 0.7
"""Share of a note's words that the model's own lines must hold before it is taken to describe them."""
FEWEST_WORDS = 3


def gap_names_the_error(facts: Facts) -> Decision | None:
    """A note that names the failed rule, the type or the field in the error was written about this failure."""
    if not facts.errors and not facts.outcome.failures:
        return None
    blamed = code.joined(line.text for line in facts.blamed) if facts.check == "lint" else ""
    codes = frozenset(error.code for error in facts.errors if error.code)
    return _first(facts, lambda note: _named(note, facts.said, codes) or _spelled_out(note, blamed), 0.85, _in_error)


def gap_names_the_difference(facts: Facts) -> Decision | None:
    """A note that names what only the model wrote, or what it says the model leaves out, fits this output."""
    if facts.check == "lint" or (facts.errors and facts.check != "tests"):
        return None
    return _first(facts, lambda note: _touches(facts, note) and _differing(facts, note), 0.7, _in_difference)


def gap_tells_of_the_code(facts: Facts) -> Decision | None:
    """Where the log gives no reason, a note whose words are all in the model's own lines is the likeliest one."""
    if facts.errors or facts.outcome.failures:
        return None
    own = stems(code.joined(line.text for line in facts.introduced))
    return _first(facts, lambda note: _told(note, own), 0.5, _in_words)


def _first(
    facts: Facts, match: Callable[[Note], str | None], confidence: float, tell: Callable[[str, Note], str]
) -> Decision | None:
    for note in facts.notes:
        if name := match(note):
            return Decision(
                label="KNOWN_GAP",
                kind="lint" if facts.check == "lint" else "model",
                cause="known-gap-" + code.kebab(name, 36),
                confidence=confidence,
                uncertain=confidence <= 0.5,
                why=f"known gap: {_short(note.text)}",
                reasoning=tell(name, note),
                citations=(quote.note(note), *_lines(facts, name, note), *quote.log_naming(facts, name)),
            )
    return None


def _named(note: Note, said: str, codes: frozenset[str]) -> str | None:
    """The term of the note that stands in the error as a whole word; the rule, then what the error quotes."""
    bare = [term.rsplit("/", 1)[-1] if term.startswith("@") and "-" in term else term for term in note.terms]
    whole = [term for term in bare if re.search(rf"(?<![\w$-]){re.escape(term)}(?![\w$-])", said)]
    quoted = [term for term in whole if re.search(rf"['\"`]{re.escape(term)}['\"`]", said)]
    rules = [term for term in whole if term in codes or any(rule.endswith("/" + term) for rule in codes)]
    return next(iter([*rules, *quoted, *whole]), None)


def _spelled_out(note: Note, blamed: str) -> str | None:
    """A note that spells out code of the blamed line: at least one call or member access that stands there."""
    folded = code.fold(blamed)
    hits = [term for term in note.terms if "." in term.strip(".") and code.fold(term) in folded]
    return hits[0] if hits else None


def _differing(facts: Facts, note: Note) -> str | None:
    """A term that stands on one side only, one that the note and the output both lack, or what it would rather see."""
    ours, theirs = facts.folded_code
    if not ours or not theirs:
        return None
    for term in note.terms:
        if (code.fold(term) in ours) != (code.fold(term) in theirs):
            return term
    return _absent(note, ours) or _respelled(facts, note) or _preferred(facts, note)


def _touches(facts: Facts, note: Note) -> str | None:
    """Where tests say what failed, a note must share a word with them; any note may explain a log without a reason."""
    if not facts.said.strip():
        return note.text
    named = {name for term in note.terms for name in code.NAME.findall(term) if len(name) > 2}
    shared = sorted((named & code.names(facts.said)) | (note.words & stems(facts.said)))
    return shared[0] if shared else None


def _absent(note: Note, ours: str) -> str | None:
    """What it says is missing is missing, and something else that it names is there."""
    used = [term for term in note.terms if code.fold(term) in ours]
    absent = [term for term in note.lacking if code.fold(term) not in ours]
    return absent[0] if absent and used else None


def _respelled(facts: Facts, note: Note) -> str | None:
    """Notes are written from memory: `prefixPath` means a `pathPrefix` that the reference has and the output lacks."""
    missing = code.names(facts.expected_code) - code.names(facts.output_code)
    by_parts = {frozenset(code.parts(name)): name for name in sorted(missing) if len(code.parts(name)) > 1}
    named = (frozenset(code.parts(name)) for term in note.terms for name in code.NAME.findall(term))
    return next((by_parts[parts] for parts in named if parts in by_parts), None)


def _preferred(facts: Facts, note: Note) -> str | None:
    """All the words that follow `instead of` stand in the reference's own lines and nowhere in the output."""
    gone = stems(code.joined(line.text for line in facts.left_out)) - stems(facts.output_code)
    wanted = stems(note.preferred)
    return note.preferred if wanted and wanted <= gone else None


def _told(note: Note, own: frozenset[str]) -> str | None:
    if len(note.words) < FEWEST_WORDS or len(note.words & own) < TOLD * len(note.words):
        return None
    return " ".join(sorted(note.words & own)[:4])


def _in_error(name: str, note: Note) -> str:
    return (
        f"`{note.document.path}` line {note.line} names `{name}`, and so does this failure. "
        "It is a documented gap of the eval, whoever is at fault."
    )


def _in_difference(name: str, note: Note) -> str:
    return (
        f"`{note.document.path}` line {note.line} names `{name}`, and that is where this output differs. "
        "It is a documented gap of the eval."
    )


def _in_words(name: str, note: Note) -> str:
    return (
        f"The log gives no reason; `{note.document.path}` line {note.line} describes what this output does ({name}). "
        "That is the likeliest reason, not a proven one."
    )


def _lines(facts: Facts, name: str, note: Note) -> tuple[Citation, ...]:
    """The blamed lines and those that hold the name, else what only the reference has, else the strangest lines."""
    theirs = quote.first_with(facts.left_out, name)
    own = (quote.first_with(facts.introduced, term) for term in (name, *note.terms))
    ours = next((line for line in own if line), None)
    found = (*quote.blamed(facts), *quote.pairs(facts, [ours] if ours else []))
    missing = quote.pairs(facts, [theirs])[:1] if theirs and not found else ()
    return (*found, *missing, *(() if found else quote.telling(facts, note.words) or quote.suspects(facts, 2)))


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 76 else text[:75].rsplit(" ", 1)[0] + " …"
