"""Measure queries over a tenth of the evals that `sql_speed.py` uses."""

from pathlib import Path

import pytest

from benchmarks import sql_speed
from evalscribe.store.query.sqlite import open_tables
from support.machine_speed import slowness


@pytest.mark.benchmark
def test_ten_thousand_evals_are_asked_in_a_moment(tmp_path: Path) -> None:
    place = tmp_path / "store"
    sql_speed.fill(place, 10_000)
    took, rows = sql_speed.fastest(open_tables(place), sql_speed.PAIRS, times=3)
    assert rows == 10_000
    assert took < 1000 * slowness()
