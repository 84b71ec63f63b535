"""Print the size and the complexity of the package, with the values before the restructuring and its targets.

    python tests/benchmarks/structure.py            the table
    python tests/benchmarks/structure.py --names    also the names of the counted objects

The columns are the measure, its value before the restructuring, its current value, and the maximum that is the target.
The package `sample` counts only among the modules that the command imports. Two measures are taken by hand: the number
of files to open to follow one failed eval, and the duration of the default test run.
"""

import argparse
import sys
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from support import structure

COMMAND = ("analyze", "sample", "--judge", "rules")


class Measure(NamedTuple):
    """A row of the table."""

    name: str
    before: int
    now: int
    at_most: int
    names: tuple[str, ...] = ()
    """Names of the counted objects, if they help to reduce the number."""


def measures() -> list[Measure]:
    modules = structure.modules()
    repeated = structure.repeated_class_names()
    fragments = structure.fragments()
    lazy = structure.imports_in_functions()
    protocols = structure.protocols()
    loaded = structure.modules_of_command(*COMMAND)
    path = structure.longest_import_path()
    return [
        Measure("modules", 862, len(modules), 320),
        Measure("lines", 82_700, sum(module.lines for module in modules), 66_000),
        Measure("public class names defined more than once", 100, len(repeated), 0, tuple(repeated)),
        Measure(f"modules under {structure.FRAGMENT} lines", 132, len(fragments), 25, tuple(fragments)),
        Measure("entries at the package root", 95, len(structure.root_entries()), 30, tuple(structure.root_entries())),
        Measure(
            "imports inside functions",
            876,
            lazy.total(),
            120,
            tuple(f"{name} {count}" for name, count in lazy.most_common()),
        ),
        Measure("protocols", 60, len(protocols), 15, tuple(sorted(protocols))),
        Measure(f"modules that `{' '.join(COMMAND)}` imports", 206, len(loaded), 90, tuple(loaded)),
        Measure("longest import path from the CLI", 28, len(path), 12, tuple(path)),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--names", action="store_true", help="list what was counted, below the table")
    options = parser.parse_args()
    rows = measures()
    print("| measure | before | now | at most |\n|---|--:|--:|--:|")
    for row in rows:
        print(f"| {row.name} | {row.before:,} | {row.now:,} | {row.at_most:,} |")
    for row in rows if options.names else ():
        if row.names:
            print(f"\n{row.name}: {', '.join(row.names)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
