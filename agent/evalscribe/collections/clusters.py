"""Cluster observations round by round."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from evalscribe.judging.prompt_text import estimate_tokens, one_line
from evalscribe.judging.subjects import Subject, SubjectItem
from evalscribe.judging.worker_pool import run_concurrently
from evalscribe.model.chat import Usage
from evalscribe.model.exploration import Cluster, ClusterShare, Member, Observation, Passage
from evalscribe.model.result import CitationTarget, JudgeResult, ResultType
from evalscribe.text import cut, pluralise, slug
from evalscribe.text import one_line as on_one_line

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
class ClusterNode:
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
class Clustering:
    clusters: tuple[ClusterNode, ...]
    other: tuple[Observation, ...]
    """Those that no cluster has."""
    notes: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)


async def cluster_observations(ask: Ask, observations: Sequence[Observation], room: int, lanes: int) -> Clustering:
    """Every observation in one cluster or in `other`. `room`: tokens of one question.

    What cannot be answered leaves its lines as they are, and is told in a note. Raises `EvalscribeError` for what
    concerns all questions.
    """
    nodes = tuple(ClusterNode(id=one.id, text=one.text, observations=(one,)) for one in observations)
    made = Clustering(clusters=nodes, other=())
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


async def _round(ask: Ask, chunks: Sequence[Sequence[ClusterNode]], before: Clustering, lanes: int) -> Clustering:
    found: dict[int, JudgeResult] = {}

    async def one(numbered: tuple[int, Sequence[ClusterNode]]) -> None:
        number, nodes = numbered
        found[number] = await ask(_subject(nodes))

    await run_concurrently(enumerate(chunks), one, max(1, min(lanes, len(chunks))))
    nodes, notes, usage = list[ClusterNode](), list(before.notes), before.usage
    for number, chunk in enumerate(chunks):
        result = found[number]
        usage += result.usage
        if result.result_type is ResultType.FAILURE:
            notes.append(f"{pluralise(len(chunk), 'line')} of observations could not be put together: {result.reason}")
            nodes += chunk
        else:
            nodes += apply_groups(chunk, result.output["clusters"])
    renamed = (one if not one.name else replace(one, id=f"C{number}") for number, one in enumerate(nodes))
    return Clustering(clusters=tuple(renamed), other=before.other, notes=tuple(dict.fromkeys(notes)), usage=usage)


def estimate_subject(batches: int) -> Subject:
    """As long as what is likely to be put together after so many batches, for an estimate."""
    line = "O00 " + "observed " * LIKELY_WORDS
    return _subject(
        [ClusterNode(id="", text=line, observations=())] * min(MOST_TOGETHER, batches * LIKELY_OBSERVATIONS)
    )


def apply_groups(nodes: Sequence[ClusterNode], groups: Sequence[Mapping[str, Any]]) -> list[ClusterNode]:
    """The groups of an answer, then what none of them has, in its order."""
    left = {node.id: node for node in nodes}
    made = []
    for group in groups:
        names = (on_one_line(str(name)).strip("[]") for name in group["members"])
        members = [left.pop(name) for name in names if name in left]
        if members:
            made.append(_joined(group, members))
    return [*made, *left.values()]


def _joined(group: Mapping[str, Any], members: Sequence[ClusterNode]) -> ClusterNode:
    """One cluster alone stays what it was."""
    if len(members) == 1 and members[0].name:
        return members[0]
    return ClusterNode(
        id="",
        name=slug(str(group["name"])).lower() or UNNAMED,
        text=cut(on_one_line(str(group["text"])), LONGEST_TEXT) or members[0].text,
        observations=tuple(one for member in members for one in member.observations),
        parts=tuple(dict.fromkeys(member.name for member in members if member.name)),
    )


def _settled(made: Clustering) -> Clustering:
    """What nobody has put anywhere after all was looked at is other."""
    alone = tuple(one for node in made.clusters if not node.name for one in node.observations)
    return replace(made, clusters=tuple(node for node in made.clusters if node.name), other=(*made.other, *alone))


def _by_name(nodes: Sequence[ClusterNode]) -> tuple[ClusterNode, ...]:
    """Clusters of one name, which were found apart, are one."""
    found: dict[str, ClusterNode] = {}
    for node in nodes:
        same = found.get(node.name) if node.name not in ("", UNNAMED) else None
        key = node.name if node.name and node.name != UNNAMED else node.id
        both = (*same.observations, *node.observations) if same else node.observations
        found[key] = replace(same or node, observations=both)
    return tuple(found.values())


def _chunks(nodes: Sequence[ClusterNode], room: int) -> Iterator[tuple[ClusterNode, ...]]:
    """In order, as many as fit into one question; a longer line is alone."""
    chunk: list[ClusterNode] = []
    left = room
    for node in nodes:
        size = estimate_tokens(node.line) + 1
        if chunk and (size > left or len(chunk) == MOST_TOGETHER):
            yield tuple(chunk)
            chunk, left = [], room
        chunk.append(node)
        left -= size
    if chunk:
        yield tuple(chunk)


def _subject(nodes: Sequence[ClusterNode]) -> Subject:
    target = CitationTarget(kind="result", item="observations")
    text = "\n".join(node.line for node in nodes)
    return Subject.of("exploration", [SubjectItem(mark="observations", about="", text=text, target=target)])


MOST_PASSAGES = 6
"""Of one cluster."""
MOST_SHARES = 3
"""Of one kind."""


def build_clusters(nodes: Iterable[ClusterNode], members: Sequence[Member]) -> tuple[Cluster, ...]:
    """Of the most agent runs first."""
    by_id = {member.id: member for member in members}
    made = (_cluster(node, by_id) for node in nodes)
    return tuple(sorted(made, key=lambda one: (-len(one.agent_runs), -len(one.observations), one.name)))


def unmentioned_runs(
    members: Iterable[Member], observations: Iterable[Observation], unread: Iterable[str]
) -> tuple[str, ...]:
    """Agent runs that were read and of which nothing is told."""
    spoken = {run for one in observations for run in one.agent_runs} | set(unread)
    return tuple(member.id for member in members if member.id not in spoken)


def _cluster(node: ClusterNode, members: Mapping[str, Member]) -> Cluster:
    runs = tuple(sorted(node.agent_runs))
    return Cluster(
        name=node.name,
        text=node.text,
        agent_runs=runs,
        observations=tuple(one.id for one in node.observations),
        parts=node.parts,
        passages=tuple(_passages(node.observations)),
        shares=tuple(_shares([members[run] for run in runs if run in members], members)),
    )


def _passages(observations: Iterable[Observation]) -> Iterator[Passage]:
    """With words, of different agent runs first."""
    every = [passage for one in observations for passage in one.passages if passage.text.strip()]
    first = list({passage.agent_run_id: passage for passage in reversed(every)}.values())[::-1]
    chosen = [*first, *(passage for passage in every if passage not in first)]
    yield from chosen[:MOST_PASSAGES]


def _shares(mine: Sequence[Member], members: Mapping[str, Member]) -> Iterator[ClusterShare]:
    """A kind of which there is only one among all says nothing."""
    for of, name in _KINDS.items():
        among = Counter(map(name, members.values()))
        if len(among) > 1:
            most = sorted(Counter(map(name, mine)).items(), key=lambda one: (-one[1], one[0]))[:MOST_SHARES]
            if of == "trial" and 2 * most[0][1] <= len(mine):
                continue  # which trial it was says nothing where several have it
            yield from (ClusterShare(of=of, name=each, agent_runs=n, among=among[each]) for each, n in most)


_KINDS = {
    "model": lambda member: f"{member.provider}/{member.model}",
    "task": lambda member: member.task,
    "trial": lambda member: str(member.trial),
}
