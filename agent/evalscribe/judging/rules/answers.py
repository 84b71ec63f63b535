"""An answer beside the target that it is compared with: another one, almost the same, or the same otherwise written."""

import json
import re
from difflib import SequenceMatcher
from typing import NamedTuple

from evalscribe.judging.cite import cite
from evalscribe.judging.rules import wording
from evalscribe.judging.rules.decision import Decision
from evalscribe.judging.rules.facts import Facts
from evalscribe.judging.rules.spoken import Said, Spoken
from evalscribe.model.evidence import Citation, Document

SUBMITS = frozenset({"answer", "done", "final_answer", "finalanswer", "finish", "submit", "submit_answer"})
LONGEST_TARGET = 300
"""Characters of a target that an answer can be held against; a longer one is a criterion."""
LONGEST_ANSWER = 20_000
ALMOST = 0.9
SHORTEST_ALMOST = 8
SIGNS = re.compile(r"[\W_]+")
NUMBER = re.compile(r"[-+]?\d[\d,]*\.?\d*")


class Answer(NamedTuple):
    text: str
    citation: Citation


def answers_otherwise(facts: Facts) -> Decision | None:
    """The model's answer is not the target."""
    answer, target = _answer(facts.spoken), _target(facts)
    if answer is None or target is None:
        return None
    if _fold(target.text) in _fold(answer.text) or _number(target.text) == _number(answer.text) is not None:
        return _otherwise_written(answer, target, "has the target, in another form or with more around it")
    if SIGNS.sub("", target.text.lower()) == SIGNS.sub("", answer.text.lower()) and SIGNS.sub("", answer.text):
        return _otherwise_written(
            answer, target, f"differs from the target only in signs: {_first_difference(answer, target)}"
        )
    alike = SequenceMatcher(None, target.text, answer.text[: 4 * LONGEST_TARGET], autojunk=False).ratio()
    almost = alike >= ALMOST and len(target.text) >= SHORTEST_ALMOST
    return Decision(
        label="MODEL_FAULT",
        kind="model",
        cause="almost-the-answer" if almost else "another-answer",
        confidence=0.75 if almost else 0.65,
        error=wording.cut(f"answers {_short(answer.text)} instead of {_short(target.text)}", 200),
        why=wording.cut(
            f"almost right: {_first_difference(answer, target)}" if almost else f"answers {_short(answer.text)}"
        ),
        reasoning=f"The answer is {_short(answer.text)}, the target {_short(target.text)}. "
        + (f"They differ from {_first_difference(answer, target)} on." if almost else "They have little in common."),
        citations=(answer.citation, target.citation),
    )


def never_says(facts: Facts) -> Decision | None:
    """A reference lists what has to be said, and the model says it nowhere."""
    document = next((d for d in facts.evidence.of("expected") if _listed(d)), None)
    if document is None or not facts.spoken.words:
        return None
    said = "\n".join(one.turn.text for one in facts.spoken.words).lower()
    bare = said.replace(",", "")
    unsaid = [text for text in _listed(document) if text.lower().replace(",", "") not in bare]
    if not unsaid:
        return None
    more = f" and {len(unsaid) - 1} more" if len(unsaid) > 1 else ""
    line = next((n for n, text in enumerate(document.lines, 1) if unsaid[0] in text), 1)
    return Decision(
        label="MODEL_FAULT",
        kind="model",
        cause="never-says-what-was-asked",
        confidence=0.7,
        error=wording.cut(f"never says {_short(unsaid[0])}{more}", 200),
        why=wording.cut(f"never says {_short(unsaid[0])}{more}"),
        reasoning=f"The reference wants {_short(unsaid[0])}{more} to be told; none of the model's "
        f"{len(facts.spoken.words)} answers has it.",
        citations=(cite(document, line, line), facts.spoken.words[-1].quoted(2)),
    )


def grader_says_why(facts: Facts) -> Decision | None:
    """A grader that explains itself, and nothing else to go by: its words, and no certainty."""
    grader = next((d for d in facts.evidence.of("grader") if d.text.strip()), None)
    if grader is None or not facts.spoken.by_model:
        return None
    line = next(n for n, text in enumerate(grader.lines, 1) if text.strip())
    said = cite(grader, line, line)
    last = (facts.spoken.words[-1].quoted(2),) if facts.spoken.words else ()
    return Decision(
        label="MODEL_FAULT",
        kind="model",
        cause="failed-by-grader",
        confidence=0.5,
        uncertain=True,
        why=wording.cut(f"the grader: {said.text}"),
        reasoning=f"The grader of `{facts.step}` says: {wording.cut(said.text, 160)} Nothing in the evidence "
        "can be held against that by a rule.",
        citations=(said, *last),
    )


def _otherwise_written(answer: Answer, target: Answer, how: str) -> Decision:
    return Decision(
        label="OVERLY_STRICT",
        kind="grader",
        cause="same-answer-otherwise-written",
        confidence=0.5,
        uncertain=True,
        error=wording.cut(f"answers {_short(answer.text)} instead of {_short(target.text)}", 200),
        why=wording.cut(f"the answer {how}"),
        reasoning=f"The answer is {_short(answer.text)}, the target {_short(target.text)}: it {how}. "
        "The target or the comparison may be wrong; look at both.",
        citations=(answer.citation, target.citation),
        fix="check the target for lost signs, and whether the comparison should allow other spellings",
    )


def _answer(spoken: Spoken) -> Answer | None:
    """What was submitted by a tool made for that, else the model's last words."""
    for made in reversed(spoken.made):
        texts = [(name, value) for name, value in made.action.arguments.items() if isinstance(value, str | int | float)]
        if made.action.tool.lower() in SUBMITS and texts:
            name, value = texts[0]
            return Answer(str(value)[:LONGEST_ANSWER], made.call.argument(name))
    return _last_words(spoken.words[-1]) if spoken.words else None


def _last_words(said: Said) -> Answer:
    return Answer(said.turn.text.strip()[:LONGEST_ANSWER], said.quoted(2))


def _target(facts: Facts) -> Answer | None:
    """The only short reference that is neither a list of calls nor a file to be compared with an output file."""
    found = facts.evidence.of("expected")
    if len(found) != 1 or facts.spoken.expected or facts.evidence.of("output") or _listed(found[0]):
        return None
    text = found[0].text.strip()
    return Answer(text, cite(found[0], 1, 2)) if text and len(text) <= LONGEST_TARGET else None


def _listed(document: Document) -> list[str]:
    """The texts of a JSON list of plain values; nothing for anything else."""
    if not document.text.lstrip().startswith("["):
        return []
    try:
        values = json.loads(document.text)
    except (ValueError, RecursionError):
        return []
    plain = isinstance(values, list) and all(isinstance(one, str | int | float) for one in values)
    return [str(one) for one in values] if plain else []


def _fold(text: str) -> str:
    return " ".join(text.lower().split())


def _number(text: str) -> float | None:
    """The value of a text that is a number, however it is written."""
    bare = text.strip().strip("$€£% .")
    return float(bare.replace(",", "")) if NUMBER.fullmatch(bare) else None


def _first_difference(answer: Answer, target: Answer) -> str:
    """Where two texts part, with what follows in both."""
    at = next((n for n, (a, b) in enumerate(zip(answer.text, target.text, strict=False)) if a != b), None)
    at = min(len(answer.text), len(target.text)) if at is None else at
    return f"{_short(answer.text[at : at + 8])} where the target has {_short(target.text[at : at + 8])}"


def _short(text: str) -> str:
    """As a quotation; a backtick inside would end it."""
    return f"`{wording.cut(text.replace('`', chr(39)), 70)}`" if text.strip() else "nothing"
