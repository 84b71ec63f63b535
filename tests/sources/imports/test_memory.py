"""Memory use of imports."""

import json
import random
import subprocess
import sys
import tracemalloc
from pathlib import Path

from evalscribe.sources.records import HashTable, Trials
from support.waiting import PATIENCE_S

EVALS, SIZE = 600, 30_000
ROOM = 14 * 1024 * 1024
"""Bytes of memory that the import may use. The file is larger, its parsed values several times as large."""
CHILD = f"""
import resource, sys
from pathlib import Path
from evalscribe.sources import export, tau_bench
from evalscribe.sources.address import RunOverrides
from evalscribe.sources.formats import open_records
pages = int(Path("/proc/self/statm").read_text().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + {ROOM},) * 2)
print(sum(1 for _ in open_records(Path(sys.argv[1]), RunOverrides()).read()))
"""


def test_file_larger_than_the_memory_limit_is_read(tmp_path: Path) -> None:
    message = {"role": "user", "content": "word " * (SIZE // 5)}
    path = tmp_path / "large.json"
    with path.open("w") as file:
        for n in range(EVALS):
            entry = {"task_id": n, "trial": 0, "reward": 1.0, "info": {}, "traj": [message]}
            file.write(("[" if n == 0 else ",") + json.dumps(entry))
        file.write("]")
    assert path.stat().st_size > ROOM
    child = subprocess.run(
        [sys.executable, "-c", CHILD, str(path)], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (child.stdout, child.stderr) == (f"{EVALS + 1}\n", "")


def test_counting_trials_takes_under_400_kb_for_5000_evals() -> None:
    tracemalloc.start()
    try:
        trials = Trials()
        for n in range(5_000):
            trials.count("run", f"task-{n}")
        assert all(trials.next("run", f"task-{n}") == (1, 1) for n in range(5_000))
        assert tracemalloc.get_traced_memory()[1] < 400_000
    finally:
        tracemalloc.stop()


def test_hash_table_separates_hashes_with_equal_low_bits() -> None:
    chance = random.Random(1)
    table, same = HashTable(), {}
    for _ in range(2_000):
        hash = chance.choice((0, 1, -1, 2**62, -(2**63))) ^ chance.randrange(100) << chance.choice((0, 40))
        table[hash] = same[hash] = table[hash] + 1
    assert {hash: table[hash] for hash in same} == same
    assert table[12345 << 20] == 0
    assert table.setdefault(12345 << 20, 7) == table.setdefault(12345 << 20, 8) == 7
