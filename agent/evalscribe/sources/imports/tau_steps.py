"""What a trajectory was graded by: the expected actions against the calls that were made, the expected outputs against
what was said. The grader compares two databases; where it says that they differ, this says why they do.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from pydantic import JsonValue

from evalscribe.agent_run import AssistantMessage, ChatMessage, ToolMessage
from evalscribe.prose import cut
from evalscribe.run import Step
from evalscribe.sources.imports.values import line, number

LENGTH = 160
"""Characters of a value in an error."""
_READS = re.compile(r"(?:get|list|find|search|lookup|calculate|think|read|check|view|show)(?:_|$)", re.IGNORECASE)
"""Tools that change nothing, by the way such tools are called."""
_REFUSED = re.compile(r"error\b", re.IGNORECASE)
MOST_PLACES = 2
NOTHING = "nothing"
_Named = Mapping[str, JsonValue]


class Call(NamedTuple):
    name: str
    arguments: _Named
    refused: str | None
    """What the tool answered in place of doing it."""


def steps(entry: _Named, messages: Sequence[ChatMessage]) -> tuple[Step, ...]:
    """`actions` and `outputs`, as far as the file says what was expected; none where the harness broke."""
    info, reward = _named(entry.get("info")), number(entry.get("reward"))
    if reward is None or "error" in info or "traceback" in info:
        return ()
    task, graded = _named(info.get("task")), _named(info.get("reward_info"))
    if reward < 1 and "reward_info" in info and not graded:
        return (Step(name="conversation", status="failed", error=_unfinished(messages)),)
    told = _named(graded.get("info"))
    found = []
    if (actions := task.get("actions")) is not None:
        found.append(_actions(_list(actions), messages, reward, number(told.get("r_actions"))))
    if outputs := _list(task.get("outputs")):
        found.append(_outputs(outputs, messages, reward, _named(told.get("outputs"))))
    return _explained(found, reward)


def _explained(found: list[Step], reward: float) -> tuple[Step, ...]:
    """A failure that neither step shows is one of the actions: of the outputs everything is known."""
    if reward >= 1 or not found or any(step.status == "failed" for step in found) or found[0].name != "actions":
        return tuple(found)
    error = "every expected action was called, and yet the database differs from the expected one"
    return (found[0].model_copy(update={"status": "failed", "error": error}), *found[1:])


def _actions(expected: list[JsonValue], messages: Sequence[ChatMessage], reward: float, graded: float | None) -> Step:
    if reward >= 1 or graded == 1:
        return Step(name="actions", status="passed")
    difference = _difference([_expected(action) for action in expected], list(calls(messages)))
    return Step(name="actions", status="failed" if difference else "passed", error=difference)


def _outputs(expected: list[JsonValue], messages: Sequence[ChatMessage], reward: float, graded: _Named) -> Step:
    """An output counts as said where the grader says so, else where it stands in an answer, commas aside."""
    if reward >= 1:
        return Step(name="outputs", status="passed")
    said = "\n".join(one.content for one in messages if isinstance(one, AssistantMessage)).lower().replace(",", "")
    unsaid = [one for text in expected if not graded.get(one := str(text), one.lower().replace(",", "") in said)]
    if not unsaid:
        return Step(name="outputs", status="passed")
    more = f" (and {len(unsaid) - 1} more)" if len(unsaid) > 1 else ""
    return Step(
        name="outputs", status="failed", error=f"the user was never told {cut(line(unsaid[0]), LENGTH)!r}{more}"
    )


def calls(messages: Sequence[ChatMessage]) -> Iterator[Call]:
    """The calls of tools that the model made, in order."""
    answers = {one.tool_call_id: one for one in messages if isinstance(one, ToolMessage)}
    for message in messages:
        for call in message.tool_calls if isinstance(message, AssistantMessage) else ():
            answer = answers.get(call.id)
            yield Call(call.function, call.arguments, _refusal(answer) if answer else None)


def _refusal(answer: ToolMessage) -> str | None:
    return answer.error or (answer.content if _REFUSED.match(answer.content) else None)


def _expected(action: JsonValue) -> Call:
    named = _named(action)
    return Call(line(named.get("name")), _named(named.get("kwargs", named.get("arguments"))), None)


def _difference(expected: list[Call], made: list[Call]) -> str | None:
    """The first differences that there are, in one line; None where all was called and nothing else.

    What changes nothing is told only where all else is as expected.
    """
    left = list(made)
    lacking = []
    for action in expected:
        match = next((call for call in left if _same(action, call) and not call.refused), None)
        if match is None:
            lacking.append(action)
        else:
            left.remove(match)
    lacking.sort(key=_reads)
    extra = [call for call in left if not call.refused and not _reads(call)]
    if not lacking or (extra and _reads(lacking[0])):
        return f"{_called(extra[0])} was called and not expected" if extra else None
    more = f" (and {len(lacking) - 1} more of {len(expected)} expected actions)" if len(lacking) > 1 else ""
    others = [call for call in extra if call.name not in {action.name for action in lacking}]
    also = f"; {_called(others[0])} was called and not expected" if others else ""
    return _why(lacking[0], left) + more + also


def _reads(call: Call) -> bool:
    return bool(_READS.match(call.name))


def _why(action: Call, left: list[Call]) -> str:
    if refused := next((call for call in left if _same(action, call)), None):
        return f"{action.name} was called as expected and refused: {cut(line(refused.refused), LENGTH)}"
    others = [call for call in left if call.name == action.name]
    if not others:
        return f"{_called(action)} was expected and never called"
    nearest = max(others, key=lambda call: (_alike(action, call), not call.refused))
    refused_too = f"; it was refused: {cut(line(nearest.refused), LENGTH)}" if nearest.refused else ""
    return f"{action.name} was called with other arguments: {_other(action, nearest)}{refused_too}"


def _other(action: Call, call: Call) -> str:
    places = list(_places("", dict(action.arguments), dict(call.arguments)))
    more = [f"{len(places) - MOST_PLACES} more"] if len(places) > MOST_PLACES else []
    return ", ".join(places[:MOST_PLACES] + more)


def _places(place: str, expected: JsonValue, given: JsonValue) -> Iterator[str]:
    """Where two values differ, as deep as they can be told apart: `flights[0].date "05-21" in place of "05-22"`."""
    if isinstance(expected, dict) and isinstance(given, dict):
        for name in {**expected, **given}:
            inner = f"{place}.{name}" if place else name
            yield from _places(inner, expected.get(name, NOTHING), given.get(name, NOTHING))
    elif isinstance(expected, list) and isinstance(given, list) and len(expected) == len(given):
        for n, (one, other) in enumerate(zip(expected, given, strict=True)):
            yield from _places(f"{place}[{n}]", one, other)
    elif expected != given:
        yield f"{line(place)} {_shown(given)} in place of {_shown(expected)}"


def _shown(value: JsonValue) -> str:
    return NOTHING if value is NOTHING else _json(value)


def _called(call: Call) -> str:
    return f"{call.name}({cut(', '.join(f'{name}={_json(value)}' for name, value in call.arguments.items()), LENGTH)})"


def _json(value: JsonValue) -> str:
    return cut(line(json.dumps(value, ensure_ascii=False)), LENGTH)


def _alike(action: Call, call: Call) -> int:
    return sum(_equal(action, call, name) for name in action.arguments)


def _equal(action: Call, call: Call, name: str) -> bool:
    return name in action.arguments and name in call.arguments and action.arguments[name] == call.arguments[name]


def _same(action: Call, call: Call) -> bool:
    return action.name == call.name and action.arguments == call.arguments


def _unfinished(messages: Sequence[ChatMessage]) -> str:
    last = f", the last one the {messages[-1].role}'s" if messages else ""
    return f"the conversation ended after {len(messages)} messages{last}, before it could be graded"


def _named(value: JsonValue) -> _Named:
    return value if isinstance(value, dict) else {}


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []
