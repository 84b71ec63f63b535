"""Import a part of the benchmark's evals, with a limit that also holds on a busy machine."""

import resource
import time
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks.import_speed import COLLECTION, imported, write
from evalscribe.model.record import AddedCounts
from evalscribe.store.collections import open_collections
from support.machine_speed import slowness

EVALS = 3_000


@pytest.mark.benchmark
def test_three_thousand_evals(tmp_path: Path) -> None:
    """The measured speed was more than 4,000 evals per second of CPU."""
    write(tmp_path / "evals.jsonl", EVALS)
    with closing(open_collections(tmp_path / "store")) as shelf:
        shelf.add_collection(COLLECTION)
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    done = imported(tmp_path / "evals.jsonl", tmp_path / "store")
    seconds = time.process_time() - began
    assert done.added == AddedCounts(new=EVALS)
    assert (done.runs[0].passed, done.runs[0].failed) == (2_000, 1_000)
    assert EVALS / seconds > 1_500 / slowness()
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024 < 100
