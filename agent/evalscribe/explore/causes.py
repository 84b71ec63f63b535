"""Without a model: failures put together by their cause, and those that end in the same error within it."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from evalscribe.explore.clusters import Node
from evalscribe.ids import Frozen
from evalscribe.model.exploration import Cluster, Member, Observation, Passage
from evalscribe.text import pluralise, prose

MOST_ERRORS = 3
"""Of one cause, in its text."""
LONGEST_ERROR = 160
FOREMOST = 5
"""Causes that the answer names."""


class CausedFailure(Frozen):
    """What is said of one failed eval."""

    member: Member
    cause: str
    kind: str
    why: str
    error: str
    signature: str | None = None
    """Equal for failures that end in the same error; None where the error was not located."""
    uncertain: bool = False
    passages: tuple[Passage, ...] = ()


def observations_of(failures: Iterable[CausedFailure]) -> tuple[Observation, ...]:
    """One for each, in order. Whatever was not proved about a failure, that it failed is no claim of a model."""
    return tuple(
        Observation(id=f"O{number}", text=_text(one), agent_runs=(one.member.id,), passages=one.passages)
        for number, one in enumerate(failures)
    )


def by_cause(failures: Sequence[CausedFailure], observations: Sequence[Observation]) -> tuple[Node, ...]:
    """Equal causes are one cluster; what nobody shares is none, but where it is unsure and a sure failure ends in the
    same error it joins that one."""
    causes = _causes(failures)
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    for number, one in enumerate(failures):
        found[causes[number], one.kind].append(number)
    return tuple(
        Node(
            id=f"C{number}",
            name=cause,
            text=_told(kind, [failures[each] for each in members]),
            observations=tuple(observations[each] for each in members),
        )
        for number, ((cause, kind), members) in enumerate(found.items())
        if len(members) > 1
    )


def _causes(failures: Sequence[CausedFailure]) -> list[str]:
    """By number; what several failures say is not taken from them, for an end (a limit, say) may have many causes."""
    shared = Counter(one.cause for one in failures)
    sure: dict[str, Counter[str]] = defaultdict(Counter)
    for one in failures:
        if one.signature and not one.uncertain:
            sure[one.signature][one.cause] += 1
    best = {key: max(causes, key=lambda cause: (causes[cause], cause)) for key, causes in sure.items()}
    return [
        best.get(one.signature or "", one.cause) if one.uncertain and shared[one.cause] == 1 else one.cause
        for one in failures
    ]


def _text(one: CausedFailure) -> str:
    return prose(f"{one.cause} ({one.kind}): {one.why or one.error}", LONGEST_ERROR * 2)


def _told(kind: str, members: Sequence[CausedFailure]) -> str:
    """`model; 3 times: returns 1 where the task asks for 2; …`."""
    said = Counter(prose(one.why or one.error, LONGEST_ERROR).removesuffix(".") for one in members)
    most = sorted(said.items(), key=lambda each: (-each[1], each[0]))[:MOST_ERRORS]
    told = [text if n == 1 else f"{n} times: {text}" for text, n in most]
    more = [f"and {len(said) - len(most)} more"] if len(said) > len(most) else []
    unsure = sum(one.uncertain for one in members)
    sure = [] if not unsure else ["no rule is sure of it" if unsure == len(members) else f"{unsure} of them uncertain"]
    return "; ".join([kind, *sure, *told, *more])


def in_figures(clusters: Sequence[Cluster], failed: int, explored: int) -> str:
    """What the figures say, clusters cited by their numbers."""
    said = f"{failed or 'None'} of {pluralise(explored, 'agent run')} failed."
    if not clusters:
        return said
    most = [f"{one.name} in {len(one.agent_runs)} ({number})" for number, one in enumerate(clusters[:FOREMOST], 1)]
    more = f", and {pluralise(len(clusters) - FOREMOST, 'other')}" if len(clusters) > FOREMOST else ""
    return f"{said} Causes that several share: {', '.join(most)}{more}."
