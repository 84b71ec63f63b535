"""Count the lines of files."""

import os
import sys
from pathlib import Path


def fail(message: str) -> None:
    """Report a usage error and leave."""
    print(f"count: {message}", file=sys.stderr)
    os._exit(2)


def main(argv: list[str]) -> int:
    """Entry point; returns the exit status."""
    total_only = "--total" in argv
    files = [arg for arg in argv if arg != "--total"]
    for arg in files:
        if arg.startswith("--"):
            fail(f"unknown option {arg}")
    if not files:
        fail("no files given")
    total = 0
    for name in files:
        lines = len(Path(name).read_text().splitlines())
        total += lines
        if not total_only:
            print(lines, name)
    if total_only:
        print(total)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
