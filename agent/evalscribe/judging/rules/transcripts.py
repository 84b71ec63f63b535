"""Read the transcripts of a failed eval: turns, tool calls with their answers, expected calls."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import dropwhile, takewhile

from evalscribe.judging.quotations import cite_lines
from evalscribe.model.evidence import Citation, Document, Evidence
from evalscribe.model.tool_calls import Action
from evalscribe.model.transcript import TranscriptTurn, parse_calls, parse_transcript

REFUSED = re.compile(r"\W{0,2}(?:error|exception|traceback)\b", re.IGNORECASE)
MOST_CALLS = 2000
MOST_EXPECTED = 200
MOST_QUOTED = 3


@dataclass(frozen=True)
class LocatedTurn:
    """One turn of a transcript, and the document that contains it."""

    document: Document
    turn: TranscriptTurn

    def quoted(self, lines: int = MOST_QUOTED) -> Citation:
        """Quote at most `lines` lines of the turn's first paragraph, without the turn's header."""
        texts = self.document.lines
        below = range(self.turn.first + 1, self.turn.last + 1)
        numbers = list(takewhile(lambda n: texts[n - 1].strip(), dropwhile(lambda n: not texts[n - 1].strip(), below)))
        first, last = (numbers[0], numbers[:lines][-1]) if numbers else (self.turn.first, self.turn.first)
        return cite_lines(self.document, first, last)

    def header(self, lines: int = 1) -> Citation:
        return cite_lines(self.document, self.turn.first, min(self.turn.first + lines - 1, self.turn.last))

    def argument(self, name: str) -> Citation:
        """Quote the line with an argument of a call. If the call has no such argument, quote the call's header."""
        line = self.turn.places.get(name, self.turn.first)
        return cite_lines(self.document, line, line)


@dataclass(frozen=True)
class AnsweredCall:
    """A tool call and the tool's answer."""

    call: LocatedTurn
    answer: LocatedTurn | None

    @property
    def failed(self) -> bool:
        return self.answer is not None and (
            self.answer.turn.kind == "fails" or REFUSED.match(self.answer.turn.text) is not None
        )

    @property
    def action(self) -> Action:
        return Action(self.call.turn.name or "", self.call.turn.arguments, self.failed)


@dataclass(frozen=True)
class Transcripts:
    """The transcripts of one eval, with its calls and expected calls."""

    evidence: Evidence

    @cached_property
    def turns(self) -> tuple[LocatedTurn, ...]:
        documents = self.evidence.of("transcript")
        return tuple(LocatedTurn(document, turn) for document in documents for turn in parse_transcript(document.text))

    @cached_property
    def by_model(self) -> tuple[LocatedTurn, ...]:
        return tuple(located for located in self.turns if located.turn.role == "assistant")

    @cached_property
    def messages(self) -> tuple[LocatedTurn, ...]:
        """The model's messages, without its thinking."""
        return tuple(located for located in self.by_model if located.turn.kind == "says" and located.turn.text.strip())

    @cached_property
    def calls(self) -> tuple[AnsweredCall, ...]:
        """The model's tool calls in order, each with the tool's answer."""
        return tuple(_answered_calls(self.turns))[:MOST_CALLS]

    @cached_property
    def is_agent_run(self) -> bool:
        """True if the model called tools or exchanged several messages with a user."""
        return bool(self.calls) or sum(located.turn.role == "user" for located in self.turns) > 1

    @cached_property
    def actions(self) -> tuple[Action, ...]:
        return tuple(call.action for call in self.calls)

    @cached_property
    def expected(self) -> tuple[LocatedTurn, ...]:
        """The expected tool calls; empty if no reference lists expected calls."""
        calls = (call for document in self.evidence.of("expected") for call in _expected(document))
        return tuple(calls)[:MOST_EXPECTED]

    @cached_property
    def expected_actions(self) -> tuple[Action, ...]:
        return tuple(Action(call.turn.name or "", call.turn.arguments) for call in self.expected)

    def first_saying(self, text: str, turns: Iterable[LocatedTurn]) -> Citation | None:
        """Quote the first line in these turns that contains a text; None if no line does."""
        for located in turns:
            for number in range(located.turn.first + 1, located.turn.last + 1):
                if text in located.document.lines[number - 1]:
                    return cite_lines(located.document, number, number)
        return None


def _answered_calls(turns: Iterable[LocatedTurn]) -> Iterator[AnsweredCall]:
    """Yield the calls with their answers.

    An answer belongs to the first unanswered call of the same tool, or else to the first unanswered call.
    """
    waiting: list[LocatedTurn] = []
    answers: dict[int, LocatedTurn] = {}
    calls = []
    for located in turns:
        if located.turn.kind == "calls":
            waiting.append(located)
            calls.append(located)
        elif located.turn.role == "tool" and waiting:
            name = located.turn.name
            answered = next((call_turn for call_turn in waiting if name in (None, call_turn.turn.name)), waiting[0])
            waiting.remove(answered)
            answers[id(answered)] = located
        elif located.turn.role != "assistant":
            # Calls that have no answer when the user speaks were never executed. tau-bench, for example, only executes
            # the first call of a message.
            waiting.clear()
    return (AnsweredCall(call, answers.get(id(call))) for call in calls)


def _expected(document: Document) -> Iterator[LocatedTurn]:
    """Yield the calls that a document lists.

    The document is in the format of `render_calls`, or it is a JSON list of names and arguments.
    """
    turns = parse_calls(document.text) or tuple(_json_calls(document))
    return (LocatedTurn(document, turn) for turn in turns)


def _json_calls(document: Document) -> Iterator[TranscriptTurn]:
    try:
        entries = json.loads(document.text)
    # Deeply nested JSON raises `RecursionError`.
    except (ValueError, RecursionError):
        return
    line = 0
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, dict) or not isinstance(name := entry.get("name", entry.get("function")), str):
            return
        fields = entry.get("arguments", entry.get("kwargs", {}))
        arguments = fields if isinstance(fields, dict) else {}
        line = _line_with(document, json.dumps(name, ensure_ascii=False), line)
        places = {key: _line_with(document, f"{json.dumps(key, ensure_ascii=False)}:", line) for key in arguments}
        yield _turn_of_call(name, arguments, line, places)


def _turn_of_call(name: str, arguments: dict[str, object], line: int, places: Mapping[str, int]) -> TranscriptTurn:
    return TranscriptTurn.model_validate(
        {
            "number": 0,
            "role": "assistant",
            "kind": "calls",
            "name": name,
            "first": line,
            "last": max((line, *places.values())),
            "arguments": arguments,
            "places": places,
        }
    )


def _line_with(document: Document, text: str, after: int) -> int:
    """Return the number of the first line after line `after` that contains a text; `after` if there is none."""
    numbers = (n for n, line in enumerate(document.lines[after:], after + 1) if text in line)
    return next(numbers, max(1, after))
