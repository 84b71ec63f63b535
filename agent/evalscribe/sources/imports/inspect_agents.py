"""Conversations of an Inspect sample that its messages do not hold: what sub-agents, critics and the like said."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from evalscribe.errors import DataError
from evalscribe.ids import canonical_json
from evalscribe.sources.imports.left_out import LeftOut

MOST = 100
"""Conversations of one sample that are kept."""
MOST_MESSAGES = 100_000
"""Of one conversation and of all together: a hostile file can name the places in a pool again and again."""
_TOO_MANY = "a conversation of a sub-agent, of which the sample has too many or too long ones"
_NAMING = ("agent", "subtask", "tool", "solver")
_GRADING = ("scorer", "scorers")


class Conversation(NamedTuple):
    name: str
    """Of the agent, else of what asked the model."""
    messages: list[object]
    marks: frozenset[str]
    """Of its last answer."""


class _Span(NamedTuple):
    parent: str
    type: str
    name: str


def conversations(
    events: Sequence[object], pool: Sequence[object], messages: Sequence[object], left_out: LeftOut
) -> list[Conversation]:
    """Each as its last model call has it; scorers' are none. `pool` holds messages that events name by their places."""
    known = _marks_of(messages)
    found: dict[str, list[Conversation]] = {}
    kept = 0
    for event, span, name in _calls(events):
        answer = _answer(event)
        if not answer or (marks := _marks(answer)) & known:
            continue
        if (asked := _asked(event, pool)) is None:
            left_out.add(_TOO_MANY)
            continue
        new = Conversation(name, [*asked, answer], marks)
        told, before = found.setdefault(span, []), _marks_of(asked)
        continued = next((n for n in reversed(range(len(told))) if told[n].marks & before), None)
        if continued is not None:
            told[continued] = new
        elif kept < MOST:
            told.append(new)
            kept += 1
        else:
            left_out.add(_TOO_MANY)
    return list(_bounded((one for told in found.values() for one in told), left_out))


def _bounded(found: Iterable[Conversation], left_out: LeftOut) -> Iterator[Conversation]:
    room = MOST_MESSAGES
    for one in found:
        room -= len(one.messages)
        if room < 0:
            left_out.add(_TOO_MANY)
        else:
            yield one


def placed(refs: object, pool: Sequence[object]) -> list[object]:
    """The messages at `[[first, end], …]` of a pool. Raises `DataError` where they are too many."""
    found: list[object] = []
    for ref in refs if isinstance(refs, list) else []:
        if isinstance(ref, list) and len(ref) == 2 and all(isinstance(one, int) and one >= 0 for one in ref):
            found += pool[ref[0] : ref[1]]
        if len(found) > MOST_MESSAGES:
            raise DataError(f"a conversation of more than {MOST_MESSAGES} messages")
    return found


def _calls(events: Sequence[object]) -> Iterator[tuple[Mapping[str, object], str, str]]:
    """Calls of models that are no scorer's, with the id and the name of what they were made in."""
    spans: dict[str, _Span] = {}
    steps: list[_Span] = []
    for event in events:
        if not isinstance(event, Mapping):
            continue
        kind, own = event.get("event"), _Span(*(str(event.get(key)) for key in ("parent_id", "type", "name")))
        if kind == "span_begin":
            spans[str(event.get("id"))] = own
        elif kind == "step":  # In place of spans, in logs of older versions.
            steps = [*steps, own] if event.get("action") == "begin" else steps[:-1]
        elif kind == "model":
            span = str(event.get("span_id"))
            inside = [*_outwards(span, spans)] if span in spans else steps[::-1]
            if not any(one.type in _GRADING for one in inside):
                name = next((one.name for one in inside if one.type in _NAMING), "agent")
                yield event, span, name


def _outwards(id: str, spans: Mapping[str, _Span]) -> Iterator[_Span]:
    for _ in range(len(spans)):  # A hostile file's spans may stand in a circle.
        if id not in spans:
            return
        yield spans[id]
        id = spans[id].parent


def _asked(event: Mapping[str, object], pool: Sequence[object]) -> list[object] | None:
    """None where they are too many."""
    given = event.get("input")
    with suppress(DataError):
        return given if isinstance(given, list) and given else placed(event.get("input_refs"), pool)
    return None


def _answer(event: Mapping[str, object]) -> Mapping[str, object]:
    output = event.get("output")
    choices = output.get("choices") if isinstance(output, Mapping) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, Mapping) else None
    return message if isinstance(message, Mapping) else {}


def _marks_of(messages: Sequence[object]) -> frozenset[str]:
    return frozenset(mark for message in messages if isinstance(message, Mapping) for mark in _marks(message))


def _marks(message: Mapping[str, object]) -> frozenset[str]:
    """What a message is known by elsewhere: its id and those of its calls; without either what it says."""
    calls = message.get("tool_calls")
    named = [message, *(calls if isinstance(calls, list) else [])]
    ids = {str(one["id"]) for one in named if isinstance(one, Mapping) and one.get("id")}
    said = {key: message.get(key) for key in ("role", "content")}
    return frozenset(ids or {canonical_json(said)})
