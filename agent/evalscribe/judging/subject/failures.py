"""A failed eval as a judge of any rubric is shown it: facts, documents with line numbers, what earlier reports say."""

from collections.abc import Iterator, Sequence

from evalscribe.judging.fence import quoted
from evalscribe.judging.precedents import shown
from evalscribe.judging.subject.item import Item, Subject, in_parts
from evalscribe.judging.subject.results import result_items
from evalscribe.model.evidence import Document, Evidence
from evalscribe.model.finding import Precedent
from evalscribe.model.result import CitationTarget, JudgeResult

FAILURE = "failure"
"""Mark of the item that holds what is recorded about the failure itself."""


def of_evidence(
    run_id: str,
    evidence: Evidence,
    precedents: Sequence[Precedent] = (),
    earlier: Sequence[JudgeResult] = (),
) -> Subject:
    """A failed eval: `failure`, `output src/main.py` for its documents, `P0` earlier reports, `A0` earlier results."""
    documents = [_document(document) for document in evidence.documents]
    items = [_failure(evidence), *documents, *_precedents(precedents), *result_items(earlier)]
    return Subject.of(f"{run_id}/{evidence.eval.path}", items)


def document_mark(document: Document) -> str:
    """`output src/main.py`; a path that could be misread on a line stands there as a JSON string."""
    path = document.path
    plain = path.isprintable() and path == path.strip() and path and not path.startswith('"')
    return f"{document.role} {path if plain else quoted(path)}"


def _document(document: Document) -> Item:
    mark = document_mark(document)
    target = CitationTarget(kind="document", item=mark, role=document.role, path=document.path)
    return Item(mark=mark, about="", text=document.text, target=target, numbered=True)


def _failure(evidence: Evidence) -> Item:
    judged = evidence.eval
    steps = "\n".join(
        f"{step.name} {step.status}" + (f": {step.error}" if step.error else "") for step in evidence.steps
    )
    facts = {
        "eval": judged.path,
        "failed step": judged.failed_step or ("none, grading never began" if evidence.never_graded else "not recorded"),
        "steps": steps,
        "recorded reason": judged.reason,
        "not here": "\n".join(evidence.missing),
    }
    text, labels = in_parts([(label, fact) for label, fact in facts.items() if fact])
    return Item(
        mark=FAILURE,
        about="as recorded",
        text=text,
        labels=labels,
        target=CitationTarget(kind="document", item=FAILURE),
    )


def _precedents(precedents: Sequence[Precedent]) -> Iterator[Item]:
    for number, precedent in enumerate(shown(precedents)):
        mark = f"P{number}"
        text, labels = in_parts(list(_told(precedent)))
        about = f"earlier report {quoted(precedent.report)}"
        target = CitationTarget(kind="result", item=mark, path=precedent.report)
        yield Item(mark=mark, about=about, text=text, labels=labels, target=target)


def _told(precedent: Precedent) -> Iterator[tuple[str, str]]:
    facts = {
        "date": precedent.date,
        "eval": precedent.eval,
        "step": precedent.step,
        "label": precedent.classification,
        "cause": precedent.cause,
        "error": precedent.error,
        "reasoning": precedent.reasoning,
        "done about it": precedent.action,
        "said by": precedent.reviewer,
        "in their words": precedent.note,
        "of another model": precedent.model,
    }
    return ((label, fact) for label, fact in facts.items() if fact)
