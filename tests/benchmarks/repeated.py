"""Run tests many times, optionally under CPU load or in random order, and print how often they passed.

    python tests/benchmarks/repeated.py --runs 10 --busy 4                   the default run
    python tests/benchmarks/repeated.py --runs 10 --random-order
    python tests/benchmarks/repeated.py --runs 3 tests/llm -n 0              other arguments are passed to pytest

The exit code is 1 if a run failed. The output of failed runs is kept in a folder whose name is printed at the end.
"""

import argparse
import multiprocessing
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]


def busy() -> None:
    while True:
        """Use as much CPU time as possible."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10, help="how often (default: 10)")
    parser.add_argument("--busy", type=int, default=0, help="processes that take all CPU meanwhile (default: 0)")
    parser.add_argument("--random-order", action="store_true", help="another order of the tests in each run")
    options, arguments = parser.parse_known_args()
    others = [multiprocessing.Process(target=busy, daemon=True) for _ in range(options.busy)]
    for process in others:
        process.start()
    outputs = Path(tempfile.mkdtemp(prefix="repeated-"))
    passed = 0
    try:
        for number in range(1, options.runs + 1):
            passed += run(number, arguments or ["-n", "auto"], options.random_order, outputs)
    finally:
        for process in others:
            process.kill()
    print(f"{passed} of {options.runs} runs passed, beside {options.busy} busy processes; outputs are in {outputs}")
    return 0 if passed == options.runs else 1


def run(number: int, arguments: list[str], random_order: bool, outputs: Path) -> bool:
    seed = random.SystemRandom().randrange(10**6)
    order = ["--order-seed", str(seed)] if random_order else []
    output = outputs / f"run-{number}.log"
    began = time.monotonic()
    with output.open("w") as out:
        command = [sys.executable, "-m", "pytest", *order, *arguments]
        code = subprocess.run(command, cwd=ROOT, stdout=out, stderr=out, check=False).returncode
    lines = output.read_text().splitlines() or [""]
    print(f"run {number}: exit {code}, {time.monotonic() - began:.0f} s, {' '.join(order)} {lines[-1]}", flush=True)
    for line in lines:
        if line.startswith(("FAILED", "ERROR")):
            print(f"    {line}", flush=True)
    return code == 0


if __name__ == "__main__":
    sys.exit(main())
