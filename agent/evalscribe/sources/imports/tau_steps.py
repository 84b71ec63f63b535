"""What a trajectory was graded by: the expected actions against the calls that were made, the expected outputs against
what was said. The grader compares two databases; where it says that they differ, this says why they do.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from pydantic import JsonValue

from evalscribe.agent_run import AssistantMessage, ChatMessage, ToolMessage
from evalscribe.agent_run.actions import Action, differences, told_difference
from evalscribe.prose import cut
from evalscribe.run import Step
from evalscribe.sources.imports.values import line, number

LENGTH = 160
"""Characters of a value in an error."""
_REFUSED = re.compile(r"error\b", re.IGNORECASE)
_Named = Mapping[str, JsonValue]


def steps(entry: _Named, messages: Sequence[ChatMessage]) -> tuple[Step, ...]:
    """`actions` and `outputs`, as far as the file says what was expected; none where the harness broke."""
    info, reward = _named(entry.get("info")), number(entry.get("reward"))
    if reward is None or "error" in info or "traceback" in info:
        return ()
    task, graded = _named(info.get("task")), _named(info.get("reward_info"))
    told = _named(graded.get("info"))
    note = None if graded.get("reward_breakdown") else told.get("note")
    if reward < 1 and "reward_info" in info and (note or not graded):
        error = (f"{cut(line(note), LENGTH)}: " if note else "") + _unfinished(messages)
        return (Step(name="conversation", status="failed", error=error),)
    found = []
    if (actions := task.get("actions")) is not None:
        found.append(_actions(_list(actions), messages, reward, number(told.get("r_actions"))))
    if outputs := _list(task.get("outputs")):
        found.append(_outputs(outputs, messages, reward, _named(told.get("outputs"))))
    found += _assertions(graded)
    return _explained(found, reward, number(told.get("r_actions")))


def _assertions(graded: _Named) -> list[Step]:
    """Parts of the reward beside the database and the outputs, each with the first assertion that was not met."""
    parts = _named(graded.get("reward_breakdown"))
    found = []
    for part in parts.keys() - {"DB", "COMMUNICATE"}:
        unmet = [one for one in _list(graded.get(f"{part.lower()}s")) if _named(one).get("met") is False]
        error = None if number(parts[part]) == 1 else _unmet(unmet)
        found.append(Step(name=line(part.lower()), status="failed" if error else "passed", error=error))
    return sorted(found, key=lambda step: step.name)


def _unmet(assertions: list[JsonValue]) -> str:
    told = json.dumps(assertions[0], ensure_ascii=False) if assertions else "not met"
    return cut(line(told), LENGTH)


def _explained(found: list[Step], reward: float, graded: float | None) -> tuple[Step, ...]:
    """A failure that no step shows is one of the actions: of the outputs everything is known."""
    known = reward >= 1 or graded == 1 or any(step.status == "failed" for step in found)
    if known or not found or found[0].name != "actions":
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


def calls(messages: Sequence[ChatMessage]) -> Iterator[Action]:
    """The calls of tools that the model made, in order."""
    answers = {one.tool_call_id: one for one in messages if isinstance(one, ToolMessage)}
    for message in messages:
        for call in message.tool_calls if isinstance(message, AssistantMessage) else ():
            answer = answers.get(call.id)
            refused = answer is not None and (answer.error is not None or _REFUSED.match(answer.content) is not None)
            yield Action(call.function, call.arguments, refused)


def _expected(action: JsonValue) -> Action:
    named = _named(action)
    return Action(line(named.get("name")), _named(named.get("kwargs", named.get("arguments"))))


def _difference(expected: list[Action], made: list[Action]) -> str | None:
    """The most telling difference in one line; None where all was called and nothing else."""
    found = differences(expected, made)
    return line(told_difference(found[0], expected, made)) if found else None


def _unfinished(messages: Sequence[ChatMessage]) -> str:
    last = f", the last one the {messages[-1].role}'s" if messages else ""
    return f"the conversation ended after {len(messages)} messages{last}, before it could be graded"


def _named(value: JsonValue) -> _Named:
    return value if isinstance(value, dict) else {}


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []
