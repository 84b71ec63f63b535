"""An agent that had to do something: what it did otherwise than was expected."""

import re

from evalscribe.judging.rules import code, wording
from evalscribe.judging.rules.decision import Decision
from evalscribe.judging.rules.facts import Facts
from evalscribe.judging.rules.spoken import Made, Said, Spoken
from evalscribe.model.evidence import Citation
from evalscribe.model.tool_calls import ToolCallDifference, compare_calls, describe_difference, innermost_mismatch

ID = re.compile(r"\b(?=\w*\d)(?=\w*[a-z])\w{5,}\b", re.IGNORECASE)
"""What looks like somebody's or something's id."""
MOST_NAMED = 3
MOST_ARGUMENTS = 2


def does_otherwise(facts: Facts) -> Decision | None:
    """The calls that were expected, beside those that were made, show what is lacking, other or too much."""
    spoken = facts.spoken
    if not spoken.turns or (not spoken.expected and "actions" not in _failed_steps(facts)):
        return None
    found = compare_calls(spoken.wanted, spoken.actions)
    if not found:
        return None
    first = found[0]
    if first.kind == "never":
        return _never(facts, spoken, first, found)
    return _otherwise(spoken, first, found) if first.kind == "otherwise" else _unasked(spoken, first, found)


def _never(facts: Facts, spoken: Spoken, first: ToolCallDifference, found: tuple[ToolCallDifference, ...]) -> Decision:
    if first.made is not None:
        return _refused(spoken, first, found)
    if spoken.made and spoken.made[-1].failed:
        return _gives_up(spoken, first, found)
    idle = not spoken.made
    silent = _untold(facts) if idle else ()
    return Decision(
        label="MODEL_FAULT",
        kind="model",
        cause="calls-no-tool" if idle else f"never-calls-{code.kebab(first.tool)}",
        confidence=0.5 if silent else 0.75,
        uncertain=bool(silent),
        error=describe_difference(first, spoken.wanted, spoken.actions),
        why=wording.cut(
            f"calls no tool; `{first.tool}` was expected" if idle else f"never calls {_expected(spoken, first)}"
        ),
        reasoning=f"{_expected(spoken, first)} was expected; {_count(spoken)}.{_more(found)}"
        + (f" {_silence(silent)}" if silent else ""),
        citations=(*_header(spoken, first), *_last_words(spoken)),
    )


def _refused(spoken: Spoken, first: ToolCallDifference, found: tuple[ToolCallDifference, ...]) -> Decision:
    """The tool was called and answered with an error each time; nothing else of that kind came after it."""
    made = spoken.made[first.made or 0]
    said = _answer(made)
    return Decision(
        label="MODEL_FAULT",
        kind="model",
        cause=f"gives-up-on-{code.kebab(first.tool)}",
        confidence=0.7,
        error=f"`{first.tool}`: {said}",
        why=wording.cut(f"`{first.tool}` fails and is given up: {said}"),
        reasoning=f"{_expected(spoken, first)} was expected. The model called the tool, which refused: "
        f"{said.rstrip('.')}. No later call of it succeeded.{_more(found)}",
        citations=(*_header(spoken, first), made.call.header(), *([made.answer.quoted(1)] if made.answer else [])),
    )


def _gives_up(spoken: Spoken, first: ToolCallDifference, found: tuple[ToolCallDifference, ...]) -> Decision:
    """The last call of all failed, and what would have been the way on was never tried."""
    made = spoken.made[-1]
    tool, said = made.action.tool, _answer(made)
    return Decision(
        label="MODEL_FAULT",
        kind="model",
        cause=f"gives-up-after-{code.kebab(tool)}",
        confidence=0.75,
        error=f"`{tool}`: {said}",
        why=wording.cut(f"gives up when `{tool}` fails: {said}"),
        reasoning=f"{_expected(spoken, first)} was expected and never called. The last call, of `{tool}`, failed: "
        f"{said.rstrip('.')}. The model tried nothing else.{_more(found)}",
        citations=(*_header(spoken, first), *([made.answer.quoted(1)] if made.answer else []), *_last_words(spoken)),
    )


def _otherwise(spoken: Spoken, first: ToolCallDifference, found: tuple[ToolCallDifference, ...]) -> Decision:
    made, wanted = spoken.made[first.made or 0], spoken.expected[first.expected or 0]
    told = describe_difference(first, spoken.wanted, spoken.actions)
    known = _shown_before(spoken, made, wanted, first)
    names = first.arguments[:MOST_ARGUMENTS]
    return Decision(
        label="MODEL_FAULT",
        kind="model",
        cause=code.kebab(f"other {first.arguments[0]} in {first.tool}"),
        confidence=0.75,
        error=told,
        why=_briefly(made, wanted, first),
        reasoning=f"{_else_alike(made, wanted, first)}{_more(found)} {_knowable(known)}".strip(),
        citations=(
            *(made.call.argument(name) for name in names),
            *(wanted.argument(name) for name in names),
            *((known[1],) if known and known[1] else ()),
        ),
    )


def _briefly(made: Made, wanted: Said, difference: ToolCallDifference) -> str:
    told = str(innermost_mismatch(difference.arguments[0], made.call.turn.arguments, wanted.turn.arguments))
    return wording.whole_or(f"`{difference.tool}`: {told}", wording.cut(told))


def _else_alike(made: Made, wanted: Said, difference: ToolCallDifference) -> str:
    same = len(wanted.turn.arguments) - len(set(difference.arguments) & set(wanted.turn.arguments))
    others = (
        f"{same} of {len(wanted.turn.arguments)} arguments are as expected" if same else "no argument is as expected"
    )
    return f"In message {made.call.turn.number} the model calls `{difference.tool}`; {others}."


def _unasked(spoken: Spoken, first: ToolCallDifference, found: tuple[ToolCallDifference, ...]) -> Decision:
    made = spoken.made[first.made or 0]
    agreed = _agreed(spoken, made)
    nothing = "no change was expected" if not spoken.expected else "it is not among the expected calls"
    return Decision(
        label="MODEL_FAULT",
        kind="model",
        cause=f"unasked-{code.kebab(first.tool)}",
        confidence=0.6,
        error=describe_difference(first, spoken.wanted, spoken.actions),
        why=wording.cut(f"calls `{first.tool}`; {nothing}"),
        reasoning=f"The model called `{first.tool}`; {nothing}.{_more(found)}"
        + (" The user had agreed to it, so what forbids it must be in the instructions." if agreed else ""),
        citations=(made.call.header(1 + MOST_NAMED), *((agreed,) if agreed else ())),
    )


def _expected(spoken: Spoken, difference: ToolCallDifference) -> str:
    action = spoken.wanted[difference.expected or 0]
    words = {name: value for name, value in action.arguments.items() if isinstance(value, str)}
    ids = [value for name, value in words.items() if ID.fullmatch(value) or (name.endswith("id") and value.isalnum())]
    return f"`{action.tool}`" + (f" of `{ids[0]}`" if ids else "")


def _count(spoken: Spoken) -> str:
    names = list(dict.fromkeys(f"`{action.tool}`" for action in spoken.actions))
    if not names:
        return f"the model answers {len(spoken.words)} times and calls no tool"
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"the model calls {', '.join(names[:MOST_NAMED])}{more}, but never that"


def _more(found: tuple[ToolCallDifference, ...]) -> str:
    if len(found) == 1:
        return ""
    tools = list(dict.fromkeys(f"`{one.tool}`" for one in found[1:]))
    return (
        f" {len(found) - 1} more differences: {', '.join(tools[:MOST_NAMED])}."
        if len(found) > 2
        else (f" One more difference: {tools[0]}.")
    )


def _header(spoken: Spoken, difference: ToolCallDifference) -> tuple[Citation, ...]:
    return (spoken.expected[difference.expected].header(2),) if difference.expected is not None else ()


def _last_words(spoken: Spoken) -> tuple[Citation, ...]:
    return (spoken.words[-1].quoted(2),) if spoken.words else ()


def _answer(made: Made) -> str:
    text = made.answer.turn.text if made.answer else ""
    return wording.cut(re.sub(r"^\W*error\W+", "", text, flags=re.IGNORECASE) or "no answer", 120)


def _shown_before(
    spoken: Spoken, made: Made, wanted: Said, difference: ToolCallDifference
) -> tuple[str, Citation | None] | None:
    """The expected text that was not given, and where it stood before the call, if anywhere."""
    lacking = innermost_mismatch(difference.arguments[0], made.call.turn.arguments, wanted.turn.arguments).theirs
    if not isinstance(lacking, str) or not ID.search(lacking):
        return None
    before = [said for said in spoken.turns if said.turn.number < made.call.turn.number]
    return lacking, spoken.first_saying(lacking, before)


def _knowable(known: tuple[str, Citation | None] | None) -> str:
    if known is None:
        return ""
    text, place = known
    if place is None:
        return f"`{text}` stands nowhere in the transcript before that."
    return f"`{text}` stood before it in line {place.first}."


def _agreed(spoken: Spoken, made: Made) -> Citation | None:
    """What the user said right before the call, where that is a yes."""
    before = [said for said in spoken.turns if said.turn.role == "user" and said.turn.number < made.call.turn.number]
    if before and re.match(r"\W*(?:yes|sure|ok|okay|please|go ahead|correct|confirm)\b", before[-1].turn.text, re.I):
        return before[-1].quoted(1)
    return None


def _untold(facts: Facts) -> tuple[str, ...]:
    """Ids that only the task gives, where somebody else had to pass them on and did not."""
    if not any(said.turn.role == "user" for said in facts.spoken.turns):
        return ()
    said = "\n".join(one.turn.text for one in facts.spoken.turns)
    return tuple(name for name in dict.fromkeys(ID.findall(facts.task)) if "_" in name and name not in said)


def _silence(untold: tuple[str, ...]) -> str:
    return f"The task gives `{untold[0]}`, but the user never says it: the simulated user may be at fault."


def _failed_steps(facts: Facts) -> frozenset[str]:
    return frozenset(step.name for step in facts.evidence.steps if step.status == "failed")
