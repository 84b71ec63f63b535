"""Rules about human labels of the same failure in earlier reports."""

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


def test_human_label_of_the_same_failure_is_used() -> None:
    assert judged(PERSON) == "people-said-before"


def test_precedent_may_name_the_error_in_its_reasoning() -> None:
    precedent = PERSON.model_copy(update={"error": None, "reasoning": "Calls `crons.interval` with 1."})
    assert judged(precedent) == "people-said-before"


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
def test_incomplete_or_unrelated_precedent_does_not_decide(change: dict[str, object]) -> None:
    assert judged(PERSON.model_copy(update=change)) != "people-said-before"


def test_why_states_the_error_and_reasoning_names_the_report() -> None:
    verdict = decide(make_failure("types", log=STOCK, output={"a.py": "crons.interval(1)\n"}, precedents=[PERSON]))
    assert verdict.why == "`crons.interval()` is called without arguments"
    assert "`r1.md` has the same failure, which people labelled AMBIGUOUS_TASK" in verdict.reasoning


OURS = PERSON.model_copy(update={"cause": "attr-defined", "error": 'Module has no attribute "interval" (attr-defined)'})


def test_reviewed_report_decides_for_the_error_it_quotes() -> None:
    assert judged(OURS) == "people-said-before"


@pytest.mark.parametrize("error", ['Module has no attribute "crons" (attr-defined)', "types failed"])
def test_other_error_is_not_the_same_failure_even_with_the_same_names(error: str) -> None:
    assert judged(OURS.model_copy(update={"error": error})) != "people-said-before"


def failure(*precedents: Precedent) -> Failure:
    return make_failure("types", log=STOCK, output={"a.py": "crons.interval(1)\n"}, precedents=precedents)


def decide_with(*precedents: Precedent) -> Verdict:
    return decide(failure(*precedents))


ADA = OURS.model_copy(update={"reviewer": "Ada"})
BEN = OURS.model_copy(update={"reviewer": "Ben", "classification": "KNOWN_GAP", "report": "r0.md"})


def test_precedent_marked_alike_needs_no_matching_error_text() -> None:
    same = ADA.model_copy(update={"error": "told in other words", "alike": True, "model": "p/x"})
    verdict = decide_with(same)
    assert verdict.rule == "people-said-before"
    assert "`r1.md` has the same failure with p/x, which Ada labelled AMBIGUOUS_TASK" in verdict.reasoning


def test_disagreeing_reviewers_do_not_decide_and_make_the_verdict_uncertain() -> None:
    alone, verdict = decide_with(), decide_with(ADA, BEN)
    assert verdict.rule != "people-said-before"
    assert verdict.classification == alone.classification
    assert verdict.uncertain
    assert verdict.confidence <= 0.5
    assert "Ada says AMBIGUOUS_TASK in `r1.md`, Ben says KNOWN_GAP in `r0.md`" in verdict.reasoning


def test_disagreement_counts_the_labels_of_each_reviewer() -> None:
    again = [ADA.model_copy(update={"report": f"r{n}.md", "alike": True}) for n in (3, 2)]
    unnamed = BEN.model_copy(update={"reviewer": None, "alike": True})
    verdict = decide_with(*again, unnamed)
    disagreement = "Ada says AMBIGUOUS_TASK 2 times, last in `r3.md`, a reviewer says KNOWN_GAP in `r0.md`"
    assert f"People disagree about the same failure: {disagreement}." == describe_disagreement((*again, unnamed))
    assert disagreement in verdict.reasoning
    assert decided_by_people(failure(*again, unnamed)) is None


def test_corrections_of_the_same_failure_decide_with_certainty() -> None:
    """This holds even if the code under test may have written the error, because the failed tests are the same."""
    cy = ADA.model_copy(update={"reviewer": "Cy", "alike": True, "report": "r2.md", "cause_kind": "harness"})
    verdict = decided_by_people(failure(cy, ADA.model_copy(update={"alike": True})))
    assert verdict is not None
    assert (verdict.judge, verdict.rule, verdict.confidence) == ("people@1", "people-said-before", 1.0)
    assert (verdict.classification, verdict.cause_kind, verdict.uncertain) == ("AMBIGUOUS_TASK", "harness", False)
    assert "which Ada, Cy labelled AMBIGUOUS_TASK" in verdict.reasoning


def test_correction_does_not_decide_if_the_output_could_have_thrown_the_error() -> None:
    """Without failed tests, a build is identified only by its error, which code that it runs can throw."""
    log = "[cmd] build\nUncaught Error: the registry is down\n    at run (a.py:1:1)\n[error] types: failed"
    same = ADA.model_copy(update={"alike": True, "classification": "OVERLY_STRICT"})
    case = make_failure("types", log=log, output={"a.py": "raise Error('the registry is down')\n"}, precedents=[same])
    assert decided_by_people(case) is None
    verdict = decide(case)
    assert (verdict.classification, verdict.uncertain) == ("OVERLY_STRICT", True)
    blamed = same.model_copy(update={"classification": "MODEL_FAULT"})
    assert decided_by_people(case.model_copy(update={"precedents": (blamed,)})) is not None


def test_people_decide_only_with_a_human_label_of_the_same_failure() -> None:
    assert decided_by_people(failure(ADA)) is None
    assert decided_by_people(failure(ADA.model_copy(update={"alike": True, "by_person": False}))) is None


def test_reviewer_who_changes_a_label_does_not_disagree() -> None:
    verdict = decide_with(BEN.model_copy(update={"reviewer": "Ada"}), ADA)
    assert (verdict.rule, verdict.classification) == ("people-said-before", "KNOWN_GAP")


def test_disagreement_about_another_failure_is_ignored() -> None:
    other = {"error": "`storage.store` in a mutation"}
    verdict = decide_with(ADA.model_copy(update=other), BEN.model_copy(update=other))
    assert "disagree" not in verdict.reasoning
