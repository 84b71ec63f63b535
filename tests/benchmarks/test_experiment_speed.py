"""A part of what the benchmark runs, with a bound that a busy machine keeps."""

from pathlib import Path

from benchmarks.experiment_speed import measured, ready, workspace

ITEMS = 300


def test_three_hundred_items(tmp_path: Path) -> None:
    """About 2 ms of CPU an item on the machine it was measured on, beside a second for starting."""
    with workspace(tmp_path) as desk:
        one = measured(desk, tmp_path, ready(desk, tmp_path, ITEMS, "at_once", 4))
    assert one.cpu_s - 2 < ITEMS * 0.006
    assert one.peak_kb < 200 * 1024
