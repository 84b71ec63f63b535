"""Precedents from earlier reports are selected by the same rule for every judge."""

from evalscribe.judging.classifier import evidence_delimiter, render_question
from evalscribe.judging.subjects import MAX_PRECEDENTS, failure_subject, select_precedents
from evalscribe.model.finding import Precedent
from evalscribe.prompts.templates import Prompts
from support.classifier_failure import make_evidence, make_packed_failure

OURS = Precedent(
    report="ours.md", date="day-0", eval="a", classification="KNOWN_GAP", cause="guess", reasoning="Because so."
)


def human_label(number: int) -> Precedent:
    return Precedent(
        report=f"r{number}.md", date=f"day-{number}", eval="a", classification="OVERLY_STRICT", by_person=True
    )


def test_precedents_show_human_labels_and_actions_but_no_unreviewed_verdict() -> None:
    acted = OURS.model_copy(update={"action": "the port is fixed"})
    assert select_precedents((OURS,)) == ()
    (precedent,) = select_precedents((acted,))
    assert (precedent.classification, precedent.cause, precedent.reasoning, precedent.action) == (
        None,
        None,
        None,
        "the port is fixed",
    )
    assert select_precedents((human_label(1),)) == (human_label(1),)


def test_classifier_and_rubric_judge_show_the_same_precedents() -> None:
    precedents = (OURS, *(human_label(number) for number in range(1, 10)))
    known = make_packed_failure(make_evidence()).model_copy(update={"precedents": precedents})
    investigated = render_question(Prompts(), known, evidence_delimiter(known))
    judged = failure_subject("r", make_evidence(), precedents).text()
    for text in (investigated, judged):
        assert [number for number in range(10) if f"day-{number}" in text] == list(range(1, MAX_PRECEDENTS + 1))
