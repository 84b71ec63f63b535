"""Where evals stand in a repository: which folders and files are called like them, and what lies inside."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

OUTPUTS = frozenset(
    ("output", "outputs", "results", "runs", "logs", "transcripts", "reports", "generations", "completions", "samples")
)
"""Names of folders that hold what models wrote; a category or an eval may be called so all the same."""

Parts = tuple[str, ...]
"""Of a path."""


def parts_of(eval: str) -> Parts:
    """An eval's path without its trial, in its parts."""
    return _parts(re.sub(r"#\d+$", "", eval))


class Named:
    """Which folders and files of a repository are called like evals.

    Of evals whose names end alike the one with the longest name is meant. A name without a category is a word like any
    other: it counts where it stands in one place only.
    """

    def __init__(self, files: Sequence[str], own: Iterable[Parts], others: Iterable[Parts]) -> None:
        self._folders = sorted({parent for file in files for parent in parents(file)})
        self._own = frozenset(own)
        self._known = self._own | frozenset(others)
        self._lengths = sorted({len(name) for name in self._known}, reverse=True)
        self._own -= self._unclear(files)

    def folders(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Of the evals that are meant, and of others."""
        called = [(folder, name) for folder in self._folders if (name := self._eval(_parts(folder)))]
        own = tuple(folder for folder, name in called if name in self._own)
        return own, tuple(folder for folder, name in called if name not in self._own)

    def means(self, file: str) -> bool:
        """Whether a file, its endings aside, is called like an eval that is meant."""
        return self._eval(_stem(file)) in self._own

    def _eval(self, parts: Parts) -> Parts | None:
        """What a path ends with, below no folder for outputs."""
        for length in self._lengths:
            if parts[-length:] in self._known and not OUTPUTS & {part.casefold() for part in parts[:-length]}:
                return parts[-length:]
        return None

    def _unclear(self, files: Sequence[str]) -> set[Parts]:
        words = {name for name in self._own if len(name) == 1}
        if not words:
            return set()
        paths = {*map(_parts, self._folders), *map(_stem, files)}
        places = Counter(parts[-1:] for parts in paths if self._eval(parts) in words)
        return {name for name in words if places[name] > 1}


class Inside:
    """Which of some folders a path lies in; the innermost counts."""

    def __init__(self, folders: Sequence[str], foreign: Sequence[str]) -> None:
        self._folders = frozenset(folders)
        self._foreign = frozenset(foreign)

    def folder(self, path: str) -> str | None:
        innermost = self._innermost(path)
        return innermost if innermost in self._folders else None

    def is_foreign(self, path: str) -> bool:
        return self._innermost(path) in self._foreign

    def is_output(self, path: str) -> bool:
        """Whether it lies in a folder of outputs directly below its eval's."""
        below = path.removeprefix(f"{self.folder(path)}/").split("/")
        return len(below) > 1 and below[0].casefold() in OUTPUTS

    def _innermost(self, path: str) -> str | None:
        known = (one for one in reversed(parents(path)) if one in self._folders or one in self._foreign)
        return next(known, None)


def _parts(path: str) -> Parts:
    return tuple(path.split("/"))


def _stem(file: str) -> Parts:
    *folders, name = file.split("/")
    return (*folders, name.partition(".")[0])


def parents(file: str) -> tuple[str, ...]:
    parts = file.split("/")
    return tuple("/".join(parts[:n]) for n in range(1, len(parts)))
