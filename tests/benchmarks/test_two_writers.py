"""Run the benchmark `two_writers.py` for a few seconds instead of a minute."""

from pathlib import Path

from benchmarks.two_writers import together


def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    told = together(tmp_path / "store", tmp_path, 2)
    assert (told.lost, told.errors) == (0, ())
    assert min(told.batches, told.analysed, told.killed) > 0
