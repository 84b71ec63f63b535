"""Ways people edit a report: how many of each kind are read right, how many refused with their line, and none lost.

    python tests/benchmarks/report_edits.py [EDITS] [SEED] [FOLDER OF REPORTS ...]

Edits the sample's reports, and those below the folders named.
"""

import random
import sys
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path.insert(0, str(TESTS))

from evalscribe.reports.markdown.front_matter import run_of  # noqa: E402
from evalscribe.reports.markdown.page import parse  # noqa: E402
from support import report_edits  # noqa: E402


def main(edits: int = 2000, seed: int = 1, *folders: str) -> int:
    files = (path for folder in (TESTS.parent / "reports", *folders) for path in sorted(Path(folder).rglob("*.md")))
    texts = [text for text in (path.read_text("utf-8") for path in files) if run_of(text)]
    pages = [(text, report_edits.Page(text, parse(text))) for text in texts]
    rng = random.Random(seed)
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    wrong = 0
    for number in range(edits):
        name = list(report_edits.KINDS)[number % len(report_edits.KINDS)]
        text, page = rng.choice(pages)
        edit = report_edits.KINDS[name](page, rng)
        if edit is None:
            continue
        try:
            counts[name][report_edits.judge(edit, page.report, text)] += 1
            # Without the store some edits can only be read that are refused with it; nothing is lost either way.
            alone = edit if edit.fate == "read" else replace(edit, fate="either")
            report_edits.judge(alone, page.report, None)
        except Exception as error:  # a benchmark goes on
            counts[name]["wrong"] += 1
            wrong += 1
            print(f"{name}, edit {number}, near {edit.near}: {type(error).__name__}: {error}")
    report(counts)
    return 1 if wrong else 0


def report(counts: dict[str, Counter[str]]) -> None:
    columns = ("read", "same", "refused", "wrong")
    print(f"{'kind of edit':45}" + "".join(f"{column:>9}" for column in columns))
    for name, count in counts.items():
        print(f"{name:45}" + "".join(f"{count[column]:9}" for column in columns))
    total = sum(counts.values(), Counter())
    print(f"{'in all':45}" + "".join(f"{total[column]:9}" for column in columns))


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[1:3]]
    sys.exit(main(*numbers, *sys.argv[3:]))
