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
        """Quote the turn's first paragraph without its header, at most `lines` lines."""
        texts = self.document.lines
        below = range(self.turn.first + 1, self.turn.last + 1)
        said = list(takewhile(lambda n: texts[n - 1].strip(), dropwhile(lambda n: not texts[n - 1].strip(), below)))
        first, last = (said[0], said[:lines][-1]) if said else (self.turn.first, self.turn.first)
        return cite_lines(self.document, first, last)

    def header(self, lines: int = 1) -> Citation:
        return cite_lines(self.document, self.turn.first, min(self.turn.first + lines - 1, self.turn.last))

    def argument(self, name: str) -> Citation:
        """Quote the line of an argument of a call, or the call's header if it has no such argument."""
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
        found = self.evidence.of("transcript")
        return tuple(LocatedTurn(document, turn) for document in found for turn in parse_transcript(document.text))

    @cached_property
    def by_model(self) -> tuple[LocatedTurn, ...]:
        return tuple(said for said in self.turns if said.turn.role == "assistant")

    @cached_property
    def words(self) -> tuple[LocatedTurn, ...]:
        """The model's messages, without its thinking."""
        return tuple(said for said in self.by_model if said.turn.kind == "says" and said.turn.text.strip())

    @cached_property
    def made(self) -> tuple[AnsweredCall, ...]:
        """The model's tool calls in order, each with the tool's answer."""
        return tuple(_made(self.turns))[:MOST_CALLS]

    @cached_property
    def is_agent_run(self) -> bool:
        """Whether the model called tools, or spoke with a user more than once."""
        return bool(self.made) or sum(said.turn.role == "user" for said in self.turns) > 1

    @cached_property
    def actions(self) -> tuple[Action, ...]:
        return tuple(made.action for made in self.made)

    @cached_property
    def expected(self) -> tuple[LocatedTurn, ...]:
        """The expected tool calls, if a reference lists any."""
        found = (said for document in self.evidence.of("expected") for said in _expected(document))
        return tuple(found)[:MOST_EXPECTED]

    @cached_property
    def wanted(self) -> tuple[Action, ...]:
        return tuple(Action(said.turn.name or "", said.turn.arguments) for said in self.expected)

    def first_saying(self, text: str, turns: Iterable[LocatedTurn]) -> Citation | None:
        """Quote the first line in these turns that contains a text."""
        for said in turns:
            for number in range(said.turn.first + 1, said.turn.last + 1):
                if text in said.document.lines[number - 1]:
                    return cite_lines(said.document, number, number)
        return None


def _made(turns: Iterable[LocatedTurn]) -> Iterator[AnsweredCall]:
    """Return the calls with their answers. An answer belongs to the first unanswered call, preferably of its name."""
    waiting: list[LocatedTurn] = []
    answers: dict[int, LocatedTurn] = {}
    calls = []
    for said in turns:
        if said.turn.kind == "calls":
            waiting.append(said)
            calls.append(said)
        elif said.turn.role == "tool" and waiting:
            name = said.turn.name
            own = next((one for one in waiting if name in (None, one.turn.name)), waiting[0])
            waiting.remove(own)
            answers[id(own)] = said
        elif said.turn.role != "assistant":
            waiting.clear()
    return (AnsweredCall(call, answers.get(id(call))) for call in calls)


def _expected(document: Document) -> Iterator[LocatedTurn]:
    """Return the calls in a document: as written by `render_calls`, or a JSON list of names and arguments."""
    turns = parse_calls(document.text) or tuple(_listed(document))
    return (LocatedTurn(document, turn) for turn in turns)


def _listed(document: Document) -> Iterator[TranscriptTurn]:
    try:
        entries = json.loads(document.text)
    except (ValueError, RecursionError):
        return
    line = 0
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, dict) or not isinstance(name := entry.get("name", entry.get("function")), str):
            return
        given = entry.get("arguments", entry.get("kwargs", {}))
        arguments = given if isinstance(given, dict) else {}
        line = _line_with(document, json.dumps(name, ensure_ascii=False), line)
        places = {key: _line_with(document, f"{json.dumps(key, ensure_ascii=False)}:", line) for key in arguments}
        yield _turn(name, arguments, line, places)


def _turn(name: str, arguments: dict[str, object], line: int, places: Mapping[str, int]) -> TranscriptTurn:
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
    found = (n for n, line in enumerate(document.lines[after:], after + 1) if text in line)
    return next(found, max(1, after))
