"""Clusters as they are told: the largest first, with words that show them and with what stands out in them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from evalscribe.explore.clusters import Node
from evalscribe.model.exploration import Cluster, ClusterShare, Member, Observation, Passage

MOST_PASSAGES = 6
"""Of one cluster."""
MOST_SHARES = 3
"""Of one kind."""


def clusters_of(nodes: Iterable[Node], members: Sequence[Member]) -> tuple[Cluster, ...]:
    """Of the most agent runs first."""
    by_id = {member.id: member for member in members}
    made = (_cluster(node, by_id) for node in nodes)
    return tuple(sorted(made, key=lambda one: (-len(one.agent_runs), -len(one.observations), one.name)))


def silent(members: Iterable[Member], observations: Iterable[Observation], unread: Iterable[str]) -> tuple[str, ...]:
    """Agent runs that were read and of which nothing is told."""
    spoken = {run for one in observations for run in one.agent_runs} | set(unread)
    return tuple(member.id for member in members if member.id not in spoken)


def _cluster(node: Node, members: Mapping[str, Member]) -> Cluster:
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
