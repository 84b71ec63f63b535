"""Measure the cost of uploading, publishing and exporting a dataset, each in its own process.

    python tests/benchmarks/dataset_speed.py [ITEMS…]          default: 10,000 and 100,000

Prints the CPU seconds and the peak memory of each step. Apart from the keys, memory should not grow with the dataset.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

MEASURED = """\
import resource, sys
from evalscribe.cli import run
code = run(sys.argv[1:])
used = resource.getrusage(resource.RUSAGE_SELF)
print("\\n", used.ru_utime + used.ru_stime, used.ru_maxrss // 1024, file=sys.stderr)
sys.exit(code)
"""


class Step(NamedTuple):
    name: str
    cpu_s: float
    peak_mb: int


def measured(items: int) -> Iterator[Step]:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        with (place / "items.jsonl").open("w") as file:
            file.writelines(f"{_line(number)}\n" for number in range(items))
        yield _step(place, "create", "--name", "big")
        yield _step(place, "upload", "big", "items.jsonl")
        yield _step(place, "publish", "big")
        yield _step(place, "versions", "export", "big", "1", "-o", "out.jsonl")
        yield _step(place, "dedup", "preview", "big")
        yield _step(place, "versions", "compare", "big", "1", "draft")


def _line(number: int) -> str:
    asked = {"question": f"What about order {number}? " + "alpha beta gamma " * 10, "order_id": number}
    item = {
        "key": f"item-{number}",
        "input": asked,
        "expected_output": {"answer": number},
        "cluster": f"c{number // 9}",
    }
    return json.dumps(item)


def _step(place: Path, *command: str) -> Step:
    called = [sys.executable, "-c", MEASURED, "datasets", *command]
    done = subprocess.run(called, cwd=place, check=True, capture_output=True, text=True)
    cpu, peak = done.stderr.split()[-2:]
    return Step(" ".join(command[:2] if command[0] in ("versions", "dedup") else command[:1]), float(cpu), int(peak))


if __name__ == "__main__":
    for number in map(int, sys.argv[1:] or ("10000", "100000")):
        for step in measured(number):
            print(f"{number:>8,} items  {step.name:<18} {step.cpu_s:6.1f} s of CPU  {step.peak_mb:4} MB")
