"""Run a part of the benchmark, with limits that also hold on a busy machine."""

from pathlib import Path

import pytest

from benchmarks.experiment_lab import component, opened
from benchmarks.experiment_speed import SOURCE, measured
from support.machine_speed import slowness


@pytest.mark.benchmark
def test_a_run_costs_by_its_items_and_keeps_none_in_memory(tmp_path: Path) -> None:
    """The measured cost was about 2.5 ms of CPU per item, in addition to more than a second for the start."""
    with opened(tmp_path, SOURCE) as lab:
        few, many = (measured(lab, lab.ready(items, component("at_once"), 4)) for items in (20, 400))
    assert many.cpu_s - few.cpu_s < (many.items - few.items) * 0.006 * slowness()
    assert many.peak_kb < few.peak_kb * 1.25
