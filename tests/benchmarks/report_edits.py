"""Apply edits as people make them, and count how many of each kind are read, merged or refused. None may be lost.

    python tests/benchmarks/report_edits.py [EDITS] [SEED] [FOLDER OF REPORTS ...]

The edited reports are the sample's report and the reports in the given folders.
"""

import random
import sys
from collections import Counter, defaultdict
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path.insert(0, str(TESTS))

from evalscribe.model.repository import has_data  # noqa: E402
from support import report_edits  # noqa: E402
from support.report_pages import report_at  # noqa: E402


def main(edits: int = 2000, seed: int = 1, *folders: str) -> int:
    files = (path for folder in (TESTS.parent / "reports", *folders) for path in sorted(Path(folder).rglob("*.md")))
    reports = [report_at(path) for path in files if has_data(path.read_text("utf-8"))]
    rng = random.Random(seed)
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    wrong = 0
    for number in range(edits):
        kind = list(report_edits.KINDS)[number % len(report_edits.KINDS)]
        base = rng.choice(("rendering", "store", "unknown"))
        try:
            outcome = report_edits.judge(kind, f"{seed}-{number}", rng.choice(reports), base, again=rng.random() < 0.5)
        except Exception as error:  # the benchmark counts the error and continues
            outcome, wrong = "wrong", wrong + 1
            print(f"{kind}, edit {number}, base {base}: {type(error).__name__}: {error}")
        if outcome:
            counts[kind][outcome] += 1
    print_counts(counts)
    return 1 if wrong else 0


def print_counts(counts: dict[str, Counter[str]]) -> None:
    total = sum(counts.values(), Counter[str]())
    print(f"{'kind of edit':45}" + "".join(f"{outcome:>9}" for outcome in total))
    for kind, count in (*counts.items(), ("in all", total)):
        print(f"{kind:45}" + "".join(f"{count[outcome]:9}" for outcome in total))


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[1:3]]
    sys.exit(main(*numbers, *sys.argv[3:]))
