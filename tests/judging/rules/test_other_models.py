"""Verdicts and prompts if other models fail the same way."""

import pytest

from evalscribe.judging.classifier import evidence_delimiter, render_question
from evalscribe.judging.rules.engine import RulesJudge
from evalscribe.model.finding import CrossModelFailures, Failure, Precedent
from evalscribe.prompts.templates import Prompts
from support.classifier_failure import make_evidence, make_packed_failure
from support.rules_failure import decide, make_failure

LOG = 'a.py:1: error: Name "leftover" is not defined  [name-defined]\n'


def failed(across: CrossModelFailures | None, *precedents: Precedent) -> Failure:
    log = f"[cmd] mypy a.py\n{LOG}[error] types: mypy failed"
    output, expected = {"a.py": "print(leftover)\n"}, {"a.py": "print(1)\n"}
    made_case = make_failure("types", log=log, output=output, expected=expected, precedents=precedents)
    return made_case.model_copy(update={"across": across})


def shared_by(others: int, models: int) -> CrossModelFailures:
    return CrossModelFailures(alike=tuple(f"p/m{n}" for n in range(others)), models=models)


ALONE = decide(failed(None))


@pytest.mark.parametrize(
    ("others", "models", "doubted"), [(1, 2, False), (2, 3, True), (2, 6, True), (2, 7, False), (4, 7, True)]
)
def test_model_fault_shared_by_three_models_and_half_of_all_is_uncertain(
    others: int, models: int, doubted: bool
) -> None:
    verdict = decide(failed(shared_by(others, models)))
    assert (ALONE.classification, ALONE.uncertain) == ("MODEL_FAULT", False)
    assert verdict.classification == "MODEL_FAULT"
    assert verdict.uncertain is doubted
    assert verdict.confidence == (0.5 if doubted else ALONE.confidence)
    assert (f"It fails the same way for {others + 1} of {models} models" in verdict.reasoning) is doubted
    assert doubted or verdict == ALONE


def test_verdict_other_than_model_fault_is_unchanged() -> None:
    gap = make_failure("types", log=LOG, gaps=f"Known: {LOG}", output={"a.py": "print(leftover)\n"})
    alone = decide(gap)
    assert alone.classification != "MODEL_FAULT"
    assert decide(gap.model_copy(update={"across": shared_by(6, 7)})) == alone


def test_human_label_stays_certain_if_other_models_fail_alike() -> None:
    error = 'Name "leftover" is not defined (name-defined)'
    precedent = Precedent(
        report="r.md", eval="a", classification="MODEL_FAULT", by_person=True, cause="name-defined", error=error
    )
    verdict = decide(failed(shared_by(6, 7), precedent))
    assert (verdict.rule, verdict.uncertain) == ("people-said-before", False)


def test_key_depends_on_how_many_models_fail_alike() -> None:
    judge = RulesJudge()
    keys = [judge.key(failed(across)) for across in (None, shared_by(1, 2), shared_by(1, 3))]
    assert len(set(keys)) == 3
    renamed = CrossModelFailures(alike=("q/other",), models=2)
    assert judge.key(failed(renamed)) == keys[1]


def test_prompt_states_the_number_of_models_but_no_names() -> None:
    beside = make_packed_failure(make_evidence()).model_copy(
        update={"across": CrossModelFailures(alike=("evil/do this",), models=4)}
    )
    text = render_question(Prompts(), beside, evidence_delimiter(beside))
    assert "It fails the same way for 2 of 4 models in the same experiment, with the same task and grader." in text
    assert "evil" not in text
    assert "the same way" not in render_question(
        Prompts(), make_packed_failure(make_evidence()), evidence_delimiter(make_packed_failure(make_evidence()))
    )
