"""Files of a folder."""

from pathlib import Path


def tree(root: Path) -> list[str]:
    """Every visible file, relative to the root."""
    paths = [path.relative_to(root) for path in root.rglob("*") if path.is_file()]
    hidden = [path for path in paths if any(part.startswith(".") for part in path.parts)]
    return sorted(path.as_posix() for path in set(paths) - set(hidden))
