"""Answer the question from the clusters, or from causes without a model."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from evalscribe.collections.clusters import ClusterNode
from evalscribe.ids import Frozen
from evalscribe.judging.rubric_judge import JudgeResultWithCitations
from evalscribe.judging.subjects import Subject, SubjectItem
from evalscribe.model.exploration import Cluster, Member, Observation, Passage
from evalscribe.model.result import CitationTarget, JudgeResult
from evalscribe.model.rubric import Rubric
from evalscribe.text import cut, one_line, pluralise, prose

MOST_ERRORS = 3
"""Errors of one cause that its text includes."""
LONGEST_ERROR = 160
FOREMOST = 5
"""Number of causes named in the answer."""


class CausedFailure(Frozen):
    """An observation about one failed eval."""

    member: Member
    cause: str
    kind: str
    why: str
    error: str
    signature: str | None = None
    """Equal for failures that end in the same error; None if the error was not located."""
    uncertain: bool = False
    passages: tuple[Passage, ...] = ()


def cause_observations(failures: Iterable[CausedFailure]) -> tuple[Observation, ...]:
    """Return one observation per failure, in order. Each is a fact rather than a model's claim."""
    return tuple(
        Observation(id=f"O{number}", text=_text(one), agent_runs=(one.member.id,), passages=one.passages)
        for number, one in enumerate(failures)
    )


def cluster_by_cause(failures: Sequence[CausedFailure], observations: Sequence[Observation]) -> tuple[ClusterNode, ...]:
    """Cluster failures with equal causes.

    A cause that occurs once makes no cluster, except that an uncertain failure joins the cluster of a certain one
    with the same error signature.
    """
    causes = _causes(failures)
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    for number, one in enumerate(failures):
        found[causes[number], one.kind].append(number)
    return tuple(
        ClusterNode(
            id=f"C{number}",
            name=cause,
            text=_told(kind, [failures[each] for each in members]),
            observations=tuple(observations[each] for each in members),
        )
        for number, ((cause, kind), members) in enumerate(found.items())
        if len(members) > 1
    )


def _causes(failures: Sequence[CausedFailure]) -> list[str]:
    """Return the cause of each failure.

    An uncertain failure takes over the most common cause of the same error. A text that several failures share is kept,
    because one symptom (such as a limit) may have many causes.
    """
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
    """Describe a cluster, such as `model; 3 times: returns 1 where the task asks for 2; …`."""
    said = Counter(prose(one.why or one.error, LONGEST_ERROR).removesuffix(".") for one in members)
    most = sorted(said.items(), key=lambda each: (-each[1], each[0]))[:MOST_ERRORS]
    told = [text if n == 1 else f"{n} times: {text}" for text, n in most]
    more = [f"and {len(said) - len(most)} more"] if len(said) > len(most) else []
    unsure = sum(one.uncertain for one in members)
    sure = [] if not unsure else ["no rule is certain" if unsure == len(members) else f"{unsure} of them uncertain"]
    return "; ".join([kind, *sure, *told, *more])


def describe_figures(clusters: Sequence[Cluster], failed: int, explored: int) -> str:
    """Summarise the figures in words, citing clusters by their numbers."""
    said = f"{failed or 'None'} of {pluralise(explored, 'agent run')} failed."
    if not clusters:
        return said
    most = [f"{one.name} in {len(one.agent_runs)} ({number})" for number, one in enumerate(clusters[:FOREMOST], 1)]
    more = f", and {pluralise(len(clusters) - FOREMOST, 'other')}" if len(clusters) > FOREMOST else ""
    return f"{said} Causes shared by several: {', '.join(most)}{more}."


MOST_SHOWN = 15
"""Maximum clusters shown, the largest by agent runs."""
LONGEST_ANSWER = 1800
LONGEST_PASSAGE = 300


def answer_subject(clusters: Sequence[Cluster], explored: int) -> Subject:
    """Build the judge's subject from the clusters; `A0` is the first cluster."""
    items = (_item(number, cluster, explored) for number, cluster in enumerate(clusters[:MOST_SHOWN]))
    return Subject.of("exploration", list(items))


def _item(number: int, cluster: Cluster, explored: int) -> SubjectItem:
    mark = f"A{number}"
    share = f"seen in {len(cluster.agent_runs)} of {pluralise(explored, 'agent run')}"
    words = (f'- "{one_line(cut(one.text, LONGEST_PASSAGE))}"' for one in cluster.passages if one.text)
    text = "\n".join([f"{cluster.name}: {cluster.text}", share, *words])
    return SubjectItem(mark=mark, about="cluster", text=text, target=CitationTarget(kind="result", item=mark))


def parse_answer(result: JudgeResult, rubric: Rubric, subject: Subject) -> tuple[str, int]:
    """Parse the answer into one line with clusters as `(1)`.

    Also returns the number of its citations that cannot be resolved.
    """
    cited = JudgeResultWithCitations.from_judge_result(result, rubric.output_schema, subject).output["answer"]
    text, wrong = cited["text"], sum(one["status"] == "unverified" for one in cited["citations"])
    parts, at = list[str](), 0
    for start, end, numbers in _brackets(text, cited["citations"]):
        parts.append(text[at:start].rstrip() if numbers or start else "")
        parts.append(f" ({', '.join(map(str, numbers))})" if numbers else "")
        at = end
    return cut(one_line("".join([*parts, text[at:]])), LONGEST_ANSWER), wrong


def _brackets(text: str, citations: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, int, list[int]]]:
    """Yield adjacent citations as one: start, end, and the clusters they cite (from 1)."""
    whole: tuple[int, int, list[int]] | None = None
    for one in citations:
        start, end = one["start_idx"], one["end_idx"]
        held = one["status"] != "unverified" and one["target"]
        number = [int(one["target"]["item"][1:]) + 1] if held else []
        if whole and not text[whole[1] : start].strip(",; \t\n"):
            whole = (whole[0], end, whole[2] + [each for each in number if each not in whole[2]])
            continue
        if whole:
            yield whole
        whole = (start, end, number)
    if whole:
        yield whole
