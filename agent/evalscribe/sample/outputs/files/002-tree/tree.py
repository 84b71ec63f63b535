from collections.abc import Iterator
from pathlib import Path


def walk(folder: Path) -> Iterator[Path]:
    """Yield visible files below folder."""
    for entry in folder.iterdir():
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            yield from walk(entry)
        else:
            yield entry


def tree(root: Path) -> list[str]:
    """List all visible files below root."""
    return sorted(path.relative_to(root).as_posix() for path in walk(root))
