"""What people concluded before about the same failure."""

import pytest

from evalscribe.judging.rules.engine import decided_by_people
from evalscribe.judging.rules.precedents import describe_disagreement
from evalscribe.model.finding import Failure, Precedent, Verdict
from support.rules_failure import decide, make_failure

STOCK = '[cmd] mypy a.py\na.py:1: error: Module has no attribute "interval"  [attr-defined]\n[error] types: mypy failed'
PERSON = Precedent(
    report="r1.md",
    eval="basics/001-made",
    step="types",
    classification="AMBIGUOUS_TASK",
    by_person=True,
    error="`crons.interval()` is called without arguments",
)


def judged(precedent: Precedent) -> str | None:
    case = make_failure("types", log=STOCK, output={"a.py": "crons.interval(1)\n"}, precedents=[precedent])
    verdict = decide(case)
    assert (verdict.classification == "AMBIGUOUS_TASK") == (verdict.rule == "people-said-before")
    return verdict.rule


def test_a_persons_label_for_the_same_failure_stands() -> None:
    assert judged(PERSON) == "people-said-before"


def test_free_form_reports_name_the_error_in_their_reasoning() -> None:
    assert judged(PERSON.model_copy(update={"error": None, "reasoning": "Calls `crons.interval` with 1."})) is not None


@pytest.mark.parametrize(
    "change",
    [
        {"by_person": False},
        {"step": "tests"},
        {"error": "`storage.store` in a mutation"},
        {"classification": None},
        {"error": None},
    ],
)
def test_anything_less_is_history_only(change: dict[str, object]) -> None:
    assert judged(PERSON.model_copy(update=change)) != "people-said-before"


def test_the_reason_is_told_not_where_it_was_read() -> None:
    verdict = decide(make_failure("types", log=STOCK, output={"a.py": "crons.interval(1)\n"}, precedents=[PERSON]))
    assert verdict.why == "`crons.interval()` is called without arguments"
    assert "`r1.md` has the same failure, which people labelled AMBIGUOUS_TASK" in verdict.reasoning


OURS = PERSON.model_copy(update={"cause": "attr-defined", "error": 'Module has no attribute "interval" (attr-defined)'})


def test_a_reviewed_report_of_ours_counts_for_the_error_that_it_quotes() -> None:
    assert judged(OURS) == "people-said-before"


@pytest.mark.parametrize("error", ['Module has no attribute "crons" (attr-defined)', "types failed"])
def test_another_error_is_not_the_same_failure_though_the_names_are(error: str) -> None:
    assert judged(OURS.model_copy(update={"error": error})) != "people-said-before"


def failure(*precedents: Precedent) -> Failure:
    return make_failure("types", log=STOCK, output={"a.py": "crons.interval(1)\n"}, precedents=precedents)


def told(*precedents: Precedent) -> Verdict:
    return decide(failure(*precedents))


ADA = OURS.model_copy(update={"reviewer": "Ada"})
BEN = OURS.model_copy(update={"reviewer": "Ben", "classification": "KNOWN_GAP", "report": "r0.md"})


def test_what_the_store_knows_to_be_the_same_failure_needs_no_words() -> None:
    same = ADA.model_copy(update={"error": "told in other words", "alike": True, "model": "p/x"})
    verdict = told(same)
    assert verdict.rule == "people-said-before"
    assert "`r1.md` has the same failure with p/x, which Ada labelled AMBIGUOUS_TASK" in verdict.reasoning


def test_reviewers_who_disagree_are_no_evidence_and_make_unsure() -> None:
    alone, verdict = told(), told(ADA, BEN)
    assert verdict.rule != "people-said-before"
    assert verdict.classification == alone.classification
    assert verdict.uncertain
    assert verdict.confidence <= 0.5
    assert "Ada says AMBIGUOUS_TASK in `r1.md`, Ben says KNOWN_GAP in `r0.md`" in verdict.reasoning


def test_a_disagreement_says_how_often_each_reviewer_gave_the_label() -> None:
    again = [ADA.model_copy(update={"report": f"r{n}.md", "alike": True}) for n in (3, 2)]
    unnamed = BEN.model_copy(update={"reviewer": None, "alike": True})
    verdict = told(*again, unnamed)
    said = "Ada says AMBIGUOUS_TASK 2 times, last in `r3.md`, a reviewer says KNOWN_GAP in `r0.md`"
    assert f"People disagree about the same failure: {said}." == describe_disagreement((*again, unnamed))
    assert said in verdict.reasoning
    assert decided_by_people(failure(*again, unnamed)) is None


def test_corrections_of_the_same_failure_decide_with_certainty() -> None:
    """Also where the code under test may have written the error, because the failed tests are the same."""
    cy = ADA.model_copy(update={"reviewer": "Cy", "alike": True, "report": "r2.md", "cause_kind": "harness"})
    verdict = decided_by_people(failure(cy, ADA.model_copy(update={"alike": True})))
    assert verdict is not None
    assert (verdict.judge, verdict.rule, verdict.confidence) == ("people@1", "people-said-before", 1.0)
    assert (verdict.classification, verdict.cause_kind, verdict.uncertain) == ("AMBIGUOUS_TASK", "harness", False)
    assert "which Ada, Cy labelled AMBIGUOUS_TASK" in verdict.reasoning


def test_a_correction_does_not_decide_by_a_text_that_the_output_can_throw() -> None:
    """A build without failed tests is only known by its error, which code that runs in the build can throw."""
    log = "[cmd] build\nUncaught Error: the registry is down\n    at run (a.py:1:1)\n[error] types: failed"
    same = ADA.model_copy(update={"alike": True, "classification": "OVERLY_STRICT"})
    case = make_failure("types", log=log, output={"a.py": "raise Error('the registry is down')\n"}, precedents=[same])
    assert decided_by_people(case) is None
    verdict = decide(case)
    assert (verdict.classification, verdict.uncertain) == ("OVERLY_STRICT", True)
    blamed = same.model_copy(update={"classification": "MODEL_FAULT"})
    assert decided_by_people(case.model_copy(update={"precedents": (blamed,)})) is not None


def test_without_knowing_that_the_failure_is_the_same_a_judge_decides() -> None:
    assert decided_by_people(failure(ADA)) is None
    assert decided_by_people(failure(ADA.model_copy(update={"alike": True, "by_person": False}))) is None


def test_who_thinks_again_does_not_disagree() -> None:
    verdict = told(BEN.model_copy(update={"reviewer": "Ada"}), ADA)
    assert (verdict.rule, verdict.classification) == ("people-said-before", "KNOWN_GAP")


def test_a_disagreement_about_another_failure_is_none_about_this() -> None:
    other = {"error": "`storage.store` in a mutation"}
    verdict = told(ADA.model_copy(update=other), BEN.model_copy(update=other))
    assert "disagree" not in verdict.reasoning
