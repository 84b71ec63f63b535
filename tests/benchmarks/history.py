"""Measure how much of people's free-form reports is recovered, and whether anything wrong is added.

EVALSCRIBE_REAL_DATA=... python tests/benchmarks/history.py
"""

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from evalscribe.reports import reading


@dataclass(frozen=True)
class Measured:
    """The failures that a report names according to its gold verdicts, compared with those that were read from it."""

    name: str
    named: int
    recovered: int
    wrong: tuple[str, ...]
    missing: tuple[str, ...]
    extra: tuple[str, ...]
    wrong_steps: tuple[str, ...]


def measure(folder: Path) -> Measured:
    gold = json.loads((folder / "gold.json").read_text())
    some = any("namedInReport" in failure for failure in gold["failures"])
    named = {one["evalPath"]: one for one in gold["failures"] if one.get("namedInReport") or not some}
    others = {one["evalPath"]: one for one in gold.get("otherRunFailures", ())}
    read = {
        one.eval: one for one in reading.read_report((folder / "report.md").read_text(), f"{folder.name}.md").findings
    }
    right = {path for path, one in named.items() if path in read and read[path].classification == one["classification"]}
    return Measured(
        name=folder.name,
        named=len(named),
        recovered=len(right),
        wrong=tuple(sorted((named.keys() & read.keys()) - right)),
        missing=tuple(sorted(named.keys() - read.keys())),
        extra=tuple(sorted(read.keys() - named.keys() - others.keys())),
        wrong_steps=tuple(sorted(path for path in right if read[path].step != named[path]["failedStep"])),
    )


def main() -> int:
    data = os.environ.get("EVALSCRIBE_REAL_DATA")
    if not data:
        print("EVALSCRIBE_REAL_DATA is not set: nothing to measure")
        return 0
    measured = [measure(folder) for folder in sorted((Path(data) / "convex-runs").iterdir()) if folder.is_dir()]
    titles = ("report", "named", "recovered", "wrong label", "missing", "extra", "wrong step")
    print("{:10} {:>6} {:>10} {:>12} {:>8} {:>6} {:>11}".format(*titles))
    for one in measured:
        counts = (len(one.wrong), len(one.missing), len(one.extra), len(one.wrong_steps))
        print("{:10} {:6} {:10} {:12} {:8} {:6} {:11}".format(one.name, one.named, one.recovered, *counts))
        for path in (*one.wrong, *one.missing, *one.extra):
            print(f"           {path}")
    named, recovered = sum(one.named for one in measured), sum(one.recovered for one in measured)
    print(f"{'all':10} {named:6} {recovered:10}   {recovered / named:.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
