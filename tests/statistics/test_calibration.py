"""Judge against human labels: hand-calculated tables and edge cases."""

from collections.abc import Mapping

import pytest

from evalscribe.statistics.agreement import Calibration, LabelPair

TABLE = {("cat", "cat"): 4, ("cat", "dog"): 1, ("dog", "cat"): 2, ("dog", "dog"): 2, ("bird", "bird"): 1}
"""(human label, judge label) and number of pairs."""


def calibrate(table: Mapping[tuple[str, str | None], int]) -> Calibration:
    return Calibration(
        [LabelPair(expected=truth, predicted=predicted) for (truth, predicted), n in table.items() for _ in range(n)],
        labels=("cat", "dog", "bird"),
    )


def test_calibration_metrics_match_a_hand_calculation() -> None:
    calibration = calibrate(TABLE)
    assert (calibration.judged, calibration.right, calibration.agreement) == (10, 7, 0.7)
    assert [score.recall for score in calibration.scores] == [4 / 5, 2 / 4, 1.0]
    assert [score.precision for score in calibration.scores] == [4 / 6, 2 / 3, 1.0]
    assert calibration.balanced == pytest.approx((0.8 + 0.5 + 1) / 3)
    assert calibration.commonest == 0.5
    assert calibration.kappa is not None
    assert calibration.kappa.value == pytest.approx((0.7 - 0.43) / (1 - 0.43))
    assert calibration.confusion("dog", "cat") == 2
    assert calibration.interval.low == pytest.approx(0.3968, abs=5e-4)


def test_clustered_pairs_widen_the_intervals() -> None:
    alone = calibrate({pair: 4 * count for pair, count in TABLE.items()})
    together = Calibration(
        [pair.model_copy(update={"cluster": str(number // 4)}) for number, pair in enumerate(alone.pairs)]
    )
    assert (together.agreement, together.kappa and together.kappa.value) == (0.7, alone.kappa and alone.kappa.value)
    assert together.interval.high - together.interval.low > 1.4 * (alone.interval.high - alone.interval.low)
    assert together.kappa is not None
    assert alone.kappa is not None
    assert together.kappa.interval.low < alone.kappa.interval.low - 0.1


def test_unjudged_pairs_are_counted_and_excluded_from_agreement() -> None:
    calibration = calibrate({**TABLE, ("dog", None): 10})
    assert (calibration.unjudged, calibration.judged) == (10, 10)
    assert (calibration.agreement, calibration.agreement_over_all) == (0.7, 0.35)
    assert calibration.score("dog").recall == 0.5


def test_kappa_is_none_with_a_single_label() -> None:
    calibration = calibrate({("cat", "cat"): 5})
    assert calibration.agreement == 1.0
    assert calibration.kappa is None
    assert calibration.score("dog").recall is None
    assert calibration.score("dog").precision is None


def test_constant_judge_has_zero_kappa() -> None:
    calibration = calibrate({("cat", "cat"): 5, ("dog", "cat"): 5})
    assert calibration.kappa is not None
    assert calibration.kappa.value == 0
    assert calibration.balanced == 0.5
    assert calibration.score("dog").precision is None


@pytest.mark.parametrize("table", [{}, {("cat", None): 3}])
def test_metrics_are_none_without_judged_pairs(table: Mapping[tuple[str, str | None], int]) -> None:
    calibration = calibrate(table)
    assert calibration.agreement is None
    assert calibration.balanced is None
    assert calibration.commonest is None
    assert calibration.kappa is None
    assert calibration.interval == (0.0, 1.0)


def test_label_used_only_by_the_judge_is_in_the_table() -> None:
    calibration = calibrate({("cat", "fish"): 1, ("cat", "cat"): 1})
    assert calibration.labels == ("cat", "dog", "bird", "fish")
    assert calibration.score("fish").precision == 0
    assert calibration.balanced == 0.5
