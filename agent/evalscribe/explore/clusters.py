"""Put together what says the same, round by round, until one look covers all of it.

What a model names is looked up in what it was shown: an id that it invents is dropped, one that it uses twice counts
once, and what it forgets stays as it is. So nothing vanishes and nothing is made up.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from evalscribe.judging.fence import one_line
from evalscribe.judging.lanes import in_lanes
from evalscribe.judging.subject.item import Item, Subject
from evalscribe.model.chat import Usage
from evalscribe.model.exploration import Observation
from evalscribe.model.result import CitationTarget, JudgeResult, ResultType
from evalscribe.text import cut, pluralise, slug
from evalscribe.text import one_line as on_one_line
from evalscribe.tokens import estimate

MOST_CLUSTERS = 15
"""More are put together again."""
MOST_TOGETHER = 300
"""Lines of one question: the ids of the answer have to be right."""
ROUNDS = 6
PROGRESS = 0.9
"""A round that leaves more than this share of the lines is the last."""
LONGEST_TEXT = 400
UNNAMED = "unnamed"
LIKELY_OBSERVATIONS, LIKELY_WORDS = 10, 25
"""Of one batch, and of one observation."""

Ask = Callable[[Subject], Awaitable[JudgeResult]]


@dataclass(frozen=True)
class Node:
    """An observation, or several that were put together."""

    id: str
    text: str
    observations: tuple[Observation, ...]
    name: str = ""
    """Empty for a single observation that nobody has put anywhere."""
    parts: tuple[str, ...] = ()

    @property
    def agent_runs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(run for one in self.observations for run in one.agent_runs))

    @property
    def line(self) -> str:
        told = f"{self.name}, from {pluralise(len(self.agent_runs), 'agent run')}: " if self.name else ""
        return f"{self.id} {one_line(told + self.text)}"


@dataclass(frozen=True)
class Clustered:
    clusters: tuple[Node, ...]
    other: tuple[Observation, ...]
    """Those that no cluster has."""
    notes: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)


async def clustered(ask: Ask, observations: Sequence[Observation], room: int, lanes: int) -> Clustered:
    """Every observation in one cluster or in `other`. `room`: tokens of one question.

    What cannot be answered leaves its lines as they are, and is told in a note. Raises `EvalscribeError` for what
    concerns all questions.
    """
    nodes = tuple(Node(id=one.id, text=one.text, observations=(one,)) for one in observations)
    made = Clustered(clusters=nodes, other=())
    for _ in range(ROUNDS):
        chunks = tuple(_chunks(made.clusters, room))
        before = len(made.clusters)
        made = await _round(ask, chunks, made, lanes)
        if len(chunks) == 1:
            made = _settled(made)
            if len(made.clusters) <= MOST_CLUSTERS:
                break
        if len(made.clusters) > PROGRESS * before:
            break
    return _settled(replace(made, clusters=_by_name(made.clusters)))


async def _round(ask: Ask, chunks: Sequence[Sequence[Node]], before: Clustered, lanes: int) -> Clustered:
    found: dict[int, JudgeResult] = {}

    async def one(numbered: tuple[int, Sequence[Node]]) -> None:
        number, nodes = numbered
        found[number] = await ask(_subject(nodes))

    await in_lanes(enumerate(chunks), one, max(1, min(lanes, len(chunks))))
    nodes, notes, usage = list[Node](), list(before.notes), before.usage
    for number, chunk in enumerate(chunks):
        result = found[number]
        usage += result.usage
        if result.result_type is ResultType.FAILURE:
            notes.append(f"{pluralise(len(chunk), 'line')} of observations could not be put together: {result.reason}")
            nodes += chunk
        else:
            nodes += grouped(chunk, result.output["clusters"])
    renamed = (one if not one.name else replace(one, id=f"C{number}") for number, one in enumerate(nodes))
    return Clustered(clusters=tuple(renamed), other=before.other, notes=tuple(dict.fromkeys(notes)), usage=usage)


def rehearsal(batches: int) -> Subject:
    """As long as what is likely to be put together after so many batches, for an estimate."""
    line = "O00 " + "observed " * LIKELY_WORDS
    return _subject([Node(id="", text=line, observations=())] * min(MOST_TOGETHER, batches * LIKELY_OBSERVATIONS))


def grouped(nodes: Sequence[Node], groups: Sequence[Mapping[str, Any]]) -> list[Node]:
    """The groups of an answer, then what none of them has, in its order."""
    left = {node.id: node for node in nodes}
    made = []
    for group in groups:
        names = (on_one_line(str(name)).strip("[]") for name in group["members"])
        members = [left.pop(name) for name in names if name in left]
        if members:
            made.append(_joined(group, members))
    return [*made, *left.values()]


def _joined(group: Mapping[str, Any], members: Sequence[Node]) -> Node:
    """One cluster alone stays what it was."""
    if len(members) == 1 and members[0].name:
        return members[0]
    return Node(
        id="",
        name=slug(str(group["name"])).lower() or UNNAMED,
        text=cut(on_one_line(str(group["text"])), LONGEST_TEXT) or members[0].text,
        observations=tuple(one for member in members for one in member.observations),
        parts=tuple(dict.fromkeys(member.name for member in members if member.name)),
    )


def _settled(made: Clustered) -> Clustered:
    """What nobody has put anywhere after all was looked at is other."""
    alone = tuple(one for node in made.clusters if not node.name for one in node.observations)
    return replace(made, clusters=tuple(node for node in made.clusters if node.name), other=(*made.other, *alone))


def _by_name(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Clusters of one name, which were found apart, are one."""
    found: dict[str, Node] = {}
    for node in nodes:
        same = found.get(node.name) if node.name not in ("", UNNAMED) else None
        key = node.name if node.name and node.name != UNNAMED else node.id
        both = (*same.observations, *node.observations) if same else node.observations
        found[key] = replace(same or node, observations=both)
    return tuple(found.values())


def _chunks(nodes: Sequence[Node], room: int) -> Iterator[tuple[Node, ...]]:
    """In order, as many as fit into one question; a longer line is alone."""
    chunk: list[Node] = []
    left = room
    for node in nodes:
        size = estimate(node.line) + 1
        if chunk and (size > left or len(chunk) == MOST_TOGETHER):
            yield tuple(chunk)
            chunk, left = [], room
        chunk.append(node)
        left -= size
    if chunk:
        yield tuple(chunk)


def _subject(nodes: Sequence[Node]) -> Subject:
    target = CitationTarget(kind="result", item="observations")
    text = "\n".join(node.line for node in nodes)
    return Subject.of("exploration", [Item(mark="observations", about="", text=text, target=target)])
