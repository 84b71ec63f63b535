"""Form clusters of observations, and answer a question from the clusters.

A model clusters the observations. Without a model, failures are clustered by cause.
"""

from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from evalscribe.ids import Frozen
from evalscribe.judging.long_subjects import fill_parts
from evalscribe.judging.prompt_text import estimate_tokens
from evalscribe.judging.prompt_text import one_line as prompt_line
from evalscribe.judging.rubric_judge import JudgeResultWithCitations
from evalscribe.judging.subjects import Subject, SubjectItem
from evalscribe.judging.worker_pool import run_concurrently
from evalscribe.model.chat import Usage
from evalscribe.model.exploration import Cluster, ClusterShare, Member, Observation, Passage
from evalscribe.model.result import CitationTarget, JudgeResult, ResultType
from evalscribe.model.rubric import Rubric
from evalscribe.text import cut, one_line, pluralise, prose, slug

MOST_CLUSTERS = 15
"""Maximum number of clusters. If there are more, the model is asked again to merge them."""
MOST_TOGETHER = 300
"""Maximum number of nodes in one question. Models make mistakes when they copy ids from longer lists."""
ROUNDS = 6
PROGRESS = 0.9
"""If more than this share of the nodes remains after a round, no further round follows."""
LONGEST_TEXT = 400
UNNAMED = "unnamed"
LIKELY_OBSERVATIONS, LIKELY_WORDS = 10, 25
"""Expected number of observations per batch and of words per observation, used to estimate costs."""

Ask = Callable[[Subject], Awaitable[JudgeResult]]


@dataclass(frozen=True)
class ClusterNode:
    """A single observation, or a cluster of merged observations."""

    id: str
    text: str
    observations: tuple[Observation, ...]
    name: str = ""
    """Name of the cluster; empty if the node is a single observation."""
    parts: tuple[str, ...] = ()

    @property
    def agent_runs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(run for observation in self.observations for run in observation.agent_runs))

    @property
    def line(self) -> str:
        prefix = f"{self.name}, from {pluralise(len(self.agent_runs), 'agent run')}: " if self.name else ""
        return f"{self.id} {prompt_line(prefix + self.text)}"


@dataclass(frozen=True)
class Clustering:
    clusters: tuple[ClusterNode, ...]
    other: tuple[Observation, ...]
    """Observations that belong to no cluster."""
    notes: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)


async def cluster_observations(
    ask: Ask, observations: Sequence[Observation], max_tokens: int, concurrency: int
) -> Clustering:
    """Put every observation into one cluster or into `other`.

    If the model does not answer a question, the question's observations stay unclustered and a note says so. Raises
    `EvalscribeError` for errors that affect all questions.

    Args:
        max_tokens: Maximum tokens of one question.
    """
    nodes = tuple(
        ClusterNode(id=observation.id, text=observation.text, observations=(observation,))
        for observation in observations
    )
    clustering = Clustering(clusters=nodes, other=())
    for _ in range(ROUNDS):
        chunks = tuple(_chunks(clustering.clusters, max_tokens))
        previous_count = len(clustering.clusters)
        clustering = await _round(ask, chunks, clustering, concurrency)
        if len(chunks) == 1:
            # All nodes were in one question, so an observation that is still alone belongs to no cluster.
            clustering = _move_unclustered(clustering)
            if len(clustering.clusters) <= MOST_CLUSTERS:
                break
        if len(clustering.clusters) > PROGRESS * previous_count:
            break
    return _move_unclustered(replace(clustering, clusters=_merge_same_names(clustering.clusters)))


async def _round(
    ask: Ask, chunks: Sequence[Sequence[ClusterNode]], previous: Clustering, concurrency: int
) -> Clustering:
    results: dict[int, JudgeResult] = {}

    async def ask_chunk(numbered: tuple[int, Sequence[ClusterNode]]) -> None:
        number, nodes = numbered
        results[number] = await ask(_subject(nodes))

    await run_concurrently(enumerate(chunks), ask_chunk, max(1, min(concurrency, len(chunks))))
    nodes, notes, usage = list[ClusterNode](), list(previous.notes), previous.usage
    for number, chunk in enumerate(chunks):
        result = results[number]
        usage += result.usage
        if result.result_type is ResultType.FAILURE:
            notes.append(f"{pluralise(len(chunk), 'line')} of observations could not be clustered: {result.reason}")
            nodes += chunk
        else:
            nodes += apply_groups(chunk, result.output["clusters"])
    renamed = (node if not node.name else replace(node, id=f"C{number}") for number, node in enumerate(nodes))
    return Clustering(clusters=tuple(renamed), other=previous.other, notes=tuple(dict.fromkeys(notes)), usage=usage)


def estimate_subject(batches: int) -> Subject:
    """Build a subject as large as the first clustering question for this number of batches, to estimate its cost."""
    line = "O00 " + "observed " * LIKELY_WORDS
    return _subject(
        [ClusterNode(id="", text=line, observations=())] * min(MOST_TOGETHER, batches * LIKELY_OBSERVATIONS)
    )


def apply_groups(nodes: Sequence[ClusterNode], groups: Sequence[Mapping[str, Any]]) -> list[ClusterNode]:
    """Merge the nodes that a model's answer groups together. Ungrouped nodes follow in their original order."""
    remaining = {node.id: node for node in nodes}
    merged = []
    for group in groups:
        names = (one_line(str(name)).strip("[]") for name in group["members"])
        # Ids that the model invented, or put into two groups, are ignored. Models also write ids as citations: `[O2]`.
        members = [remaining.pop(name) for name in names if name in remaining]
        if members:
            merged.append(_merge_group(group, members))
    return [*merged, *remaining.values()]


def _merge_group(group: Mapping[str, Any], members: Sequence[ClusterNode]) -> ClusterNode:
    """Merge the members of a group into one node. If the only member is a cluster, return it unchanged."""
    if len(members) == 1 and members[0].name:
        return members[0]
    return ClusterNode(
        id="",
        name=slug(str(group["name"])).lower() or UNNAMED,
        text=cut(one_line(str(group["text"])), LONGEST_TEXT) or members[0].text,
        observations=tuple(observation for member in members for observation in member.observations),
        parts=tuple(dict.fromkeys(member.name for member in members if member.name)),
    )


def _move_unclustered(clustering: Clustering) -> Clustering:
    """Move the observations that are in no cluster to `other`."""
    unclustered = tuple(
        observation for node in clustering.clusters if not node.name for observation in node.observations
    )
    return replace(
        clustering,
        clusters=tuple(node for node in clustering.clusters if node.name),
        other=(*clustering.other, *unclustered),
    )


def _merge_same_names(nodes: Sequence[ClusterNode]) -> tuple[ClusterNode, ...]:
    """Merge clusters that were given the same name in different questions."""
    merged: dict[str, ClusterNode] = {}
    for node in nodes:
        # Clusters without a name have nothing in common.
        previous = merged.get(node.name) if node.name not in ("", UNNAMED) else None
        key = node.name if node.name and node.name != UNNAMED else node.id
        observations = (*previous.observations, *node.observations) if previous else node.observations
        merged[key] = replace(previous or node, observations=observations)
    return tuple(merged.values())


def _chunks(nodes: Sequence[ClusterNode], max_tokens: int) -> Iterator[tuple[ClusterNode, ...]]:
    """Split the nodes, in order, into chunks that each fit into one question.

    A node that is too long for a question is a chunk of its own.
    """
    return fill_parts(((node, estimate_tokens(node.line) + 1) for node in nodes), max_tokens, MOST_TOGETHER)


def _subject(nodes: Sequence[ClusterNode]) -> Subject:
    target = CitationTarget(kind="result", item="observations")
    text = "\n".join(node.line for node in nodes)
    return Subject.of("exploration", [SubjectItem(mark="observations", about="", text=text, target=target)])


MOST_PASSAGES = 6
"""Maximum number of passages quoted for one cluster."""
MOST_SHARES = 3
"""Maximum number of models, of tasks and of trial numbers that are listed for a cluster."""


def build_clusters(nodes: Iterable[ClusterNode], members: Sequence[Member]) -> tuple[Cluster, ...]:
    """Build the clusters, sorted by number of agent runs. The largest cluster comes first."""
    by_id = {member.id: member for member in members}
    clusters = (_cluster(node, by_id) for node in nodes)
    return tuple(
        sorted(clusters, key=lambda cluster: (-len(cluster.agent_runs), -len(cluster.observations), cluster.name))
    )


def unmentioned_runs(
    members: Iterable[Member], observations: Iterable[Observation], unread: Iterable[str]
) -> tuple[str, ...]:
    """Return the ids of the agent runs that were read but are not mentioned in any observation."""
    mentioned = {run for observation in observations for run in observation.agent_runs} | set(unread)
    return tuple(member.id for member in members if member.id not in mentioned)


def _cluster(node: ClusterNode, members: Mapping[str, Member]) -> Cluster:
    runs = tuple(sorted(node.agent_runs))
    return Cluster(
        name=node.name,
        text=node.text,
        agent_runs=runs,
        observations=tuple(observation.id for observation in node.observations),
        parts=node.parts,
        passages=tuple(_passages(node.observations)),
        shares=tuple(_shares([members[run] for run in runs if run in members], members)),
    )


def _passages(observations: Iterable[Observation]) -> Iterator[Passage]:
    """Yield at most `MOST_PASSAGES` quoted passages: first one passage of each agent run, then further passages."""
    passages = [passage for observation in observations for passage in observation.passages if passage.text.strip()]
    # A dictionary keeps the last value of each key. Reversing twice keeps the first passage of each agent run instead.
    first = list({passage.agent_run_id: passage for passage in reversed(passages)}.values())[::-1]
    ordered = [*first, *(passage for passage in passages if passage not in first)]
    yield from ordered[:MOST_PASSAGES]


def _shares(cluster_members: Sequence[Member], members: Mapping[str, Member]) -> Iterator[ClusterShare]:
    """Yield the cluster's most common models, tasks and trial numbers.

    A kind is omitted if it says nothing, for example the models if all explored agent runs used the same model.
    """
    for kind, name in _KINDS.items():
        totals = Counter(map(name, members.values()))
        if len(totals) > 1:
            most_common = sorted(Counter(map(name, cluster_members)).items(), key=lambda item: (-item[1], item[0]))[
                :MOST_SHARES
            ]
            if kind == "trial" and 2 * most_common[0][1] <= len(cluster_members):
                continue  # a trial number means nothing unless most of the cluster's agent runs have it
            yield from (
                ClusterShare(of=kind, name=value, agent_runs=n, among=totals[value]) for value, n in most_common
            )


_KINDS = {
    "model": lambda member: f"{member.provider}/{member.model}",
    "task": lambda member: member.task,
    "trial": lambda member: str(member.trial),
}


MOST_ERRORS = 3
"""Maximum number of different errors in the description of a cluster."""
LONGEST_ERROR = 160
MOST_CAUSES = 5
"""Maximum number of causes named in an answer without a model."""


class CausedFailure(Frozen):
    """One failed eval with the cause of its failure."""

    member: Member
    cause: str
    kind: str
    why: str
    error: str
    signature: str | None = None
    """Error signature, the same for all failures with the same error; None if the error was not located."""
    uncertain: bool = False
    passages: tuple[Passage, ...] = ()


def cause_observations(failures: Iterable[CausedFailure]) -> tuple[Observation, ...]:
    """Return one observation per failure, in order. The observations come from recorded causes, not from a model."""
    return tuple(
        Observation(
            id=f"O{number}", text=_failure_text(failure), agent_runs=(failure.member.id,), passages=failure.passages
        )
        for number, failure in enumerate(failures)
    )


def cluster_by_cause(failures: Sequence[CausedFailure], observations: Sequence[Observation]) -> tuple[ClusterNode, ...]:
    """Cluster failures by cause. A cause of only one failure forms no cluster."""
    causes = _causes(failures)
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    for number, failure in enumerate(failures):
        groups[causes[number], failure.kind].append(number)
    return tuple(
        ClusterNode(
            id=f"C{number}",
            name=cause,
            text=_describe_causes(kind, [failures[index] for index in members]),
            observations=tuple(observations[index] for index in members),
        )
        for number, ((cause, kind), members) in enumerate(groups.items())
        if len(members) > 1
    )


def _causes(failures: Sequence[CausedFailure]) -> list[str]:
    """Return the cause of each failure.

    If a cause is uncertain and only one failure has it, the cause is replaced by the most common certain cause of
    failures with the same error signature.
    """
    shared = Counter(failure.cause for failure in failures)
    causes_by_signature: dict[str, Counter[str]] = defaultdict(Counter)
    for failure in failures:
        if failure.signature and not failure.uncertain:
            causes_by_signature[failure.signature][failure.cause] += 1
    commonest_cause = {
        key: max(causes, key=lambda cause: (causes[cause], cause)) for key, causes in causes_by_signature.items()
    }
    return [
        commonest_cause.get(failure.signature or "", failure.cause)
        # An uncertain cause that several failures share is not replaced, because the same error, such as an exceeded
        # limit, can have many causes.
        if failure.uncertain and shared[failure.cause] == 1
        else failure.cause
        for failure in failures
    ]


def _failure_text(failure: CausedFailure) -> str:
    return prose(f"{failure.cause} ({failure.kind}): {failure.why or failure.error}", LONGEST_ERROR * 2)


def _describe_causes(kind: str, members: Sequence[CausedFailure]) -> str:
    """Describe the failures of a cluster.

    Example: `3 times: returns 1 where the task asks for 2; … (kind of cause: model)`.
    """
    reasons = Counter(prose(failure.why or failure.error, LONGEST_ERROR).removesuffix(".") for failure in members)
    most_common = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))[:MOST_ERRORS]
    parts = [text if n == 1 else f"{n} times: {text}" for text, n in most_common]
    more = [f"and {len(reasons) - len(most_common)} more"] if len(reasons) > len(most_common) else []
    unsure = sum(failure.uncertain for failure in members)
    certainty_notes = (
        [] if not unsure else ["no rule is certain" if unsure == len(members) else f"{unsure} of them uncertain"]
    )
    return f"{'; '.join([*parts, *more])} ({', '.join([f'kind of cause: {kind}', *certainty_notes])})"


def describe_figures(clusters: Sequence[Cluster], failed: int, explored: int) -> str:
    """Return sentences that state how many agent runs failed and name the most common causes."""
    sentence = f"{failed or 'None'} of {pluralise(explored, 'agent run')} failed."
    if not clusters:
        return sentence
    most_common = [f"{words(cluster.name)} ({len(cluster.agent_runs)})" for cluster in clusters[:MOST_CAUSES]]
    more = f", and {pluralise(len(clusters) - MOST_CAUSES, 'other')}" if len(clusters) > MOST_CAUSES else ""
    return f"{sentence} Causes shared by several: {', '.join(most_common)}{more}."


def words(name: str) -> str:
    """Return a cluster's name with its hyphens replaced by spaces."""
    return prose(" ".join(name.split("-")))


MOST_SHOWN = 15
"""Maximum number of clusters shown to the model. Those with the most agent runs are shown."""
LONGEST_ANSWER = 1800
LONGEST_PASSAGE = 300


def answer_subject(clusters: Sequence[Cluster], explored: int) -> Subject:
    """Build the subject for the judge that answers the question: the clusters, marked `A0`, `A1` and so on."""
    items = (_item(number, cluster, explored) for number, cluster in enumerate(clusters[:MOST_SHOWN]))
    return Subject.of("exploration", list(items))


def _item(number: int, cluster: Cluster, explored: int) -> SubjectItem:
    mark = f"A{number}"
    share = f"seen in {len(cluster.agent_runs)} of {pluralise(explored, 'agent run')}"
    quotes = (f'- "{one_line(cut(passage.text, LONGEST_PASSAGE))}"' for passage in cluster.passages if passage.text)
    text = "\n".join([f"{cluster.name}: {cluster.text}", share, *quotes])
    return SubjectItem(mark=mark, about="cluster", text=text, target=CitationTarget(kind="result", item=mark))


def parse_answer(result: JudgeResult, rubric: Rubric, subject: Subject) -> tuple[str, int]:
    """Return the answer on one line, and its number of unresolved citations. Citations of clusters appear as `(1)`."""
    cited = JudgeResultWithCitations.from_judge_result(result, rubric.output_schema, subject).output["answer"]
    text, unresolved = cited["text"], sum(citation["status"] == "unverified" for citation in cited["citations"])
    parts, position = list[str](), 0
    for start, end, numbers in _brackets(text, cited["citations"]):
        parts.append(text[position:start].rstrip() if numbers or start else "")
        parts.append(f" ({', '.join(map(str, numbers))})" if numbers else "")
        position = end
    return cut(one_line("".join([*parts, text[position:]])), LONGEST_ANSWER), unresolved


def _brackets(text: str, citations: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, int, list[int]]]:
    """Yield the start, the end and the cited cluster numbers (from 1) of each group of adjacent citations."""
    group: tuple[int, int, list[int]] | None = None
    for citation in citations:
        start, end = citation["start_idx"], citation["end_idx"]
        verified = citation["status"] != "unverified" and citation["target"]
        number = [int(citation["target"]["item"][1:]) + 1] if verified else []
        if group and not text[group[1] : start].strip(",; \t\n"):
            group = (group[0], end, group[2] + [n for n in number if n not in group[2]])
            continue
        if group:
            yield group
        group = (start, end, number)
    if group:
        yield group
