"""What earlier reports say is shown by one rule, whoever asks about the failure."""

from evalscribe.judging.classifier import evidence_delimiter, render_question
from evalscribe.judging.subjects import MAX_PRECEDENTS, failure_subject, select_precedents
from evalscribe.model.finding import Precedent
from evalscribe.prompts.templates import Prompts
from support.classifier_failure import make_evidence, make_packed_failure

OURS = Precedent(
    report="ours.md", date="day-0", eval="a", classification="KNOWN_GAP", cause="guess", reasoning="Because so."
)


def person(number: int) -> Precedent:
    return Precedent(
        report=f"r{number}.md", date=f"day-{number}", eval="a", classification="OVERLY_STRICT", by_person=True
    )


def test_people_and_actions_are_shown_and_no_conclusion_of_ours() -> None:
    acted = OURS.model_copy(update={"action": "the port is fixed"})
    assert select_precedents((OURS,)) == ()
    (told,) = select_precedents((acted,))
    assert (told.classification, told.cause, told.reasoning, told.action) == (None, None, None, "the port is fixed")
    assert select_precedents((person(1),)) == (person(1),)


def test_every_question_about_a_failure_shows_the_same_ones() -> None:
    precedents = (OURS, *(person(number) for number in range(1, 10)))
    known = make_packed_failure(make_evidence()).model_copy(update={"precedents": precedents})
    investigated = render_question(Prompts(), known, evidence_delimiter(known))
    judged = failure_subject("r", make_evidence(), precedents).text()
    for text in (investigated, judged):
        assert [number for number in range(10) if f"day-{number}" in text] == list(range(1, MAX_PRECEDENTS + 1))
