"""What a judge is asked about one subject, as one request."""

from evalscribe.judging.rubric.template import filled
from evalscribe.judging.subject.item import Subject
from evalscribe.model.chat import Request
from evalscribe.model.output_schema import provider_schema
from evalscribe.model.rubric import OutputParsingMode, Rubric
from evalscribe.tokens import estimate


def asked(rubric: Rubric, subject: Subject, max_tokens: int, shown: str | None = None) -> Request:
    """The whole question; `shown` stands in place of the subject's own text."""
    system, messages = filled(rubric, subject.text() if shown is None else shown, subject.citation_help)
    constrained = rubric.output_parsing_mode is OutputParsingMode.CONSTRAINED_DECODING
    return Request(
        system=system,
        messages=messages,
        max_tokens=max_tokens,
        effort=rubric.judge_model.reasoning_effort,
        answer_schema=provider_schema(rubric.output_schema) if constrained else None,
    )


def tokens_of(request: Request) -> int:
    """Of the prompt, estimated."""
    return estimate(request.system) + sum(estimate(message.text) for message in request.messages)
