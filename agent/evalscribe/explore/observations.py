"""What a reader observed, held against what it was shown: what nothing holds up is told apart."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evalscribe.explore.batches import Shown
from evalscribe.judging.marks.written import written
from evalscribe.judging.regression import without_marks
from evalscribe.judging.rubric.cited import JudgeResultWithCitations
from evalscribe.model.exploration import Observation, Passage
from evalscribe.model.result import CitationTarget, JudgeResult
from evalscribe.model.rubric import Rubric
from evalscribe.text import cut

LONGEST_TEXT = 500
LONGEST_PASSAGE = 600
MOST_PASSAGES = 12
"""Of one observation."""


def observed(result: JudgeResult, rubric: Rubric, shown: Shown) -> tuple[Observation, ...]:
    """The observations of one batch, in the reader's order and not yet numbered."""
    cited = JudgeResultWithCitations.from_judge_result(result, rubric.output_schema, shown.subject)
    found = (_observation(said, shown) for said in cited.output["observations"])
    return tuple(one for one in found if one.text)


def _observation(said: Mapping[str, Any], shown: Shown) -> Observation:
    named = _named(said["text"], shown)
    held: list[Passage] = []
    invented = 0
    for citation in said["citations"]:
        passage = _passage(citation, named.get(citation["start_idx"]), shown)
        invented += passage is None
        held += [passage] if passage and passage not in held else []
    runs = tuple(dict.fromkeys(passage.agent_run_id for passage in held))
    text = cut(without_marks(said), LONGEST_TEXT)
    return Observation(id="", text=text, agent_runs=runs, passages=tuple(held[:MOST_PASSAGES]), invented=invented)


def _named(text: str, shown: Shown) -> dict[int, str | None]:
    """By where a citation begins: the agent run that it names."""
    return {mark.start: mark.item.target.agent_run_id for mark in written(text, shown.subject) if mark.item}


def _passage(citation: Mapping[str, Any], named: str | None, shown: Shown) -> Passage | None:
    """None where nothing holds: words of another agent run than the one that is named prove nothing of it."""
    target = CitationTarget.model_validate(citation["target"]) if citation["target"] else None
    if target is None or citation["status"] == "unverified":
        return None
    member = shown.member(target)
    if member is None or (citation["status"] == "relocated" and target.agent_run_id != named):
        return None
    return Passage(
        agent_run_id=member.id,
        run_id=member.run_id,
        eval=member.eval,
        transcript_id=target.transcript_id,
        block=target.block_idx,
        place=shown.place(target),
        text=cut(_text(target, shown), LONGEST_PASSAGE),
        status=citation["status"],
    )


def _text(target: CitationTarget, shown: Shown) -> str:
    """The words that stand there; of a whole value of metadata the value."""
    if target.start_idx is None and not target.metadata_key:
        return ""
    return (shown.subject.text_of(target) or "")[target.start_idx or 0 : target.end_idx]


def numbered(batches: Sequence[Sequence[Observation]]) -> tuple[tuple[Observation, ...], tuple[Observation, ...]]:
    """Those that something holds up, `O0`, `O1` …, and those that nothing does, `U0` …; each in the order read."""
    every = [one for batch in batches for one in batch]
    return (
        tuple(_ids("O", (one for one in every if one.agent_runs))),
        tuple(_ids("U", (one for one in every if not one.agent_runs))),
    )


def _ids(letter: str, observations: Iterator[Observation]) -> Iterator[Observation]:
    for number, one in enumerate(observations):
        yield one.model_copy(update={"id": f"{letter}{number}"})
