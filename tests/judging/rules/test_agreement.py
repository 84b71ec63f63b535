"""The floors that the rules keep on the real runs; `benchmarks/agreement.py` prints the whole picture."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from benchmarks.agreement import (
    Judged,
    agreement,
    alone,
    baseline,
    calibration,
    covered,
    everything,
    places,
    unverified,
    without_own_run,
)
from benchmarks.heldout import swapped_notes, unchanged

OF_AGENTS = frozenset(
    {
        "harness-broke", "never-answers", "cut-off", "does-otherwise", "goes-round-in-circles", "refuses", "never-says",
        "answers-otherwise", "grader-says-why", "only-a-test-says",
    }
)  # fmt: skip
"""The real runs of this benchmark have no transcripts: these rules pass every one of their failures on."""


@cache
def plain(data: Path) -> Sequence[Judged]:
    return everything(data, recalled=False)


@cache
def recalled(data: Path) -> Sequence[Judged]:
    return everything(data, recalled=True)


def test_agreement_is_well_above_always_saying_model_fault(real_data: Path) -> None:
    found = plain(real_data)
    assert len(found) == 75
    assert baseline(found) == pytest.approx(0.49, abs=0.01)
    assert agreement(found) >= 0.68
    assert agreement(recalled(real_data)) >= agreement(found)


def test_what_is_covered_is_mostly_right(real_data: Path) -> None:
    sure = covered(plain(real_data))
    assert len(sure) / len(plain(real_data)) >= 0.5
    assert agreement(sure) >= 0.8


def test_half_of_what_is_overly_strict_is_found(real_data: Path) -> None:
    score = calibration(plain(real_data)).score("OVERLY_STRICT")
    assert score.recall is not None
    assert score.recall >= 0.5


def test_no_rule_is_needed_that_only_its_own_run_bears_out(real_data: Path) -> None:
    assert agreement(without_own_run(real_data, plain(real_data), recalled=False)) >= 0.68


def test_every_rule_is_right_in_more_than_one_run(real_data: Path) -> None:
    """Taken alone. The exempt are asked for by name in the order of decision, or need what the real runs lack."""
    never_judged = {"provider-gave-nothing", "environment-not-reached", "grader-not-connected"}
    of_experiments = {"target-gave-no-answer", "scorer-says-why"}
    exempt = {*never_judged, *of_experiments, "people-said-before", "ends-left-open", *OF_AGENTS}
    runs = {rule: {one.run for one in decided if one.right} for rule, decided in alone(real_data).items()}
    assert {rule for rule, proven in runs.items() if len(proven) < 2} == exempt


def test_rules_about_agents_are_silent_where_nobody_speaks(real_data: Path) -> None:
    assert {one.rule for one in plain(real_data)}.isdisjoint(OF_AGENTS)


def test_notes_of_another_eval_are_seldom_taken_for_its_own(real_data: Path) -> None:
    within, across = swapped_notes([one.evidence for one in plain(real_data)])
    assert within.hits / within.number < 0.05
    assert across.hits / across.number < 0.01


def test_names_and_the_order_of_files_decide_nothing(real_data: Path) -> None:
    stays = unchanged([one.evidence for one in plain(real_data)])
    assert stays["reordered"].hits == stays["reordered"].number
    assert stays["renamed"].hits / stays["renamed"].number >= 0.95


def test_findings_cite_where_the_maintainers_quote(real_data: Path) -> None:
    hits, number = places(plain(real_data))
    assert number >= 20
    assert hits / number >= 0.7


def test_every_citation_stands_in_the_evidence(real_data: Path) -> None:
    found = [*plain(real_data), *recalled(real_data)]
    assert unverified(found) == 0
    assert all(one.verdict.citations for one in found if one.evidence.of("log"))


def test_what_is_printed_is_short_and_never_a_stock_message(real_data: Path) -> None:
    for one in plain(real_data):
        verdict = one.verdict
        assert len(verdict.why) <= 90
        assert "\n" not in verdict.error + verdict.why + verdict.reasoning
        assert verdict.error not in {"deploy failed", "eslint failed"}
        assert verdict.uncertain == (verdict.confidence <= 0.5)
