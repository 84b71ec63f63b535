"""Compare expected tool calls with the calls that were made."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from pydantic import JsonValue

from evalscribe.text import pluralise

READ_ONLY_VERBS = frozenset(
    {"calculate", "check", "compute", "count", "describe", "fetch", "find", "get", "inspect", "list"}
) | {
    "look",
    "lookup",
    "query",
    "read",
    "search",
    "show",
    "think",
    "view",
}
"""First words of names of tools that only read. Differences in such calls matter only if no other calls differ."""
HANDOVER_VERBS = frozenset(["escalate", "handoff", "transfer"])
"""First words of names of tools that hand the work over to somebody else. Graders rarely check these calls."""
MAX_ARGUMENTS_SHOWN = 2
MAX_VALUE = 60
MISSING = object()
"""Stands for the value of a missing argument."""


class Action(NamedTuple):
    tool: str
    arguments: Mapping[str, JsonValue]
    failed: bool = False
    """Whether the tool refused the call, so that the call had no effect."""


class ToolCallDifference(NamedTuple):
    kind: Literal["never", "otherwise", "unexpected"]
    tool: str
    expected: int | None = None
    """Index of the call in the expected calls; None for an unexpected call."""
    made: int | None = None
    """Index in the calls that were made; for an expected call that never succeeded, that of its last failed attempt."""
    arguments: tuple[str, ...] = ()
    """Names of the differing arguments: first those with plain values, then those with lists and objects."""


class Mismatch(NamedTuple):
    """The place where an argument differs, with both values."""

    place: str
    ours: object
    theirs: object

    def __str__(self) -> str:
        return f"{self.place} {_told(self.ours)} instead of {_told(self.theirs)}"


def compare_calls(expected: Sequence[Action], made: Sequence[Action]) -> tuple[ToolCallDifference, ...]:
    """Return the differences, expected calls first. Differences in reading calls are omitted if other calls differ.

    Each call is paired with at most one expected call, the best matches first. For each tool, expected calls that were
    made with other arguments come before expected calls that were never made.
    """
    free = {at: one for at, one in enumerate(made) if not one.failed}
    candidates = sorted(
        (len(list(_differing(one, action))), number, -at)
        for number, action in enumerate(expected)
        for at, one in free.items()
        if one.tool == action.tool
    )
    answers: dict[int, int] = {}
    for _, number, at in candidates:
        if number not in answers and -at in free:
            answers[number] = -at
            del free[-at]
    missed = (_missed(number, action, answers.get(number), made) for number, action in enumerate(expected))
    tools = [action.tool for action in expected]
    found = sorted((one for one in missed if one), key=lambda one: (tools.index(one.tool), one.kind == "never"))
    found += _unexpected(free)
    return tuple([one for one in found if changes_state(one.tool)] or found)


def describe_difference(difference: ToolCallDifference, expected: Sequence[Action], made: Sequence[Action]) -> str:
    """Describe a difference in one line."""
    number = difference.made if difference.expected is None else difference.expected
    action = (made if difference.expected is None else expected)[number or 0]
    if difference.kind != "otherwise":
        times = sum(not one.failed and _same(one, action) for one in made)
        wanted = sum(_same(action, one) for one in expected)
        if times and wanted:
            return f"{name_call(action)} was called {pluralise(times, 'time')} instead of {wanted}"
    if difference.kind == "never":
        success = " with success" if any(_same(one, action) for one in made) else ""
        return f"{name_call(action, made)} was never called{success}"
    if difference.made is None or difference.expected is None:
        return f"{name_call(action, expected)} was called, which was not expected"
    ours, theirs = made[difference.made].arguments, expected[difference.expected].arguments
    told = [str(innermost_mismatch(name, ours, theirs)) for name in difference.arguments[:MAX_ARGUMENTS_SHOWN]]
    told += (
        [f"{len(difference.arguments) - MAX_ARGUMENTS_SHOWN} more"]
        if len(difference.arguments) > MAX_ARGUMENTS_SHOWN
        else []
    )
    return f"`{difference.tool}` was called with {' and '.join(told)}"


def innermost_mismatch(name: str, ours: Mapping[str, JsonValue], theirs: Mapping[str, JsonValue]) -> Mismatch:
    """Return the first difference within an argument, such as `flights[1].date "May 2" instead of "May 1"`."""
    return _innermost(name, ours.get(name, MISSING), theirs.get(name, MISSING))


def name_call(action: Action, others: Sequence[Action] = ()) -> str:
    """Name a call by its tool and the first argument, plain values first, that no successful call in `others` has."""
    known = [one.arguments for one in others if one.tool == action.tool and not one.failed]
    ordered = sorted(action.arguments.items(), key=lambda item: isinstance(item[1], dict | list))
    own = [(name, value) for name, value in ordered if not any(name in one and one[name] == value for one in known)]
    shown = own[:1] or ordered[: MAX_ARGUMENTS_SHOWN if known else 1]
    named = " and ".join(f"{name} {_told(value)}" for name, value in shown)
    return f"`{action.tool}` with {named}" if named else f"`{action.tool}`"


def changes_state(tool: str) -> bool:
    """Return whether a tool's name suggests that the tool changes something that a grader can check afterwards."""
    return _first_word(tool) not in READ_ONLY_VERBS | HANDOVER_VERBS


def hands_over(tool: str) -> bool:
    """Return whether a tool's name suggests that the tool hands the work over to somebody else."""
    return _first_word(tool) in HANDOVER_VERBS


def _missed(number: int, action: Action, at: int | None, made: Sequence[Action]) -> ToolCallDifference | None:
    """Return how the call at `at` differs from the expected call; None if they are equal."""
    if at is None:
        # A success after a refusal means that the model did not give up, so only refusals at the end count.
        own = [(n, one) for n, one in enumerate(made) if one.tool == action.tool]
        return ToolCallDifference("never", action.tool, number, own[-1][0] if own and own[-1][1].failed else None)
    differing = sorted(
        _differing(made[at], action), key=lambda name: isinstance(action.arguments.get(name), dict | list)
    )
    return ToolCallDifference("otherwise", action.tool, number, at, tuple(differing)) if differing else None


def _unexpected(left: Mapping[int, Action]) -> Iterator[ToolCallDifference]:
    """Yield the first unexpected call of each tool that changes something."""
    seen: set[str] = set()
    for at, action in left.items():
        if changes_state(action.tool) and action.tool not in seen:
            seen.add(action.tool)
            yield ToolCallDifference("unexpected", action.tool, made=at)


def _same(one: Action, other: Action) -> bool:
    return one.tool == other.tool and not any(_differing(one, other))


def _differing(one: Action, other: Action) -> Iterator[str]:
    for name in dict.fromkeys((*other.arguments, *one.arguments)):
        if name not in one.arguments or not _covers(one.arguments[name], other.arguments.get(name, MISSING)):
            yield name


def _covers(ours: object, theirs: object) -> bool:
    """Return whether a value equals the expected value. Objects may have additional members."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return all(key in ours and _covers(ours[key], value) for key, value in theirs.items())
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(_covers, ours, theirs))
    return ours == theirs and isinstance(ours, bool) == isinstance(theirs, bool)


def _innermost(place: str, ours: object, theirs: object) -> Mismatch:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key, value in theirs.items():
            if not _covers(ours.get(key, MISSING), value):
                return _innermost(f"{place}.{key}", ours.get(key, MISSING), value)
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for at, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            if not _covers(one, other):
                return _innermost(f"{place}[{at}]", one, other)
    return Mismatch(place, ours, theirs)


def _told(value: object) -> str:
    if value is MISSING:
        return "nothing"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_VALUE else text[: MAX_VALUE - 1] + "…"


def _first_word(tool: str) -> str:
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", tool.rpartition(".")[2])
    return words[0].lower() if words else ""
