"""Observe agent runs in batches: build prompts, pack batches, and check the model's observations."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from evalscribe.ids import content_id
from evalscribe.judging.citations import parse_marks, without_marks
from evalscribe.judging.long_subjects import DELIMITERS, LEAST, LONGEST_PART, MARGIN
from evalscribe.judging.prompt_text import Delimiter, estimate_tokens, show_invisible
from evalscribe.judging.requests import run_items, transcripts_of
from evalscribe.judging.rubric_judge import JudgeResultWithCitations
from evalscribe.judging.subjects import Subject, SubjectItem
from evalscribe.model.exploration import Member, Observation, Passage
from evalscribe.model.record import Record
from evalscribe.model.result import CitationTarget, JudgeResult
from evalscribe.model.rubric import PromptTemplateMessage, Rubric
from evalscribe.prompts.templates import Prompts
from evalscribe.text import cut

FOLDER = "explore"
QUESTION = "explore/question.md.j2"
OBSERVE, CLUSTER, ANSWER = "explore/observe.md.j2", "explore/cluster.md.j2", "explore/answer.md.j2"
MOST_OBSERVED = 40
"""Maximum number of observations that a model may state about one batch."""


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_TEXT = {"type": "string"}
_CITED = {"type": "string", "citations": True}
_CLUSTER = _object(
    name={**_TEXT, "description": "Short kebab-case name."},
    text={**_TEXT, "description": "One sentence that is true of all members."},
    members={"type": "array", "items": _TEXT, "description": "Ids, such as O3."},
)


def observing_rubric(prompts: Prompts, question: str) -> Rubric:
    """Return the rubric by which a model reads agent runs and states what it observes about the question.

    The model's answers have the form `{"observations": [text with citations, …]}`.
    """
    return _rubric(prompts, question, OBSERVE, _object(observations={"type": "array", "items": _CITED}))


def clustering_rubric(prompts: Prompts, question: str) -> Rubric:
    """Return the rubric by which a model groups observations.

    The model's answers have the form `{"clusters": [{"name", "text", "members": [id, …]}, …]}`.
    """
    return _rubric(prompts, question, CLUSTER, _object(clusters={"type": "array", "items": _CLUSTER}))


def answering_rubric(prompts: Prompts, question: str) -> Rubric:
    """Return the rubric by which a model answers the question.

    The model's answers have the form `{"answer": text with citations}`.
    """
    return _rubric(prompts, question, ANSWER, _object(answer=_CITED))


def _rubric(prompts: Prompts, question: str, template: str, schema: dict[str, Any]) -> Rubric:
    question_block = Delimiter(content_id(question), [question]).block("question", show_invisible(question))
    message = prompts.render(template, most=MOST_OBSERVED)
    return Rubric(
        id=template.removesuffix(".md.j2").replace("/", "-"),
        rubric_text=prompts.render(QUESTION, question=question_block).strip(),
        output_schema=schema,
        prompt_templates=(PromptTemplateMessage(role="user", content=message),),
    )


LONGEST_ANSWER, ANSWERS = 16_384, 0.5
"""Maximum tokens of an answer, and maximum share of the context window that is reserved for an answer."""
QUESTION_TOKENS = 1500
"""Estimated number of tokens of a prompt without its batch."""
MOST_TOGETHER = 12
"""Maximum number of agent runs in one batch.

Given more agent runs, models report only what most of them have in common.
"""
_MARK = re.compile(r"([TR])(\d+)")


def batch_tokens(window: int) -> int:
    """Return the maximum size of a batch in tokens, so that prompt and answer fit into the context window.

    The result is always at least `LEAST` and at most `LONGEST_PART`.
    """
    answer = min(LONGEST_ANSWER, int(ANSWERS * window))
    return max(LEAST, min(int(MARGIN * (window - answer - QUESTION_TOKENS)), LONGEST_PART))


def run_tokens(record: Record) -> int:
    """Estimate the number of tokens of an agent run in the form in which a model sees it."""
    return sum(
        estimate_tokens(item.text) + estimate_tokens(item.about) + DELIMITERS for item in run_items(0, 0, record)
    )


def pack_batches(runs: Iterable[tuple[Member, Record]], max_tokens: int) -> Iterator[tuple[tuple[Member, Record], ...]]:
    """Pack agent runs into batches, in order.

    An agent run longer than `max_tokens` gets its own batch, which the model reads in parts.
    """
    batch: list[tuple[Member, Record]] = []
    remaining = max_tokens
    for member, record in runs:
        tokens = run_tokens(record)
        if batch and (tokens > remaining or len(batch) == MOST_TOGETHER):
            yield tuple(batch)
            batch, remaining = [], max_tokens
        batch.append((member, record))
        remaining -= tokens
    if batch:
        yield tuple(batch)


@dataclass(frozen=True)
class ObservedBatch:
    """A batch in the form in which a model sees it.

    Agent runs are numbered `R0`, `R1` and so on. Transcripts are numbered `T0`, `T1` and so on across all agent runs of
    the batch.
    """

    members: tuple[Member, ...]
    subject: Subject
    starts: tuple[int, ...]
    """Number of the first transcript of each agent run."""

    @classmethod
    def of(cls, runs: Sequence[tuple[Member, Record]]) -> "ObservedBatch":
        items: list[SubjectItem] = []
        starts = [0]
        for number, (_, record) in enumerate(runs):
            items += run_items(number, starts[-1], record)
            starts.append(starts[-1] + transcripts_of(record))
        members = tuple(member for member, _ in runs)
        return cls(members, Subject.of("exploration", items), tuple(starts[:-1]))

    def member(self, target: CitationTarget) -> Member | None:
        number = self._numbers.get(target.agent_run_id or "")
        return None if number is None else self.members[number]

    def place(self, target: CitationTarget) -> str:
        """Return the place of a passage, such as `T0B3`. Transcript numbers start at 0 in each agent run."""
        if target.kind == "document" and target.role:
            return f"{target.role} {target.path}"
        start = self.starts[self._numbers[target.agent_run_id or ""]]
        return _MARK.sub(lambda mark: f"T{int(mark[2]) - start}" if mark[1] == "T" else "R0", target.item, count=1)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {member.id: number for number, member in enumerate(self.members)}


LONGEST_TEXT = 500
LONGEST_PASSAGE = 600
MOST_PASSAGES = 12
"""Maximum number of passages kept for one observation."""


def parse_observations(result: JudgeResult, rubric: Rubric, batch: ObservedBatch) -> tuple[Observation, ...]:
    """Parse the observations about one batch, in order.

    The observations have empty ids. `number_observations` assigns the ids.
    """
    cited = JudgeResultWithCitations.from_judge_result(result, rubric.output_schema, batch.subject)
    observations = (_observation(cited_text, batch) for cited_text in cited.output["observations"])
    return tuple(observation for observation in observations if observation.text)


def _observation(cited_text: Mapping[str, Any], batch: ObservedBatch) -> Observation:
    run_ids = _run_ids_by_offset(cited_text["text"], batch)
    passages: list[Passage] = []
    invented = 0
    for citation in cited_text["citations"]:
        passage = _passage(citation, run_ids.get(citation["start_idx"]), batch)
        invented += passage is None
        passages += [passage] if passage and passage not in passages else []
    runs = tuple(dict.fromkeys(passage.agent_run_id for passage in passages))
    text = cut(without_marks(cited_text), LONGEST_TEXT)
    return Observation(id="", text=text, agent_runs=runs, passages=tuple(passages[:MOST_PASSAGES]), invented=invented)


def _run_ids_by_offset(text: str, batch: ObservedBatch) -> dict[int, str | None]:
    """Return the id of the agent run that each citation in the text names, keyed by the citation's offset."""
    return {mark.start: mark.item.target.agent_run_id for mark in parse_marks(text, batch.subject) if mark.item}


def _passage(citation: Mapping[str, Any], run_id: str | None, batch: ObservedBatch) -> Passage | None:
    """Resolve a citation to a passage.

    Returns None if the citation cannot be resolved, or if the quotation was found only in an agent run other than
    `run_id`.
    """
    target = CitationTarget.model_validate(citation["target"]) if citation["target"] else None
    if target is None or citation["status"] == "unverified":
        return None
    member = batch.member(target)
    # A transcript can claim something about another agent run. Such a claim is not evidence about that agent run.
    if member is None or (citation["status"] == "relocated" and target.agent_run_id != run_id):
        return None
    return Passage(
        agent_run_id=member.id,
        run_id=member.run_id,
        eval=member.eval,
        transcript_id=target.transcript_id,
        block=target.block_idx,
        place=batch.place(target),
        text=cut(_text(target, batch), LONGEST_PASSAGE),
        status=citation["status"],
    )


def _text(target: CitationTarget, batch: ObservedBatch) -> str:
    """Return the cited text. The text is empty if the citation names a whole item that is not a metadata value."""
    if target.start_idx is None and not target.metadata_key:
        return ""
    return (batch.subject.text_of(target) or "")[target.start_idx or 0 : target.end_idx]


def number_observations(
    batches: Sequence[Sequence[Observation]],
) -> tuple[tuple[Observation, ...], tuple[Observation, ...]]:
    """Assign ids to the observations, in reading order.

    Observations with evidence are numbered `O0`, `O1` and so on; observations without evidence `U0`, `U1` and so on.
    """
    observations = [observation for batch in batches for observation in batch]
    return (
        tuple(_ids("O", (observation for observation in observations if observation.agent_runs))),
        tuple(_ids("U", (observation for observation in observations if not observation.agent_runs))),
    )


def _ids(letter: str, observations: Iterator[Observation]) -> Iterator[Observation]:
    for number, observation in enumerate(observations):
        yield observation.model_copy(update={"id": f"{letter}{number}"})
