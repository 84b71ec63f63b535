"""Which source a folder holds: the commit that it is at and what differs from it, or its Python files."""

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from evalscribe.errors import UsageError
from evalscribe.forge.git import GitFolder
from evalscribe.ids import content_id
from evalscribe.model.target import SourceState

LARGEST = 16 * 1024 * 1024
"""Bytes of a file that is read; of a larger one its size counts."""
MOST_FILES = 20_000
OTHERS = frozenset({"__pycache__", "node_modules", "site-packages", "venv"})
"""Folders of Python files that are not the user's."""


def source_state(folder: Path, without: Iterable[Path] = ()) -> SourceState:
    """Of a folder; `without`: folders whose files are no source, such as reports."""
    left_out = tuple(path.resolve() for path in without)
    try:
        git = GitFolder(folder)
        top, commit = git.ask("rev-parse", "--show-toplevel"), git.ask("rev-parse", "--verify", "--quiet", "HEAD")
    except UsageError:  # without git there is no commit
        top = commit = None
    if not top or not commit:
        return SourceState(code=_digest(folder, _python_files(folder)))
    changed = [path for path in _changed(git, Path(top)) if not any(path.is_relative_to(one) for one in left_out)]
    return SourceState(commit=commit, dirty=bool(changed), code=_digest(Path(top), changed) if changed else None)


def _changed(git: GitFolder, top: Path) -> Iterator[Path]:
    """Files of the folder that are not as committed, new ones too."""
    told = git.ask("status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames", "--", ".") or ""
    paths = (top / entry[3:] for entry in told.split("\0") if entry)
    yield from (path for path in paths if OTHERS.isdisjoint(path.relative_to(top).parts))


def _python_files(folder: Path) -> Iterator[Path]:
    seen = 0
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in OTHERS)
        yield from (Path(place, name) for name in sorted(files) if name.endswith(".py"))
        seen += len(files)
        if seen > MOST_FILES:
            return


def _digest(top: Path, paths: Iterable[Path]) -> str:
    return content_id([[path.relative_to(top).as_posix(), _content(path)] for path in paths])


def _content(path: Path) -> str | int | None:
    """None for what is no file, or no longer one."""
    try:
        if not path.is_file():
            return None
        size = path.stat().st_size
        return size if size > LARGEST else hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None
