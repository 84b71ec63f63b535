"""What the model is asked: the same instructions for every case, and the case as delimited data."""

import json
from collections.abc import Mapping

from evalscribe.across import in_words
from evalscribe.judging.fence import Fence, marked, numbered, one_line, quoted
from evalscribe.judging.precedents import shown
from evalscribe.model.finding import Failure, LabelledExample, Precedent
from evalscribe.model.rubric import Rubric
from evalscribe.prompts.templates import Prompts

FOLDER = "classify"


def instructions(prompts: Prompts, rubric: Rubric, *, first_pass: str = "") -> str:
    """What a judge of failures is told; `first_pass` are the words for one that tags and has no tools to read with."""
    words = rubric.rubric_text.strip()
    return prompts.render(f"{FOLDER}/system.md.j2", rubric=words, reads=not first_pass, first_pass=first_pass)


def question(prompts: Prompts, case: Failure, fence: Fence) -> str:
    absent = _listed(tuple(dict.fromkeys((*case.evidence.missing, *case.packed.left_out))))
    return prompts.render(
        f"{FOLDER}/case.md.j2",
        tag=fence.tag,
        failure=fence.block("the failure", _failure(case)),
        excerpts=_excerpts(case, fence),
        differences=_differences(case, fence),
        missing=fence.block("not here", absent) if absent else "",
        concluded=_precedents(case, fence, by_person=True),
        history=_precedents(case, fence, by_person=False),
        examples=fence.block("similar failures", _listed([_similar(one) for one in case.examples]))
        if case.examples
        else "",
        models=in_words(case.across),
    )


def _failure(case: Failure) -> str:
    judged = case.evidence.eval
    steps = ", ".join(f"{step.name} {step.status}" for step in case.evidence.steps)
    facts = {
        "Eval": judged.path,
        "Failed step": judged.failed_step
        or ("none: grading never began" if case.evidence.never_graded else "not recorded"),
        "Steps": steps,
        "Recorded reason": judged.reason or "none",
    }
    return "\n".join(f"{name}: {one_line(text)}" for name, text in facts.items() if text)


def _excerpts(case: Failure, fence: Fence) -> list[str]:
    return [
        fence.block(f"{excerpt.role} {quoted(excerpt.path)}", numbered(excerpt.first, excerpt.text))
        for excerpt in case.packed.excerpts
    ]


def _differences(case: Failure, fence: Fence) -> str:
    if not case.packed.differences:
        return ""
    return fence.block("differences between output and reference", marked(case.packed.differences))


def _precedents(case: Failure, fence: Fence, *, by_person: bool) -> str:
    told = [_told(precedent) for precedent in shown(case.precedents) if precedent.by_person == by_person]
    return fence.block("earlier reports", _listed(told)) if told else ""


def _told(precedent: Precedent) -> str:
    facts = {
        "": precedent.date or precedent.report,
        "step": precedent.step,
        "label": precedent.classification,
        "cause": precedent.cause,
        "error": precedent.error,
        "done about it": precedent.action,
        "said by": precedent.reviewer,
        "in their words": precedent.note,
        "of another model": precedent.model,
    }
    return _facts(facts)


def _similar(example: LabelledExample) -> str:
    facts = {
        "": example.eval,
        "similar in": example.why,
        "step": example.step,
        "error": example.error,
        "label": example.label,
        "kind of cause": example.cause_kind,
        "said by": example.reviewer,
        "in their words": example.note,
        "date": example.date,
    }
    return _facts(facts)


def _facts(facts: Mapping[str, str | None]) -> str:
    """On one line; a value in which another fact could seem to begin stands in quotation marks."""
    return "; ".join(f"{name}: {_value(text)}".removeprefix(": ") for name, text in facts.items() if text)


def _value(text: str) -> str:
    return json.dumps(text, ensure_ascii=False) if ";" in text or text.startswith('"') else text


def _listed(lines: tuple[str, ...] | list[str]) -> str:
    return "\n".join(f"- {one_line(line)}" for line in lines)
