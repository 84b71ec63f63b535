"""A desk that books rooms: its tools, twelve requests, and two scripted agents that answer them.

The agents are two checkpoints of one model. The first books the first room that fits, which is not always the smallest;
the second books the smallest, but gives up if the room of a booking is taken at the new time. Both omit the room's name
in some answers, at random by trial, and neither asks for the number of people if the request does not give it.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from evalscribe.model.transcript import (
    AssistantMessage,
    ChatMessage,
    SystemMessage,
    ToolMessage,
    TranscriptToolCall,
    UserMessage,
)

SEATS = {"Oak": 12, "Fir": 4, "Elm": 8, "Ash": 24}
"""Seats of each room, in the order in which the desk lists the rooms."""
POLICY = """\
You are the room desk. Book the smallest free room that seats everybody.
A booking moves to another time in its own room; where that is taken, cancel it and book another room.
Never promise what you have not done. Name the room and the booking in your answer."""


@dataclass(frozen=True)
class Booking:
    room: str
    time: str
    people: int


@dataclass
class Desk:
    bookings: dict[str, Booking] = field(
        default_factory=lambda: {
            "B1": Booking("Elm", "Mon 10", 6),
            "B2": Booking("Fir", "Mon 10", 3),
            "B3": Booking("Elm", "Tue 9", 7),
            "B4": Booking("Oak", "Tue 14", 10),
            "B5": Booking("Elm", "Tue 14", 5),
            "B6": Booking("Oak", "Wed 11", 9),
        }
    )

    def find_rooms(self, time: str, people: int) -> Any:
        taken = {one.room for one in self.bookings.values() if one.time == time}
        return [{"room": room, "seats": n} for room, n in SEATS.items() if n >= people and room not in taken]

    def get_booking(self, booking: str) -> Any:
        return self._of(booking).__dict__

    def book_room(self, room: str, time: str, people: int) -> Any:
        if room not in {one["room"] for one in self.find_rooms(time, people)}:
            raise ValueError(f"{room} is taken or too small")
        name = f"B{len(self.bookings) + 1}"
        self.bookings[name] = Booking(room, time, people)
        return {"booking": name}

    def move_booking(self, booking: str, time: str) -> Any:
        current = self._of(booking)
        if current.room not in {one["room"] for one in self.find_rooms(time, current.people)}:
            raise ValueError(f"{current.room} is taken at {time}")
        self.bookings[booking] = Booking(current.room, time, current.people)
        return {"booking": booking}

    def cancel_booking(self, booking: str) -> Any:
        self.bookings[booking] = Booking("none", self._of(booking).time, 0)
        return {"cancelled": booking}

    def _of(self, booking: str) -> Booking:
        if booking not in self.bookings:
            raise ValueError(f"there is no booking {booking}")
        return self.bookings[booking]

    def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        tools: dict[str, Callable[..., Any]] = {
            name: getattr(self, name)
            for name in ("find_rooms", "get_booking", "book_room", "move_booking", "cancel_booking")
        }
        return tools[tool](**arguments)


Call = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Request:
    """A user's request, the expected tool calls, and the texts that the answer must contain."""

    name: str
    text: str
    wants: tuple[Any, ...]
    """The request as a verb and its objects, for the scripted agents."""
    expected: tuple[Call, ...] = ()
    outputs: tuple[str, ...] = ()


def _book(name: str, room: str, time: str, people: int) -> Request:
    text = f"We are {people} people and need a room on {time}."
    call = ("book_room", {"room": room, "time": time, "people": people})
    return Request(name, text, ("book", time, people), (call,), (room,))


def _move(name: str, booking: str, time: str, people: int, instead: str | None = None) -> Request:
    calls: tuple[Call, ...] = (("move_booking", {"booking": booking, "time": time}),)
    if instead:
        again = {"room": instead, "time": time, "people": people}
        calls = (("cancel_booking", {"booking": booking}), ("book_room", again))
    return Request(name, f"Please move booking {booking} to {time}.", ("move", booking, time), calls)


REQUESTS = (
    _book("book-small", "Fir", "Thu 10", 3),
    _book("book-pair", "Fir", "Thu 15", 2),
    _book("book-middle", "Oak", "Wed 15", 11),
    _book("book-large", "Ash", "Fri 9", 20),
    _move("move-free", "B1", "Thu 10", 6),
    _move("move-taken", "B1", "Tue 14", 6, "Ash"),
    _move("move-clash", "B3", "Mon 10", 7, "Oak"),
    _move("move-full", "B5", "Tue 9", 5, "Oak"),
    Request("cancel-one", "Cancel B6, please.", ("cancel", "B6"), (("cancel_booking", {"booking": "B6"}),)),
    Request("ask-room", "Which room does booking B4 have?", ("ask", "B4"), (), ("Oak",)),
    Request("ask-time", "In which room is B2?", ("ask", "B2"), (), ("Fir",)),
    Request(
        "book-unsaid",
        "We need a room on Fri 14, for the whole team.",
        ("book", "Fri 14", 1),
        (("book_room", {"room": "Ash", "time": "Fri 14", "people": 18}),),
    ),
)


@dataclass(frozen=True)
class Agent:
    """A checkpoint: whether it chooses the smallest room, and whether it tries another room if one is taken."""

    name: str
    smallest: bool
    persists: bool


AGENTS = (
    Agent("sample-agent-c1", smallest=False, persists=True),
    Agent("sample-agent-c2", smallest=True, persists=False),
)


class Conversation:
    """One request, answered by one agent at its own desk."""

    def __init__(self, agent: Agent, request: Request, trial: int) -> None:
        self.desk = Desk()
        self.messages: list[ChatMessage] = [SystemMessage(content=POLICY), UserMessage(content=request.text)]
        self.calls: list[tuple[str, dict[str, Any], bool]] = []
        self._agent = agent
        self._chance = Random(f"{agent.name} {request.name} {trial}")
        verb, *objects = request.wants
        getattr(self, f"_{verb}")(*objects)

    def _book(self, time: str, people: int) -> None:
        self._say(f"Room {self._take(time, people)} is booked for {time}.")

    def _move(self, booking: str, time: str) -> None:
        people = self._call("get_booking", booking=booking)["people"]
        moved = self._call("move_booking", booking=booking, time=time)
        if moved is None and self._agent.persists:
            self._call("cancel_booking", booking=booking)
            self._say(f"Its room was taken, so you now have {self._take(time, people, smallest=True)} on {time}.")
        else:
            self._say(f"Booking {booking} is moved to {time}.")

    def _cancel(self, booking: str) -> None:
        self._call("cancel_booking", booking=booking)
        self._say(f"Booking {booking} is cancelled.")

    def _ask(self, booking: str) -> None:
        details = self._call("get_booking", booking=booking)
        forgets = self._chance.random() < 0.35
        self._say(
            f"Booking {booking} is on {details['time']}." if forgets else f"Booking {booking} has {details['room']}."
        )

    def _take(self, time: str, people: int, *, smallest: bool = False) -> str:
        free = self._call("find_rooms", time=time, people=people)
        chosen = min(free, key=lambda one: one["seats"]) if smallest or self._agent.smallest else free[0]
        self._call("book_room", room=chosen["room"], time=time, people=people)
        return str(chosen["room"])

    def _call(self, tool: str, **arguments: Any) -> Any:
        call = TranscriptToolCall(id=f"call-{len(self.calls) + 1}", function=tool, arguments=arguments)
        self.messages.append(AssistantMessage(tool_calls=(call,)))
        error, answer = None, None
        try:
            answer = self.desk.call(tool, arguments)
        except ValueError as refused:
            error = str(refused)
        content = "" if error else json.dumps(answer)
        self.messages.append(ToolMessage(content=content, function=tool, tool_call_id=call.id, error=error))
        self.calls.append((tool, arguments, error is not None))
        return answer

    def _say(self, text: str) -> None:
        self.messages.append(AssistantMessage(content=text))

    @property
    def said(self) -> str:
        return "\n".join(one.content for one in self.messages if isinstance(one, AssistantMessage))


def reached(request: Request) -> Desk:
    """Return the desk after all expected calls."""
    desk = Desk()
    for tool, arguments in request.expected:
        desk.call(tool, arguments)
    return desk


def conversations(agent: Agent, trials: int) -> Iterator[tuple[Request, int, Conversation]]:
    for request in REQUESTS:
        for trial in range(1, trials + 1):
            yield request, trial, Conversation(agent, request, trial)
