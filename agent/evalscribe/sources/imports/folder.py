"""The files of a folder that may hold runs."""

import os
from pathlib import Path

from evalscribe.errors import AccessError, NotFoundError
from evalscribe.sources.address import SUMMARY


def files(path: Path) -> tuple[Path, ...]:
    """Every file below a folder, by name; links and hidden ones are passed over. A snapshot of a run stands for itself.

    Raises `AccessError` for a folder that may not be read, `NotFoundError` where there is nothing in it.
    """
    found = tuple(_below(path))
    if not found:
        raise NotFoundError(f"{path} has no files")
    return found


def _below(folder: Path) -> list[Path]:
    if (folder / SUMMARY).is_file():
        return [folder]
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except PermissionError:
        raise AccessError(f"{folder} may not be read") from None
    found: list[Path] = []
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_dir(follow_symlinks=False):
            found += _below(Path(entry.path))
        elif entry.is_file(follow_symlinks=False):
            found.append(Path(entry.path))
    return found
