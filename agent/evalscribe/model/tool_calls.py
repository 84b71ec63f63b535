"""Compare expected tool calls with the actual tool calls."""

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
"""First words in the names of read-only tools. Differences in calls of read-only tools count only if no other calls
differ."""
HANDOVER_VERBS = frozenset(["escalate", "handoff", "transfer"])
"""First words in the names of tools with which an agent hands its work over to somebody else. Graders rarely check
calls of such tools."""
MAX_ARGUMENTS_SHOWN = 2
MAX_VALUE = 60
MISSING = object()
"""Stands for the value of a missing argument."""


class Action(NamedTuple):
    tool: str
    arguments: Mapping[str, JsonValue]
    failed: bool = False
    """Whether the tool refused the call. A refused call had no effect."""


class ToolCallDifference(NamedTuple):
    kind: Literal["never", "otherwise", "unexpected"]
    tool: str
    expected: int | None = None
    """Index in the list of expected calls; None for an unexpected call."""
    actual: int | None = None
    """Index in the list of actual calls. For an expected call that was never made, this is the index of the last call
    of the same tool if that last call failed; otherwise None."""
    arguments: tuple[str, ...] = ()
    """Names of the arguments that differ. Arguments with plain values come before arguments with lists and objects."""


class Mismatch(NamedTuple):
    """A place at which an argument differs, with the actual and the expected value."""

    place: str
    actual: object
    expected: object

    def __str__(self) -> str:
        return f"{self.place} {_value_text(self.actual)} instead of {_value_text(self.expected)}"


def compare_calls(expected: Sequence[Action], actual: Sequence[Action]) -> tuple[ToolCallDifference, ...]:
    """Return the differences between expected and actual calls.

    Differences in expected calls come before unexpected calls. Each actual call is paired with at most one expected
    call. Calls with the fewest differing arguments are paired first. For each tool, expected calls that were made with
    different arguments come before expected calls that were never made. Differences in calls that change nothing are
    omitted if other calls differ.
    """
    free = {index: call for index, call in enumerate(actual) if not call.failed}
    # Pair the best matches over all expected calls first. If calls were paired in order, an expected call could take
    # an actual call that exactly matches a later expected call, which would then be reported as never made.
    candidates = sorted(
        (len(list(_differing_arguments(call, action))), number, -index)
        for number, action in enumerate(expected)
        for index, call in free.items()
        if call.tool == action.tool
    )
    answers: dict[int, int] = {}
    for _, number, index in candidates:
        if number not in answers and -index in free:
            answers[number] = -index
            del free[-index]
    missed = (_missed(number, action, answers.get(number), actual) for number, action in enumerate(expected))
    tools = [action.tool for action in expected]
    differences = sorted(
        (difference for difference in missed if difference),
        key=lambda difference: (tools.index(difference.tool), difference.kind == "never"),
    )
    differences += _unexpected(free)
    return tuple([difference for difference in differences if changes_state(difference.tool)] or differences)


def describe_difference(difference: ToolCallDifference, expected: Sequence[Action], actual: Sequence[Action]) -> str:
    """Describe one difference between expected and actual calls in one line."""
    number = difference.actual if difference.expected is None else difference.expected
    action = (actual if difference.expected is None else expected)[number or 0]
    if difference.kind != "otherwise":
        times = sum(not call.failed and _same_call(call, action) for call in actual)
        expected_times = sum(_same_call(action, call) for call in expected)
        if times and expected_times:
            return f"{name_call(action)} was called {pluralise(times, 'time')} instead of {expected_times}"
    if difference.kind == "never":
        success = " with success" if any(_same_call(call, action) for call in actual) else ""
        return f"{name_call(action, actual)} was never called{success}"
    if difference.actual is None or difference.expected is None:
        return f"{name_call(action, expected)} was called, which was not expected"
    arguments, expected_arguments = actual[difference.actual].arguments, expected[difference.expected].arguments
    parts = [
        str(innermost_mismatch(name, arguments, expected_arguments))
        for name in difference.arguments[:MAX_ARGUMENTS_SHOWN]
    ]
    parts += (
        [f"{len(difference.arguments) - MAX_ARGUMENTS_SHOWN} more"]
        if len(difference.arguments) > MAX_ARGUMENTS_SHOWN
        else []
    )
    return f"`{difference.tool}` was called with {' and '.join(parts)}"


def innermost_mismatch(name: str, actual: Mapping[str, JsonValue], expected: Mapping[str, JsonValue]) -> Mismatch:
    """Return the first place at which the two values of an argument differ, such as `flights[1].date "May 2" instead of
    "May 1"`."""
    return _innermost(name, actual.get(name, MISSING), expected.get(name, MISSING))


def name_call(action: Action, other_calls: Sequence[Action] = ()) -> str:
    """Describe a call by its tool and by an argument that distinguishes it from other calls.

    The argument is the first one that every successful call of the tool in `other_calls` lacks or has with a different
    value. Arguments with plain values come before lists and objects. If no argument distinguishes the call, the first
    ones are used.
    """
    other_arguments = [call.arguments for call in other_calls if call.tool == action.tool and not call.failed]
    ordered = sorted(action.arguments.items(), key=lambda item: isinstance(item[1], dict | list))
    distinguishing = [
        (name, value)
        for name, value in ordered
        if not any(name in arguments and arguments[name] == value for arguments in other_arguments)
    ]
    named_arguments = distinguishing[:1] or ordered[: MAX_ARGUMENTS_SHOWN if other_arguments else 1]
    text = " and ".join(f"{name} {_value_text(value)}" for name, value in named_arguments)
    return f"`{action.tool}` with {text}" if text else f"`{action.tool}`"


def changes_state(tool: str) -> bool:
    """Return whether, judging by its name, a tool changes something that a grader can check afterwards."""
    return _first_word(tool) not in READ_ONLY_VERBS | HANDOVER_VERBS


def hands_over(tool: str) -> bool:
    """Return whether, judging by its name, a tool hands the work over to somebody else."""
    return _first_word(tool) in HANDOVER_VERBS


def _missed(number: int, action: Action, index: int | None, actual: Sequence[Action]) -> ToolCallDifference | None:
    """Return the difference between the expected call and the actual call at `index`; None if the calls are equal.

    If `index` is None, the expected call was never made.
    """
    if index is None:
        # If a call succeeded after a refused call, the model did not give up. Therefore only a refusal of the tool's
        # last call counts.
        calls = [(n, call) for n, call in enumerate(actual) if call.tool == action.tool]
        return ToolCallDifference("never", action.tool, number, calls[-1][0] if calls and calls[-1][1].failed else None)
    arguments = sorted(
        _differing_arguments(actual[index], action),
        key=lambda name: isinstance(action.arguments.get(name), dict | list),
    )
    return ToolCallDifference("otherwise", action.tool, number, index, tuple(arguments)) if arguments else None


def _unexpected(unpaired: Mapping[int, Action]) -> Iterator[ToolCallDifference]:
    """Yield the first unexpected call of each tool, for tools that change something."""
    tools: set[str] = set()
    for index, action in unpaired.items():
        if changes_state(action.tool) and action.tool not in tools:
            tools.add(action.tool)
            yield ToolCallDifference("unexpected", action.tool, actual=index)


def _same_call(actual: Action, expected: Action) -> bool:
    return actual.tool == expected.tool and not any(_differing_arguments(actual, expected))


def _differing_arguments(actual: Action, expected: Action) -> Iterator[str]:
    for name in dict.fromkeys((*expected.arguments, *actual.arguments)):
        if name not in actual.arguments or not _covers(actual.arguments[name], expected.arguments.get(name, MISSING)):
            yield name


def _covers(actual: object, expected: object) -> bool:
    """Return whether a value equals the expected value.

    Additional members of objects in the actual value are ignored.
    """
    if isinstance(actual, dict) and isinstance(expected, dict):
        return all(key in actual and _covers(actual[key], value) for key, value in expected.items())
    if isinstance(actual, list) and isinstance(expected, list):
        return len(actual) == len(expected) and all(map(_covers, actual, expected))
    # In Python, `True == 1`.
    return actual == expected and isinstance(actual, bool) == isinstance(expected, bool)


def _innermost(path: str, actual: object, expected: object) -> Mismatch:
    if isinstance(actual, dict) and isinstance(expected, dict):
        for key, value in expected.items():
            if not _covers(actual.get(key, MISSING), value):
                return _innermost(f"{path}.{key}", actual.get(key, MISSING), value)
    if isinstance(actual, list) and isinstance(expected, list) and len(actual) == len(expected):
        for index, (actual_item, expected_item) in enumerate(zip(actual, expected, strict=True)):
            if not _covers(actual_item, expected_item):
                return _innermost(f"{path}[{index}]", actual_item, expected_item)
    return Mismatch(path, actual, expected)


def _value_text(value: object) -> str:
    if value is MISSING:
        return "nothing"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_VALUE else text[: MAX_VALUE - 1] + "…"


def _first_word(tool: str) -> str:
    # A name can begin with a namespace, and its words can be separated by `_` or by capital letters (`cancelBooking`).
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", tool.rpartition(".")[2])
    return words[0].lower() if words else ""
