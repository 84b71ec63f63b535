"""Measure the cost of many failures: `python tests/benchmarks/scale.py [FAILURES…]` (default: 1,000 and 10,000).

For each number of failures, a snapshot is made. `analyze --judge rules` analyses it in a separate process, first with
an empty store and then with a full one. Prints seconds, CPU (in total and per failure) and peak memory.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support import run_snapshots

COUNTS = (1_000, 10_000)


@dataclass(frozen=True)
class Cost:
    seconds: float
    cpu_s: float
    peak_mb: float


def cost_of(snapshot: Path, folder: Path) -> Cost:
    """Run one analysis by rules in a separate process, and return its cost. The analysis must succeed."""
    command = [sys.executable, "-m", "evalscribe", "analyze", str(snapshot), "--judge", "rules", "--quiet"]
    began = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
    peak_kb, pid = 0, 0
    while not pid:
        time.sleep(0.02)
        peak_kb = max(peak_kb, _peak_kb(process.pid))
        pid, status, used = os.wait4(process.pid, os.WNOHANG)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return Cost(seconds=time.perf_counter() - began, cpu_s=used.ru_utime + used.ru_stime, peak_mb=peak_kb / 1024)


def _peak_kb(pid: int) -> int:
    """Return the peak memory of a process so far. The figure of `wait4` includes its parent's memory before `exec`."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) if found else 0


def main(counts: list[int]) -> None:
    with tempfile.TemporaryDirectory() as name:
        for count in counts:
            folder = Path(name) / str(count)
            snapshot = run_snapshots.write(folder / "run", count)
            for state in ("empty store", "full store"):
                cost = cost_of(snapshot, folder)
                print(f"{count:>6} failures, {state:<11} {cost.seconds:7.1f} s {cost.peak_mb:6.0f} MB", end="")
                print(f"  {cost.cpu_s:7.1f} s CPU, {1000 * cost.cpu_s / count:.1f} ms each", flush=True)


if __name__ == "__main__":
    main([int(count) for count in sys.argv[1:]] or list(COUNTS))
