"""Time and memory for a thousand failures; `benchmarks/scale.py` measures larger numbers."""

from pathlib import Path

import pytest

from benchmarks.scale import cost_of
from support import run_snapshots

FAILURES = 1_000
SECONDS = 30
MB = 200


@pytest.mark.benchmark
def test_thousand_failures_stay_within_time_and_memory_limits(tmp_path: Path) -> None:
    cost = cost_of(run_snapshots.write(tmp_path / "run", FAILURES), tmp_path)
    print(f"{cost.seconds:.1f} s, {cost.cpu_s:.1f} s CPU, {cost.peak_mb:.0f} MB")
    assert cost.peak_mb < MB
    assert min(cost.seconds, cost.cpu_s) < SECONDS, "on a machine of its own; what others take is not ours"
