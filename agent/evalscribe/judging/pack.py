"""Select the evidence that a judge reads first, within a token budget."""

from collections.abc import Collection, Iterator, Sequence
from itertools import islice

from evalscribe.evidence.differences import DocumentPair, at_positions, pair_documents, positions
from evalscribe.evidence.locate import locate_all, tests
from evalscribe.evidence.log import names_tests
from evalscribe.judging import prompt_text
from evalscribe.judging.excerpts import (
    CodeDifferences,
    code_differences,
    code_excerpts,
    excerpts,
    fitting_lines,
    grader_excerpts,
    head_range,
    log_excerpts,
    printable_path,
    transcript_excerpts,
)
from evalscribe.model.evidence import Diagnosis, Evidence, Excerpt, PackedEvidence, PreparedFailure
from evalscribe.model.finding import Failure

BUDGET = 6000
"""Maximum tokens of one packed failure."""
MOST_LEFT_OUT = 30
SHARES = {
    "log": 0.25,
    "known_gaps": 0.1,
    "task": 0.2,
    "grader": 0.2,
    "differences": 0.5,
    "expected": 0.15,
    "transcript": 0.6,
}
"""Maximum share of the budget per kind of evidence.

The sum exceeds one, because few failures have much of every kind.
"""


def prepare(evidence: Evidence) -> PreparedFailure:
    """Locate the errors, match the output with the reference and pack the evidence."""
    diagnosis = diagnose(evidence)
    return PreparedFailure(digest=evidence.digest, diagnosis=diagnosis, packed=pack(evidence, diagnosis=diagnosis))


def case_of(evidence: Evidence, prepared: PreparedFailure | None = None) -> Failure:
    """Return the case without history; prepare it again if `prepared` is missing or comes from other evidence."""
    if prepared is None or prepared.digest != evidence.digest:
        prepared = prepare(evidence)
    return Failure(evidence=evidence, packed=prepared.packed, diagnosis=prepared.diagnosis)


def diagnose(evidence: Evidence) -> Diagnosis:
    return Diagnosis(
        errors=locate_all(evidence), tests=tests(evidence), pairs=positions(evidence, pair_documents(evidence))
    )


def pack(evidence: Evidence, budget: int = BUDGET, *, diagnosis: Diagnosis | None = None) -> PackedEvidence:
    """Select the most important evidence within the budget; `left_out` names the rest.

    Args:
        evidence: Evidence of the failure.
        budget: Maximum tokens.
        diagnosis: Diagnosis of the evidence; None to compute it.
    """
    diagnosis = diagnosis or diagnose(evidence)
    both = at_positions(evidence, diagnosis.pairs)
    told = code_differences(both, diagnosis.errors, int(budget * SHARES["differences"]))
    chosen, cut = _within(
        _chosen(evidence, diagnosis, both, told, budget), budget - prompt_text.estimate_tokens(told.text)
    )
    left_out = (*evidence.missing, *_untouched(evidence, chosen), *told.left_out, *cut)
    return PackedEvidence(
        excerpts=tuple(chosen),
        differences=told.text,
        left_out=_bounded(dict.fromkeys(left_out)),
        tokens=prompt_text.estimate_tokens(told.text)
        + sum(prompt_text.estimate_tokens(excerpt.text) for excerpt in chosen),
    )


def _bounded(phrases: Collection[str]) -> tuple[str, ...]:
    more = len(phrases) - MOST_LEFT_OUT
    return (*islice(phrases, MOST_LEFT_OUT), *([f"and {more} more"] if more > 0 else []))


def _chosen(
    evidence: Evidence, diagnosis: Diagnosis, both: Sequence[DocumentPair], told: CodeDifferences, budget: int
) -> Iterator[tuple[Excerpt, int]]:
    """Yield excerpts, most important first, each with its maximum tokens."""
    for excerpt in log_excerpts(evidence, diagnosis.errors):
        yield excerpt, int(budget * SHARES["log"])
    for excerpt in _whole(evidence, "known_gaps", int(budget * SHARES["known_gaps"])):
        yield excerpt, budget
    for excerpt in _whole(evidence, "task", int(budget * SHARES["task"])):
        yield excerpt, budget
    if evidence.of("transcript"):
        for excerpt in _whole(evidence, "expected", int(budget * SHARES["expected"])):
            yield excerpt, budget
        for excerpt in transcript_excerpts(evidence, int(budget * SHARES["transcript"])):
            yield excerpt, budget
    for excerpt in code_excerpts(evidence, both, diagnosis.errors, told):
        yield excerpt, budget
    if names_tests(evidence.eval.failed_step):
        names = [failure.name for failure in diagnosis.tests.failures]
        for excerpt in grader_excerpts(evidence, names):
            yield excerpt, int(budget * SHARES["grader"])


def _whole(evidence: Evidence, role: str, budget: int) -> Iterator[Excerpt]:
    """Yield the documents of a role from their beginning, within the budget."""
    for document in evidence.documents:
        if document.role == role and document.text.strip():
            yield from excerpts(document, [head_range(document, budget)])


def _within(chosen: Iterator[tuple[Excerpt, int]], budget: int) -> tuple[list[Excerpt], list[str]]:
    """Return the excerpts that fit, the last one shortened, and the parts of the output that were cut."""
    kept: list[Excerpt] = []
    cut: list[str] = []
    for excerpt, most in chosen:
        lines = excerpt.text.split("\n")
        count = fitting_lines(lines, min(most, budget))
        if count < len(lines) and excerpt.role == "output":
            first, last = excerpt.first + count, excerpt.first + len(lines) - 1
            cut.append(f"output {printable_path(excerpt.path)}: lines {first}-{last}")
        if count:
            kept.append(excerpt.model_copy(update={"text": "\n".join(lines[:count])}))
            budget -= sum(prompt_text.estimate_tokens(line) + 1 for line in lines[:count])
    return kept, cut


def _untouched(evidence: Evidence, chosen: Sequence[Excerpt]) -> Iterator[str]:
    """Yield the name and length of graders and logs that are not shown in full."""
    for document in evidence.of("grader", "log", "task", "known_gaps", "transcript"):
        shown_lines = sum(
            excerpt.text.count("\n") + 1
            for excerpt in chosen
            if excerpt.role == document.role and excerpt.path == document.path
        )
        if shown_lines < len(document.lines) and document.text.strip():
            yield f"{document.role} {printable_path(document.path)}: {len(document.lines) - shown_lines} lines"
