"""What the sub-agent submits: its shape, what is sent back, and the verdict that it becomes.

The instructions that ask for it are `prompts/classify/system.md.j2` and `prompts/rubrics/failure.yaml`; change them
together.
"""

import re
from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from evalscribe.judging.cite import verify
from evalscribe.judging.fence import one_line
from evalscribe.model.chat import Usage
from evalscribe.model.evidence import Citation, Evidence, Role
from evalscribe.model.finding import UNCERTAIN_CONFIDENCE, CauseKind, Classification, Verdict

LONGEST_WHY = 90
LONGEST_ERROR = 300
LONGEST_REASONING = 900
LONGEST_CAUSE = 60
MOST_QUOTATIONS = 12


def _kebab(name: str) -> str:
    cause = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:LONGEST_CAUSE].rstrip("-")
    if not cause:
        raise ValueError("must be a short kebab-case name")
    return cause


def _one_line(text: str) -> str:
    return " ".join(one_line(text).split())


Line = Annotated[str, AfterValidator(_one_line)]
Said = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1), AfterValidator(_one_line)]


class Quotation(BaseModel):
    model_config = ConfigDict(extra="forbid")

    role: Role = Field(description="Role of the document, as the evidence names it.")
    path: str = Field(description="Path of the document, letter by letter.")
    first: int = Field(description="Number of the first quoted line.")
    last: int = Field(description="Number of the last quoted line.")
    text: str = Field(description="These lines whole and unchanged, without their numbers.")


class Submission(BaseModel):
    """Submit the verdict of this failure; it ends the investigation."""

    model_config = ConfigDict(extra="forbid")

    error: Said = Field(description="The exact error in one line, or that the log ends before the reason.")
    citations: list[Quotation] = Field(description="The lines that prove it; the output's and the reference's first.")
    reasoning: Said = Field(description="Two or three sentences that explain the label.")
    classification: Classification = Field(description="The first label of the order that holds.")
    cause: Annotated[str, AfterValidator(_kebab)] = Field(
        description="Root cause as a short kebab-case name; equal causes have equal names: missing-as-const."
    )
    cause_kind: CauseKind = Field(description="Where the cause lies.")
    confidence: float = Field(ge=0, le=1, description="How sure the label is.")
    why: Said = Field(description=f"The verdict in one line of at most {LONGEST_WHY} characters, for a table.")
    fix: Line = Field(description="What to change in task, grader, lint or harness, one line; empty if nothing.")
    would_pass: bool = Field(description="Whether that change alone would let this output pass.")


class FirstSubmission(Submission):
    """Submit the verdict of this failure, with what it may be tagged with."""

    tags: list[str] = Field(description="Every issue that might apply, false positives included.")
    sure: bool = Field(description="Whether what you read decides it, so that nobody needs to look again.")


S = TypeVar("S", bound=Submission)


def parse(fields: dict[str, Any], shape: type[S], labels: Sequence[Classification]) -> S | list[str]:
    """The submission, or what is wrong with it, field by field; `labels` are those of the rubric."""
    try:
        submission = shape.model_validate(fields)
    except ValidationError as error:
        return [f"{'.'.join(map(str, e['loc'])) or 'submission'}: {e['msg']}" for e in error.errors()]
    if submission.classification not in labels:
        return [f"classification: {submission.classification} is no label of this rubric; {', '.join(labels)} are"]
    return submission


def verified(submission: Submission, evidence: Evidence) -> tuple[Citation, ...]:
    """Its quotations, each with its status."""
    quotations = submission.citations[:MOST_QUOTATIONS]
    return tuple(verify(Citation(**quotation.model_dump()), evidence) for quotation in quotations)


def doubts(submission: Submission, citations: tuple[Citation, ...]) -> list[str]:
    """What is worth asking once more for, but not worth losing the verdict over."""
    found = [
        f"citations.{n}: {citation.role} {citation.path!r} holds no such whole lines; quote what read_lines shows"
        for n, citation in enumerate(citations)
        if citation.status == "unverified"
    ]
    if len(submission.why) > LONGEST_WHY:
        found.append(f"why: {len(submission.why)} characters, at most {LONGEST_WHY} are wanted")
    if submission.classification == "MODEL_FAULT" and submission.cause_kind != "model":
        found.append(f"cause_kind: {submission.cause_kind} contradicts MODEL_FAULT, whose kind is model")
    return found


def verdict(submission: Submission, citations: tuple[Citation, ...], judge: str, usage: Usage) -> Verdict:
    """The verdict. One whose every quotation is invented is demoted to uncertain."""
    fault = submission.classification == "MODEL_FAULT"
    invented = bool(citations) and all(citation.status == "unverified" for citation in citations)
    confidence = min(submission.confidence, UNCERTAIN_CONFIDENCE) if invented else submission.confidence
    return Verdict(
        classification=submission.classification,
        cause=submission.cause,
        cause_kind="model" if fault else submission.cause_kind,
        confidence=confidence,
        uncertain=confidence <= UNCERTAIN_CONFIDENCE,
        error=_cut(submission.error, LONGEST_ERROR),
        why=_cut(submission.why, LONGEST_WHY),
        reasoning=_cut(submission.reasoning, LONGEST_REASONING),
        citations=citations,
        judge=judge,
        fix=submission.fix or None,
        would_pass=submission.would_pass and bool(submission.fix) and not fault,
        usage=usage,
    )


def _cut(text: str, longest: int) -> str:
    """At most so many characters, cut between words where there are any."""
    if len(text) <= longest:
        return text
    head = text[: longest - 1]
    return (head.rpartition(" ")[0] or head).rstrip(" ,;:") + "…"
