"""Minimum agreement of the rules with the labels of the real runs; `benchmarks/agreement.py` prints all numbers."""

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from benchmarks.agreement import (
    Judged,
    agreement,
    baseline,
    by_derivable,
    calibration,
    covered,
    everything,
    places,
    proof,
    uncertain,
    unverified,
    without_own_run,
)
from benchmarks.heldout import swapped_notes, unchanged
from support.real_runs import CURRENT

OF_AGENTS = frozenset(
    {
        "ends-too-early", "invents-an-id", "withholds-who-it-is",
        "harness-broke", "never-answers", "cut-off", "does-otherwise", "goes-round-in-circles", "refuses", "never-says",
        "answers-otherwise", "grader-says-why", "only-a-test-says",
    }
)  # fmt: skip
"""Rules that need a transcript, which the real runs of this benchmark do not have."""

OF_RUNNERS = frozenset(
    {
        "marked-by-the-runner", "answer-without-files", "runner-ran-out-of-time", "reference-not-set-up",
        "tests-never-started", "environment-not-reached", "reference-fails-alike", "nothing-was-tested",
    }
)  # fmt: skip
"""Rules on outages and on messages of the runner: none of the real runs ended that way."""
OF_PATCHES = frozenset({"reference-fails-too", "no-patch", "patch-not-applied", "no-test-counted", "tests-of-a-patch"})
"""Rules on patches of repositories, of which the real runs have none."""
OF_REFERENCES = frozenset(
    {"reference-fails", "verifier-is-flaky", "tests-of-the-work-fail", "tests-do-not-load", "ended-by-an-exception"}
)
"""Rules on agents' work that a verifier judged beside a reference answer, of which the real runs have none."""
OF_EXTRACTION = frozenset({"error-for-an-answer", "no-answer-extracted", "chooses-otherwise", "ends-in-repetition"})
"""Rules on answers of one message, of which the real runs have none."""
OF_EXPERIMENTS = frozenset({"target-gave-no-answer", "scorer-says-why"})
"""Rules on examples of experiments, of which the real runs have none."""


@cache
def whole_current(data: Path) -> Sequence[Judged]:
    return everything(data, recalled=False, shape=CURRENT)


@cache
def current(data: Path) -> tuple[list[Judged], list[Judged]]:
    return by_derivable(data, whole_current(data))


@cache
def plain(data: Path) -> Sequence[Judged]:
    return everything(data, recalled=False)


@cache
def recalled(data: Path) -> Sequence[Judged]:
    return everything(data, recalled=True)


def test_agreement_is_well_above_the_model_fault_baseline(real_data: Path) -> None:
    judged_failures = plain(real_data)
    assert len(judged_failures) == 75
    assert baseline(judged_failures) == pytest.approx(0.49, abs=0.01)
    assert agreement(judged_failures) >= 0.68
    assert agreement(recalled(real_data)) >= agreement(judged_failures)


def test_at_least_67_recorded_failures_are_labelled_right(real_data: Path) -> None:
    assert sum(one.right for one in plain(real_data)) >= 67


def test_derivable_labels_of_the_current_format_are_mostly_right(real_data: Path) -> None:
    within, beyond = current(real_data)
    assert (len(within), len(beyond)) == (49, 26)
    assert agreement(within) >= 0.85
    assert all(one.right for one in covered(within))


def test_verdicts_on_underivable_labels_are_mostly_uncertain(real_data: Path) -> None:
    assert uncertain(current(real_data)[1]) >= 0.9


def test_rules_proven_in_other_runs_suffice_for_the_current_format(real_data: Path) -> None:
    proven = without_own_run(real_data, whole_current(real_data), recalled=False, shape=CURRENT)
    within, beyond = by_derivable(real_data, proven)
    assert agreement(within) >= 0.8
    assert uncertain(beyond) >= 0.9


def test_verdicts_on_the_current_format_have_verified_citations_and_no_banner(real_data: Path) -> None:
    judged_failures = [*current(real_data)[0], *current(real_data)[1]]
    assert unverified(judged_failures) == 0
    for one in judged_failures:
        verdict = one.verdict
        assert len(verdict.why) <= 90
        assert verdict.uncertain == (verdict.confidence <= 0.5)
        assert not re.search(r"\bRUN\s+v\d|CONVEX_DEPLOYMENT|Unable to start push|\x1b", verdict.error + verdict.why)


def test_most_verdicts_are_certain_and_certain_ones_mostly_right(real_data: Path) -> None:
    sure = covered(plain(real_data))
    assert len(sure) / len(plain(real_data)) >= 0.6
    assert agreement(sure) >= 0.9


def test_overly_strict_recall_is_at_least_half(real_data: Path) -> None:
    score = calibration(plain(real_data)).score("OVERLY_STRICT")
    assert score.recall is not None
    assert score.recall >= 0.5


def test_agreement_holds_without_rules_proven_only_in_their_own_run(real_data: Path) -> None:
    judged_failures = without_own_run(real_data, plain(real_data), recalled=False)
    assert agreement(judged_failures) >= 0.8
    assert agreement(covered(judged_failures)) >= 0.9


def test_every_rule_is_right_in_more_than_one_run(real_data: Path) -> None:
    """Each rule is taken alone, in both formats of the runs. The odd cases prove the rules about outages."""
    never = {
        "people-said-before",  # needs earlier reports
        *OF_AGENTS,
        *OF_PATCHES,
        *OF_EXTRACTION,
        *OF_REFERENCES,
        *OF_EXPERIMENTS,
    }
    runs_by_rule = proof(real_data)
    assert {rule for rule, runs in runs_by_rule.items() if not runs} == never
    assert {rule for rule, runs in runs_by_rule.items() if len(runs) == 1 and runs != ["odd"]} == set()
    assert {rule for rule, runs in runs_by_rule.items() if runs == ["odd"]} == OF_RUNNERS


def test_agent_rules_do_not_fire_without_a_transcript(real_data: Path) -> None:
    assert {one.rule for one in plain(real_data)}.isdisjoint(OF_AGENTS)


def test_notes_of_another_eval_rarely_match(real_data: Path) -> None:
    within, across = swapped_notes([one.evidence for one in plain(real_data)])
    assert within.hits / within.number < 0.05
    assert across.hits / across.number < 0.01


def test_verdicts_do_not_depend_on_file_order_and_rarely_on_names(real_data: Path) -> None:
    stays = unchanged([one.evidence for one in plain(real_data)])
    assert stays["reordered"].hits == stays["reordered"].number
    assert stays["renamed"].hits / stays["renamed"].number >= 0.95


def test_findings_mostly_cite_the_lines_that_maintainers_quote(real_data: Path) -> None:
    hits, number = places(plain(real_data))
    assert number >= 20
    assert hits / number >= 0.7


def test_every_citation_is_verified_in_the_evidence(real_data: Path) -> None:
    judged_failures = [*plain(real_data), *recalled(real_data)]
    assert unverified(judged_failures) == 0
    assert all(one.verdict.citations for one in judged_failures if one.evidence.of("log"))


def test_printed_texts_are_short_and_never_a_stock_message(real_data: Path) -> None:
    for one in plain(real_data):
        verdict = one.verdict
        assert len(verdict.why) <= 90
        assert "\n" not in verdict.error + verdict.why + verdict.reasoning
        assert verdict.error not in {"deploy failed", "eslint failed"}
        assert verdict.uncertain == (verdict.confidence <= 0.5)
