"""Accuracy of judges and agreement between reviewers, measured with human labels."""

from typing import Any

import pytest

from evalscribe.model.finding import Classification, HumanLabel
from evalscribe.reports.accuracy import CASCADE, JudgedFailure, labels_in_force, measured, verdicts


def label(
    n: int,
    human_label: Classification = "MODEL_FAULT",
    judged: Classification | None = "MODEL_FAULT",
    *,
    who: str = "Ada",
    judge: str = "rules@1",
    in_force: bool = True,
    report: str = "p/m/a.md",
    group: str | None = None,
    **facts: Any,
) -> HumanLabel:
    return HumanLabel(
        run="r",
        provider="p",
        model="m",
        experiment="default",
        eval=f"a/{n}",
        group=group,
        label=human_label,
        reviewer=who,
        email=who,
        commit="c",
        date="2026-11-02",
        report=report,
        judge=judge if judged else None,
        judged=judged,
        in_force=in_force,
        **facts,
    )


ALL = {("r", f"a/{n}"): JudgedFailure("rules@2", "MODEL_FAULT", None) for n in range(10)}


def test_judge_is_measured_against_human_labels() -> None:
    measurement = measured([label(1), label(2), label(3, "OVERLY_STRICT")], ALL)
    (row,) = measurement.judges
    assert (row.judge, row.labelled, row.agreed, row.agreement) == ("rules@1", 3, 2, pytest.approx(2 / 3))
    assert (row.balanced, row.tasks) == (0.5, 3)
    assert row.interval == pytest.approx((0.2077, 0.9385), abs=1e-3)
    assert row.confusion["OVERLY_STRICT"]["MODEL_FAULT"] == 1
    fault = next(one for one in row.labels if one.label == "MODEL_FAULT")
    assert (fault.precision, fault.recall) == (pytest.approx(2 / 3), 1.0)
    assert (measurement.coverage.findings, measurement.coverage.reviewed) == (10, 3)
    assert row.calibration.agreement == row.agreement
    assert [(one.run, one.eval, one.judged, one.label) for one in row.wrong] == [
        ("r", "a/3", "MODEL_FAULT", "OVERLY_STRICT")
    ]
    assert (row.certain_share, row.reliability, row.cost_usd) == (None, None, 0)


def test_judge_versions_are_measured_separately() -> None:
    measurement = measured([label(1), label(2, "KNOWN_GAP", judge="rules@2")], ALL)
    assert [(row.judge, row.labelled, row.agreed) for row in measurement.judges] == [
        ("rules@1", 1, 1),
        ("rules@2", 1, 0),
    ]


def test_overruled_label_does_not_count() -> None:
    measurement = measured([label(1, "KNOWN_GAP", in_force=False), label(1, who="Ben")], ALL)
    assert (measurement.labels, measurement.judges[0].agreed, measurement.judges[0].labelled) == (1, 1, 1)


def test_agreeing_reviewers_give_one_label_and_contradicting_reports_none() -> None:
    assert len(labels_in_force([label(1), label(1, who="Ben")])) == 1
    assert labels_in_force([label(1), label(1, "KNOWN_GAP", report="p/m/b.md")]) == ()


def test_label_without_a_verdict_measures_no_judge() -> None:
    measurement = measured([label(1, judged=None)], {})
    assert (measurement.judges, measurement.coverage.reviewed) == ((), 0)


def test_label_without_a_verdict_is_compared_with_a_judge_of_the_same_run() -> None:
    own = [label(1, judged=None), label(2, "KNOWN_GAP", judged=None), label(3)]
    first, second = measured(own, ALL).judges
    assert [(row.judge, row.labelled, row.agreed) for row in (first, second)] == [("rules@1", 1, 1), ("rules@2", 2, 1)]
    grouped = {subject: judged_failure._replace(group="all of them") for subject, judged_failure in ALL.items()}
    (row,) = measured([label(n, judged=None) for n in range(9)], grouped).judges
    assert (row.labelled, row.agreed) == (1, 1)


def test_reviewers_are_compared_where_both_labelled_a_failure() -> None:
    shared = [label(n, "KNOWN_GAP" if n == 3 else "MODEL_FAULT", who="Ben", in_force=n != 3) for n in (1, 2, 3)]
    measurement = measured([*(label(n) for n in (1, 2, 3)), *shared, label(1, who="Cy")], ALL)
    row, with_cy, _ = measurement.between
    assert (with_cy.reviewers, with_cy.shared, with_cy.agreed, with_cy.kappa) == (("Ada", "Cy"), 1, 1, None)
    assert (row.reviewers, row.shared, row.agreed) == (("Ada", "Ben"), 3, 2)
    assert row.kappa is not None
    assert row.kappa.value == pytest.approx(0.0)


def test_a_verdict_on_a_group_counts_once() -> None:
    group = [label(n, group="all of them") for n in range(72)]
    measurement = measured(
        [*group, *(one.model_copy(update={"reviewer": "Ben"}) for one in group), label(80, "KNOWN_GAP")], ALL
    )
    assert (measurement.judges[0].labelled, measurement.judges[0].agreed, measurement.coverage.reviewed) == (2, 1, 10)
    assert [(row.shared, row.agreed) for row in measurement.between] == [(1, 1)]
    assert [one.eval for one in verdicts(group)] == ["a/0"]


def test_certain_share_and_calibration_follow_the_stated_confidence() -> None:
    """Confidence 0.9 with 3 of 4 agreed, and 0.5 with 0 of 1: |0.75 - 0.9| * 4/5 + |0 - 0.5| * 1/5 = 0.22."""
    stated = {"judge": "p/model", "cost_usd": 0.25}
    labels = [label(n, "KNOWN_GAP" if n == 4 else "MODEL_FAULT", confidence=0.9, **stated) for n in (1, 2, 3, 4)]
    (row,) = measured([*labels, label(5, "KNOWN_GAP", confidence=0.5, **stated)], ALL).judges
    assert (row.certain, row.certain_share, row.certain_agreed) == (4, 0.8, 3)
    assert row.certain_agreement == 0.75
    assert row.certain_interval == pytest.approx((0.3006, 0.9544), abs=1e-3)
    assert row.cost_usd == 1.25
    assert row.reliability is not None
    assert [(one.low, one.high, one.verdicts, one.agreement) for one in row.reliability.bins] == [
        (0.4, 0.5, 1, 0.0),
        (0.8, 0.9, 4, 0.75),
    ]
    assert row.reliability.calibration_error == pytest.approx(0.22)
    assert row.reliability.brier == pytest.approx((3 * 0.01 + 0.81 + 0.25) / 5)


def test_the_cost_is_unknown_if_one_verdict_has_none() -> None:
    (row,) = measured([label(1, judge="p/model", cost_usd=0.1), label(2, judge="p/model")], ALL).judges
    assert row.cost_usd is None


def test_cascade_is_measured_as_a_whole_and_apart_from_single_judges() -> None:
    labels = [
        label(1, judge="rules@1"),
        label(2, judge="rules@1", stage="rules"),
        label(3, "KNOWN_GAP", judge="p/model", stage="judge"),
    ]
    cascade, rules = measured(labels, ALL).judges
    assert (cascade.judge, cascade.judges, cascade.labelled, cascade.agreed) == (CASCADE, ("p/model", "rules@1"), 2, 1)
    assert (rules.judge, rules.labelled) == ("rules@1", 1)


def test_corrections_of_one_task_count_as_one_observation_in_the_intervals() -> None:
    """Ten corrections of two tasks prove less than ten corrections of ten tasks."""
    alone = [label(n, "KNOWN_GAP" if n > 5 else "MODEL_FAULT") for n in range(10)]
    trials = [one.model_copy(update={"eval": f"a/{n > 5}#{n}"}) for n, one in enumerate(alone)]
    (wide,), (narrow,) = measured(trials, {}).judges, measured(alone, {}).judges
    assert (wide.tasks, narrow.tasks, wide.agreement, narrow.agreement) == (2, 10, 0.6, 0.6)
    assert wide.interval.low < narrow.interval.low < 0.6 < narrow.interval.high < wide.interval.high
    assert wide.interval == pytest.approx((0, 1), abs=0.2)


def test_verdict_that_repeats_a_correction_measures_no_judge() -> None:
    assert measured([label(1, judge="people@1")], ALL).judges == ()


def test_missing_confidence_is_taken_from_the_failure_if_the_judge_is_the_same() -> None:
    known = {("r", "a/1"): JudgedFailure("rules@1", "MODEL_FAULT", None, confidence=0.9)}
    other = {("r", "a/1"): JudgedFailure("rules@2", "MODEL_FAULT", None, confidence=0.9)}
    assert measured([label(1)], known).judges[0].certain == 1
    assert [(row.judge, row.certain) for row in measured([label(1)], other).judges] == [("rules@1", 0)]
