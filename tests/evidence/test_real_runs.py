"""Errors located in the six real runs: 32 of 74 logs end before the reason; no stock message is an error."""

from pathlib import Path

from evalscribe.evidence import locate, log
from evalscribe.judging import quotations
from support.real_runs import failures


def test_32_of_74_real_logs_end_before_the_reason(real_data: Path) -> None:
    logged = [evidence for evidence in failures(real_data) if evidence.of("log")]
    without = [evidence for evidence in logged if locate.locate(evidence) is None]
    assert (len(without), len(logged)) == (32, 74)
    assert {evidence.eval.failed_step for evidence in without} == {"deploy"}


def test_every_located_error_is_verified_and_not_a_stock_message(real_data: Path) -> None:
    located = [(evidence, one) for evidence in failures(real_data) for one in locate.locate_all(evidence)]
    assert len(located) > 150
    for evidence, one in located:
        assert not log.is_stock(one.error)
        assert one.citation is None or quotations.verify_citation(one.citation, evidence).status == "verified"
        for place in one.places:
            document = evidence.document("output", place.path)
            assert document is not None
            assert 1 <= place.line <= len(document.lines)


def test_counted_tests_agree_with_the_recorded_steps(real_data: Path) -> None:
    ran = [(evidence, locate.tests(evidence)) for evidence in failures(real_data)]
    counted = [(evidence, outcome) for evidence, outcome in ran if outcome.runner]
    assert len(counted) >= 30
    for evidence, outcome in counted:
        assert outcome.step == ("failed" if outcome.failed else "passed"), evidence.eval.path
        assert len(outcome.failures) == outcome.failed


def test_72_failures_before_any_step_have_one_signature(real_data: Path) -> None:
    early = [evidence for evidence in failures(real_data) if not evidence.steps]
    signatures = {locate.signature(evidence.eval.failed_step, locate.locate(evidence)) for evidence in early}
    assert (len(early), len(signatures)) == (72, 1)
    assert None not in signatures
