"""Compare the output of `classifier.py` with the agreement that is measured without datasets and experiments."""

from pathlib import Path

import pytest

from benchmarks.agreement import calibration, everything
from benchmarks.classifier import measured, prepare

RUNS = ("jn70vkj7", "jn72t14a", "jn7922j1")
"""Runs. In the first, all failures end in the same way. The other two are runs of one model."""


@pytest.fixture
def some(real_data: Path, tmp_path: Path) -> Path:
    (tmp_path / "data" / "convex-runs").mkdir(parents=True)
    for name in RUNS:
        (tmp_path / "data" / "convex-runs" / name).symlink_to(real_data / "convex-runs" / name)
    return tmp_path / "data"


def test_the_rules_as_an_experiment_agree_with_the_maintainers_as_they_do_alone(
    some: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "workspace").mkdir()
    monkeypatch.chdir(tmp_path / "workspace")
    prepare(some)
    found = measured()
    alone = calibration(everything(some, recalled=False))
    whole = found.splits["all"]
    assert (whole.right, whole.judged) == (alone.right, alone.judged)
    assert whole.scores == alone.scores
    summary, gate = found.report.summary, found.report.gate
    assert summary.labels is not None
    assert (summary.labels.balanced_accuracy, summary.labels.pairs) == (alone.balanced, alone.judged)
    assert summary.pass_rate.passed == alone.right
    assert set(found.splits) == {"all", "train", "dev", "test"}
    assert sum(one.judged for split, one in found.splits.items() if split != "all") == whole.judged
    held_out = found.splits["test"]
    assert found.test.summary.labels is not None
    assert found.test.summary.labels.balanced_accuracy == held_out.balanced
    assert (found.test.summary.dataset, found.test.summary.items) == ("maintainers@1:test", held_out.judged)
    assert gate is not None
    assert gate.passed
    assert [scorer.pass_rate.value for scorer in summary.scorers][1] == 1.0
