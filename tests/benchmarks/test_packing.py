"""Check limits for the figures of `packing.py`."""

from pathlib import Path

from benchmarks.packing import measure


def test_packed_prompts_are_small_and_hold_what_is_quoted(real_data: Path) -> None:
    rows = measure(real_data)
    assert all(mean <= 0.25 for _, mean, _, _ in rows["runs"].values())
    assert rows["quoted"] > 100
    assert rows["missing"] == []
