"""Count lines."""

import sys
from pathlib import Path


def main(argv: list[str]) -> int:
    """The command; its exit status."""
    options = [arg for arg in argv if arg.startswith("--")]
    files = [arg for arg in argv if not arg.startswith("--")]
    if not files or set(options) - {"--total"}:
        print("usage: count [--total] FILE...", file=sys.stderr)
        return 2
    counts = [len(Path(file).read_text().splitlines()) for file in files]
    if options:
        print(sum(counts))
    else:
        for file, count in zip(files, counts, strict=True):
            print(count, file)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
