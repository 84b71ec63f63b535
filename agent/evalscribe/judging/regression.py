"""Show a judge two trials of one eval as one subject, and parse its explanation of the difference."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from evalscribe.judging.requests import run_items, transcripts_of
from evalscribe.judging.rubric_judge import JudgeResultWithCitations
from evalscribe.judging.subjects import Subject
from evalscribe.model.comparison import Quote, RegressionExplanation
from evalscribe.model.finding import CAUSE_KINDS
from evalscribe.model.record import Record
from evalscribe.model.result import CitationTarget, JudgeResult
from evalscribe.model.rubric import Rubric
from evalscribe.text import one_line, slug

_SPACE_BEFORE = re.compile(r"\s+(?=[.,;:!?)])")
_JOINS = re.compile(r"\s*[,;]?\s*(?:and)?\s*")
"""Text between two marks that is dropped together with them."""
_EMPTY = re.compile(r"\(\s*[,;]*\s*\)")


def pair_subject(base: Record | None, candidate: Record) -> Subject:
    """Return a subject with `R0` and its transcripts, then `R1` and its own; without a base `R1` alone, from `T0` on.

    The subject has the id of the candidate's agent run.
    """
    before = [] if base is None else list(run_items(0, 0, base))
    first = 0 if base is None else transcripts_of(base)
    return Subject.of(candidate.eval.id, [*before, *run_items(1, first, candidate)])


def parse_why(result: JudgeResult, rubric: Rubric, subject: Subject, base_id: str | None) -> RegressionExplanation:
    """Parse the judge's explanation, with citations as quotations; `base_id` is the id of the base's agent run."""
    cited = JudgeResultWithCitations.from_judge_result(result, rubric.output_schema, subject)
    explanation = cited.output["explanation"]
    kind = cited.output.get("kind")
    return RegressionExplanation(
        behaviour=slug(str(cited.output["behaviour"])).lower() or "unnamed",
        text=without_marks(explanation),
        kind=kind if kind in CAUSE_KINDS else None,
        quotes=tuple(_once(_quotes(explanation["citations"], subject, base_id))),
        judge=result.judge,
        result=result.id,
    )


def without_marks(cited: Mapping[str, Any]) -> str:
    """Return a cited text on one line, without its marks."""
    text, told, at = str(cited["text"]), "", 0
    for one in cited["citations"]:
        between = text[at : max(at, one["start_idx"])]
        told += "" if at and _JOINS.fullmatch(between) else between
        at = max(at, one["end_idx"])
    return one_line(_SPACE_BEFORE.sub("", _EMPTY.sub("", told + text[at:])))


def _quotes(citations: Iterable[Mapping[str, Any]], subject: Subject, base_id: str | None) -> Iterator[Quote]:
    for one in citations:
        target = CitationTarget.model_validate(one["target"]) if one["target"] else None
        if target is None:
            said = one["quote"]
            yield from [Quote(side="candidate", place="nowhere", text=said, verified=False)] if said else []
            continue
        text = _text(target, subject) if target.start_idx is not None else one["quote"]
        side = "base" if base_id is not None and target.agent_run_id == base_id else "candidate"
        yield from [Quote(side=side, place=_place(target), text=text, verified=True)] if text else []


def _text(target: CitationTarget, subject: Subject) -> str:
    return (subject.text_of(target) or "")[target.start_idx : target.end_idx]


def _place(target: CitationTarget) -> str:
    if target.kind == "document":
        return f"{target.role} {target.path}"
    if target.block_idx is not None:
        return f"message {target.block_idx + 1}"
    return target.metadata_key or {"agent_run": "as recorded"}.get(target.kind, target.item)


def _once(quotes: Iterable[Quote]) -> Iterator[Quote]:
    yield from dict.fromkeys(quotes)
