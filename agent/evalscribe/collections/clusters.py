"""Cluster observations with a model, or failures by cause without one, and answer a question from the clusters."""

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
"""Maximum clusters; if there are more, the model is asked to merge them."""
MOST_TOGETHER = 300
"""Maximum nodes in one question; with more, models repeat ids incorrectly."""
ROUNDS = 6
PROGRESS = 0.9
"""Clustering stops after a round that leaves more than this share of the nodes."""
LONGEST_TEXT = 400
UNNAMED = "unnamed"
LIKELY_OBSERVATIONS, LIKELY_WORDS = 10, 25
"""Expected observations per batch, and words per observation, for estimates."""

Ask = Callable[[Subject], Awaitable[JudgeResult]]


@dataclass(frozen=True)
class ClusterNode:
    """A single observation, or a cluster of merged observations."""

    id: str
    text: str
    observations: tuple[Observation, ...]
    name: str = ""
    """Name of the cluster; empty for a single observation."""
    parts: tuple[str, ...] = ()

    @property
    def agent_runs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(run for one in self.observations for run in one.agent_runs))

    @property
    def line(self) -> str:
        told = f"{self.name}, from {pluralise(len(self.agent_runs), 'agent run')}: " if self.name else ""
        return f"{self.id} {prompt_line(told + self.text)}"


@dataclass(frozen=True)
class Clustering:
    clusters: tuple[ClusterNode, ...]
    other: tuple[Observation, ...]
    """Observations without a cluster."""
    notes: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)


async def cluster_observations(
    ask: Ask, observations: Sequence[Observation], room: int, concurrency: int
) -> Clustering:
    """Put every observation into one cluster or into `other`.

    If the model does not answer a question, the question's observations stay unclustered, with a note. Raises
    `EvalscribeError` for errors that concern all questions.

    Args:
        room: Maximum tokens of one question.
    """
    nodes = tuple(ClusterNode(id=one.id, text=one.text, observations=(one,)) for one in observations)
    made = Clustering(clusters=nodes, other=())
    for _ in range(ROUNDS):
        chunks = tuple(_chunks(made.clusters, room))
        before = len(made.clusters)
        made = await _round(ask, chunks, made, concurrency)
        if len(chunks) == 1:
            made = _settled(made)
            if len(made.clusters) <= MOST_CLUSTERS:
                break
        if len(made.clusters) > PROGRESS * before:
            break
    return _settled(replace(made, clusters=_by_name(made.clusters)))


async def _round(ask: Ask, chunks: Sequence[Sequence[ClusterNode]], before: Clustering, concurrency: int) -> Clustering:
    found: dict[int, JudgeResult] = {}

    async def one(numbered: tuple[int, Sequence[ClusterNode]]) -> None:
        number, nodes = numbered
        found[number] = await ask(_subject(nodes))

    await run_concurrently(enumerate(chunks), one, max(1, min(concurrency, len(chunks))))
    nodes, notes, usage = list[ClusterNode](), list(before.notes), before.usage
    for number, chunk in enumerate(chunks):
        result = found[number]
        usage += result.usage
        if result.result_type is ResultType.FAILURE:
            notes.append(f"{pluralise(len(chunk), 'line')} of observations could not be clustered: {result.reason}")
            nodes += chunk
        else:
            nodes += apply_groups(chunk, result.output["clusters"])
    renamed = (one if not one.name else replace(one, id=f"C{number}") for number, one in enumerate(nodes))
    return Clustering(clusters=tuple(renamed), other=before.other, notes=tuple(dict.fromkeys(notes)), usage=usage)


def estimate_subject(batches: int) -> Subject:
    """Build a subject of the size expected after this many batches, to estimate the cost of clustering."""
    line = "O00 " + "observed " * LIKELY_WORDS
    return _subject(
        [ClusterNode(id="", text=line, observations=())] * min(MOST_TOGETHER, batches * LIKELY_OBSERVATIONS)
    )


def apply_groups(nodes: Sequence[ClusterNode], groups: Sequence[Mapping[str, Any]]) -> list[ClusterNode]:
    """Merge nodes into the groups that a model's answer names. Other nodes follow in their original order."""
    left = {node.id: node for node in nodes}
    made = []
    for group in groups:
        names = (one_line(str(name)).strip("[]") for name in group["members"])
        members = [left.pop(name) for name in names if name in left]
        if members:
            made.append(_joined(group, members))
    return [*made, *left.values()]


def _joined(group: Mapping[str, Any], members: Sequence[ClusterNode]) -> ClusterNode:
    """Merge the members of a group. If the only member is a cluster, return it unchanged."""
    if len(members) == 1 and members[0].name:
        return members[0]
    return ClusterNode(
        id="",
        name=slug(str(group["name"])).lower() or UNNAMED,
        text=cut(one_line(str(group["text"])), LONGEST_TEXT) or members[0].text,
        observations=tuple(one for member in members for one in member.observations),
        parts=tuple(dict.fromkeys(member.name for member in members if member.name)),
    )


def _settled(made: Clustering) -> Clustering:
    """Move observations that are still unclustered after the last round to `other`."""
    alone = tuple(one for node in made.clusters if not node.name for one in node.observations)
    return replace(made, clusters=tuple(node for node in made.clusters if node.name), other=(*made.other, *alone))


def _by_name(nodes: Sequence[ClusterNode]) -> tuple[ClusterNode, ...]:
    """Merge clusters that got the same name in separate questions."""
    found: dict[str, ClusterNode] = {}
    for node in nodes:
        same = found.get(node.name) if node.name not in ("", UNNAMED) else None
        key = node.name if node.name and node.name != UNNAMED else node.id
        both = (*same.observations, *node.observations) if same else node.observations
        found[key] = replace(same or node, observations=both)
    return tuple(found.values())


def _chunks(nodes: Sequence[ClusterNode], room: int) -> Iterator[tuple[ClusterNode, ...]]:
    """Split the nodes, in order, into chunks that fit into one question. A node that is too long gets its own chunk."""
    return fill_parts(((node, estimate_tokens(node.line) + 1) for node in nodes), room, MOST_TOGETHER)


def _subject(nodes: Sequence[ClusterNode]) -> Subject:
    target = CitationTarget(kind="result", item="observations")
    text = "\n".join(node.line for node in nodes)
    return Subject.of("exploration", [SubjectItem(mark="observations", about="", text=text, target=target)])


MOST_PASSAGES = 6
"""Maximum passages of one cluster."""
MOST_SHARES = 3
"""Maximum shares of one kind (model, task or trial) that a cluster lists."""


def build_clusters(nodes: Iterable[ClusterNode], members: Sequence[Member]) -> tuple[Cluster, ...]:
    """Build the clusters, ordered by number of agent runs, largest first."""
    by_id = {member.id: member for member in members}
    made = (_cluster(node, by_id) for node in nodes)
    return tuple(sorted(made, key=lambda one: (-len(one.agent_runs), -len(one.observations), one.name)))


def unmentioned_runs(
    members: Iterable[Member], observations: Iterable[Observation], unread: Iterable[str]
) -> tuple[str, ...]:
    """Return the agent runs that were read but that no observation mentions."""
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
    """Yield quoted passages: first one of each agent run, then the others."""
    every = [passage for one in observations for passage in one.passages if passage.text.strip()]
    first = list({passage.agent_run_id: passage for passage in reversed(every)}.values())[::-1]
    chosen = [*first, *(passage for passage in every if passage not in first)]
    yield from chosen[:MOST_PASSAGES]


def _shares(mine: Sequence[Member], members: Mapping[str, Member]) -> Iterator[ClusterShare]:
    """Yield the cluster's most common models, tasks and trials; a kind with one value in the collection is omitted."""
    for of, name in _KINDS.items():
        among = Counter(map(name, members.values()))
        if len(among) > 1:
            most = sorted(Counter(map(name, mine)).items(), key=lambda one: (-one[1], one[0]))[:MOST_SHARES]
            if of == "trial" and 2 * most[0][1] <= len(mine):
                continue  # a trial number means nothing unless most runs of the cluster share it
            yield from (ClusterShare(of=of, name=each, agent_runs=n, among=among[each]) for each, n in most)


_KINDS = {
    "model": lambda member: f"{member.provider}/{member.model}",
    "task": lambda member: member.task,
    "trial": lambda member: str(member.trial),
}


MOST_ERRORS = 3
"""Maximum errors that the text of a cause includes."""
LONGEST_ERROR = 160
FOREMOST = 5
"""Number of causes named in the answer."""


class CausedFailure(Frozen):
    """One failed eval with the cause of its failure."""

    member: Member
    cause: str
    kind: str
    why: str
    error: str
    signature: str | None = None
    """Error signature, equal for failures with the same error; None if the error was not located."""
    uncertain: bool = False
    passages: tuple[Passage, ...] = ()


def cause_observations(failures: Iterable[CausedFailure]) -> tuple[Observation, ...]:
    """Return one observation per failure, in order. These observations are facts rather than a model's claims."""
    return tuple(
        Observation(id=f"O{number}", text=_text(one), agent_runs=(one.member.id,), passages=one.passages)
        for number, one in enumerate(failures)
    )


def cluster_by_cause(failures: Sequence[CausedFailure], observations: Sequence[Observation]) -> tuple[ClusterNode, ...]:
    """Cluster failures with equal causes.

    A cause that occurs once forms no cluster. A failure of uncertain cause joins the cluster of a failure with a
    certain cause and the same error signature.
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

    A failure of uncertain cause gets the most common certain cause of the same error, unless other failures share its
    uncertain cause: one symptom (such as a limit) may have many causes.
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
    """Describe a cluster, such as `3 times: returns 1 where the task asks for 2; … (kind of cause: model)`."""
    said = Counter(prose(one.why or one.error, LONGEST_ERROR).removesuffix(".") for one in members)
    most = sorted(said.items(), key=lambda each: (-each[1], each[0]))[:MOST_ERRORS]
    told = [text if n == 1 else f"{n} times: {text}" for text, n in most]
    more = [f"and {len(said) - len(most)} more"] if len(said) > len(most) else []
    unsure = sum(one.uncertain for one in members)
    sure = [] if not unsure else ["no rule is certain" if unsure == len(members) else f"{unsure} of them uncertain"]
    return f"{'; '.join([*told, *more])} ({', '.join([f'kind of cause: {kind}', *sure])})"


def describe_figures(clusters: Sequence[Cluster], failed: int, explored: int) -> str:
    """Summarise in words how many agent runs failed, and the most common causes."""
    said = f"{failed or 'None'} of {pluralise(explored, 'agent run')} failed."
    if not clusters:
        return said
    most = [f"{words(one.name)} ({len(one.agent_runs)})" for one in clusters[:FOREMOST]]
    more = f", and {pluralise(len(clusters) - FOREMOST, 'other')}" if len(clusters) > FOREMOST else ""
    return f"{said} Causes shared by several: {', '.join(most)}{more}."


def words(name: str) -> str:
    """Return a cluster's name as prose, with spaces instead of hyphens."""
    return prose(" ".join(name.split("-")))


MOST_SHOWN = 15
"""Maximum clusters shown to the model, those with the most agent runs first."""
LONGEST_ANSWER = 1800
LONGEST_PASSAGE = 300


def answer_subject(clusters: Sequence[Cluster], explored: int) -> Subject:
    """Build the judge's subject from the clusters, with the marks `A0`, `A1` …."""
    items = (_item(number, cluster, explored) for number, cluster in enumerate(clusters[:MOST_SHOWN]))
    return Subject.of("exploration", list(items))


def _item(number: int, cluster: Cluster, explored: int) -> SubjectItem:
    mark = f"A{number}"
    share = f"seen in {len(cluster.agent_runs)} of {pluralise(explored, 'agent run')}"
    words = (f'- "{one_line(cut(one.text, LONGEST_PASSAGE))}"' for one in cluster.passages if one.text)
    text = "\n".join([f"{cluster.name}: {cluster.text}", share, *words])
    return SubjectItem(mark=mark, about="cluster", text=text, target=CitationTarget(kind="result", item=mark))


def parse_answer(result: JudgeResult, rubric: Rubric, subject: Subject) -> tuple[str, int]:
    """Return the answer as one line that cites clusters as `(1)`, and the number of unresolved citations."""
    cited = JudgeResultWithCitations.from_judge_result(result, rubric.output_schema, subject).output["answer"]
    text, wrong = cited["text"], sum(one["status"] == "unverified" for one in cited["citations"])
    parts, at = list[str](), 0
    for start, end, numbers in _brackets(text, cited["citations"]):
        parts.append(text[at:start].rstrip() if numbers or start else "")
        parts.append(f" ({', '.join(map(str, numbers))})" if numbers else "")
        at = end
    return cut(one_line("".join([*parts, text[at:]])), LONGEST_ANSWER), wrong


def _brackets(text: str, citations: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, int, list[int]]]:
    """Yield each group of adjacent citations: its start and end, and the numbers of the cited clusters (from 1)."""
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
