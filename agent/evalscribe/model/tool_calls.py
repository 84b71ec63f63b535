"""Compare expected tool calls with those that were made."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from pydantic import JsonValue

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
"""First words of the names of tools that change nothing: a difference there matters only where there is no other."""
HANDOVER_VERBS = frozenset(["escalate", "handoff", "transfer"])
"""The same of tools that end the work and leave it to somebody else: graders seldom mind."""
MAX_ARGUMENTS_SHOWN = 2
MAX_VALUE = 60
MISSING = object()
"""The value of an argument that is not given."""


class Action(NamedTuple):
    tool: str
    arguments: Mapping[str, JsonValue]
    failed: bool = False
    """Whether the tool refused it, so that it had no effect."""


class ToolCallDifference(NamedTuple):
    kind: Literal["never", "otherwise", "unasked"]
    tool: str
    expected: int | None = None
    """Which of the expected calls."""
    made: int | None = None
    """Which of the calls that were made; for one that was never called with effect, the last that failed."""
    arguments: tuple[str, ...] = ()
    """Names of those that differ: plain values before lists and objects, else in the order of the expected call."""


class Mismatch(NamedTuple):
    """Where the value of an argument differs, and both values there."""

    place: str
    ours: object
    theirs: object

    def __str__(self) -> str:
        return f"{self.place} {_told(self.ours)} instead of {_told(self.theirs)}"


def compare_calls(expected: Sequence[Action], made: Sequence[Action]) -> tuple[ToolCallDifference, ...]:
    """Most telling first: calls that change something before those that only read, expected ones in their order."""
    left = dict(enumerate(made))
    unmet = []
    for number, action in enumerate(expected):
        same = next((at for at, one in _effective_first(left) if _same(one, action)), None)
        if same is None:
            unmet.append(number)
        elif not left.pop(same).failed:
            continue
        else:
            unmet.append(number)
    found = [_missed(number, expected[number], left, made) for number in unmet]
    found += _unasked(left)
    return tuple([one for one in found if changes_state(one.tool)] or found)


def describe_difference(difference: ToolCallDifference, expected: Sequence[Action], made: Sequence[Action]) -> str:
    """In one line."""
    if difference.kind == "never" and difference.expected is not None:
        success = " with success" if difference.made is not None else ""
        return f"{_which(expected[difference.expected])} was never called{success}"
    if difference.made is None or difference.expected is None:
        return f"{_which(made[difference.made or 0])} was called, which was not expected"
    ours, theirs = made[difference.made].arguments, expected[difference.expected].arguments
    told = [str(innermost_mismatch(name, ours, theirs)) for name in difference.arguments[:MAX_ARGUMENTS_SHOWN]]
    told += (
        [f"{len(difference.arguments) - MAX_ARGUMENTS_SHOWN} more"]
        if len(difference.arguments) > MAX_ARGUMENTS_SHOWN
        else []
    )
    return f"`{difference.tool}` was called with {' and '.join(told)}"


def innermost_mismatch(name: str, ours: Mapping[str, JsonValue], theirs: Mapping[str, JsonValue]) -> Mismatch:
    """An argument down to the first member that differs: `flights[1].date "May 2" instead of "May 1"`."""
    return _innermost(name, ours.get(name, MISSING), theirs.get(name, MISSING))


def _which(action: Action) -> str:
    """The call with the first of its arguments that is a plain value, which mostly says on what it works."""
    plain = ((name, value) for name, value in action.arguments.items() if not isinstance(value, dict | list))
    name, value = next(plain, ("", None))
    return f"`{action.tool}` with {name} {_told(value)}" if name else f"`{action.tool}`"


def changes_state(tool: str) -> bool:
    """Whether a tool, by its name, does anything that a grader could find afterwards."""
    return _first_word(tool) not in READ_ONLY_VERBS | HANDOVER_VERBS


def _missed(number: int, action: Action, left: dict[int, Action], made: Sequence[Action]) -> ToolCallDifference:
    """The nearest call of the same tool that had an effect answers to it; no other call answers to that one."""
    near = [at for at, one in left.items() if one.tool == action.tool and not one.failed]
    if not near:
        tried = [at for at, one in enumerate(made) if one.tool == action.tool and one.failed]
        return ToolCallDifference("never", action.tool, number, tried[-1] if tried else None)
    best = max(near, key=lambda at: (_likeness(left[at], action), at))
    nearest = left.pop(best)
    differing = sorted(
        _differing(nearest, action), key=lambda name: isinstance(action.arguments.get(name), dict | list)
    )
    return ToolCallDifference("otherwise", action.tool, number, best, tuple(differing))


def _unasked(left: Mapping[int, Action]) -> Iterator[ToolCallDifference]:
    """Calls with an effect that nobody expected; of those that a tool was called for again, the first of each tool."""
    seen: set[str] = set()
    for at, action in left.items():
        if not action.failed and changes_state(action.tool) and action.tool not in seen:
            seen.add(action.tool)
            yield ToolCallDifference("unasked", action.tool, made=at)


def _effective_first(left: Mapping[int, Action]) -> Iterable[tuple[int, Action]]:
    return sorted(left.items(), key=lambda item: item[1].failed)


def _same(one: Action, other: Action) -> bool:
    return one.tool == other.tool and not any(_differing(one, other))


def _differing(one: Action, other: Action) -> Iterator[str]:
    for name in dict.fromkeys((*other.arguments, *one.arguments)):
        if name not in one.arguments or not _covers(one.arguments[name], other.arguments.get(name, MISSING)):
            yield name


def _covers(ours: object, theirs: object) -> bool:
    """Whether a value is the expected one; an object inside it may have more members than were expected."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return all(key in ours and _covers(ours[key], value) for key, value in theirs.items())
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(_covers, ours, theirs))
    return ours == theirs and isinstance(ours, bool) == isinstance(theirs, bool)


def _likeness(one: Action, other: Action) -> int:
    return sum(_covers(one.arguments.get(name, MISSING), value) for name, value in other.arguments.items())


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
