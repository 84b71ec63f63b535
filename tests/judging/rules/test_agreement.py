"""The floors that the rules keep on the real runs; `benchmarks/agreement.py` prints the whole picture."""

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
"""The real runs of this benchmark have no transcripts: these rules pass every one of their failures on."""

OF_RUNNERS = frozenset(
    {
        "marked-by-the-runner", "answer-without-files", "runner-ran-out-of-time", "reference-not-set-up",
        "tests-never-started", "environment-not-reached", "reference-fails-alike", "nothing-was-tested",
    }
)  # fmt: skip
"""Rules on outages and on what the runner says of itself: none of the real runs ended that way."""
OF_PATCHES = frozenset({"reference-fails-too", "no-patch", "patch-not-applied", "no-test-counted", "tests-of-a-patch"})
"""Rules on patches of repositories, of which the real runs have none."""
OF_REFERENCES = frozenset(
    {"reference-fails", "verifier-is-flaky", "tests-of-the-work-fail", "tests-do-not-load", "ended-by-an-exception"}
)
"""Rules on agents' work that a verifier judged beside a reference answer, of which the real runs have none."""
OF_EXTRACTION = frozenset({"error-for-an-answer", "no-answer-extracted", "chooses-otherwise", "ends-in-repetition"})
"""Rules on answers of one message, of which the real runs have none."""
OF_EXPERIMENTS = frozenset({"target-gave-no-answer", "scorer-says-why"})
"""Rules on items of experiments, which the real runs are not."""


@cache
def current(data: Path) -> tuple[list[Judged], list[Judged]]:
    return by_derivable(data, everything(data, recalled=False, shape=CURRENT))


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


def test_recorded_runs_stay_at_their_agreement(real_data: Path) -> None:
    assert sum(one.right for one in plain(real_data)) >= 67


def test_derivable_labels_of_todays_shape_are_reached(real_data: Path) -> None:
    within, beyond = current(real_data)
    assert (len(within), len(beyond)) == (49, 26)
    assert agreement(within) >= 0.85
    assert all(one.right for one in covered(within))


def test_labels_that_are_not_derivable_are_uncertain(real_data: Path) -> None:
    assert uncertain(current(real_data)[1]) >= 0.9


def test_rules_proven_in_other_runs_suffice_for_todays_shape(real_data: Path) -> None:
    whole = everything(real_data, recalled=False, shape=CURRENT)
    within, beyond = by_derivable(real_data, without_own_run(real_data, whole, recalled=False, shape=CURRENT))
    assert agreement(within) >= 0.8
    assert uncertain(beyond) >= 0.9


def test_verdicts_on_todays_shape_cite_and_never_name_a_banner(real_data: Path) -> None:
    found = [*current(real_data)[0], *current(real_data)[1]]
    assert unverified(found) == 0
    for one in found:
        verdict = one.verdict
        assert len(verdict.why) <= 90
        assert verdict.uncertain == (verdict.confidence <= 0.5)
        assert not re.search(r"\bRUN\s+v\d|CONVEX_DEPLOYMENT|Unable to start push|\x1b", verdict.error + verdict.why)


def test_what_is_covered_is_mostly_right(real_data: Path) -> None:
    sure = covered(plain(real_data))
    assert len(sure) / len(plain(real_data)) >= 0.6
    assert agreement(sure) >= 0.9


def test_half_of_what_is_overly_strict_is_found(real_data: Path) -> None:
    score = calibration(plain(real_data)).score("OVERLY_STRICT")
    assert score.recall is not None
    assert score.recall >= 0.5


def test_no_rule_is_needed_that_only_its_own_run_bears_out(real_data: Path) -> None:
    found = without_own_run(real_data, plain(real_data), recalled=False)
    assert agreement(found) >= 0.8
    assert agreement(covered(found)) >= 0.9


def test_no_rule_is_right_only_in_the_run_it_was_written_from(real_data: Path) -> None:
    """Taken alone, in either shape of the runs. A rule about outages is proven by the odd cases."""
    never = {
        "people-said-before",  # needs earlier reports
        *OF_AGENTS,
        *OF_PATCHES,
        *OF_EXTRACTION,
        *OF_REFERENCES,
        *OF_EXPERIMENTS,
    }
    found = proof(real_data)
    assert {rule for rule, runs in found.items() if not runs} == never
    assert {rule for rule, runs in found.items() if len(runs) == 1 and runs != ["odd"]} == set()
    assert {rule for rule, runs in found.items() if runs == ["odd"]} == OF_RUNNERS


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
