"""The files of one commit as a model sees them: text, redacted, with plain line ends."""

from collections.abc import Iterable, Iterator, Sequence

from evalscribe.propose.edits import Read
from evalscribe.propose.protected import holds_secrets
from evalscribe.redaction.redact import redact

LARGEST = 400_000
"""Characters of one file that is shown or changed."""
MOST_SEARCHED = 400
"""Files that one search goes through."""


class Files:
    """Read when they are first asked for; nothing outside `paths` can be."""

    def __init__(self, paths: Sequence[str], read: Read) -> None:
        """`paths` in the order in which they are listed and searched."""
        self.paths = tuple(path for path in paths if not holds_secrets(path))
        self._known = frozenset(self.paths)
        self._read = read
        self._texts: dict[str, str | None] = {}

    def raw(self, path: str) -> str | None:
        """The file's own text, for edits; None for what is too large or no text."""
        text = self._read(path) if path in self._known else None
        return text if text is not None and len(text) <= LARGEST and "\0" not in text else None

    def text(self, path: str) -> str | None:
        """What is shown of the file."""
        if path not in self._texts:
            raw = self.raw(path)
            self._texts[path] = None if raw is None else redact(raw.replace("\r\n", "\n"))
        return self._texts[path]

    def below(self, folder: str) -> tuple[str, ...]:
        folder = folder.strip("/")
        return tuple(path for path in self.paths if not folder or path.startswith(f"{folder}/"))

    def hits(self, words: str, paths: Iterable[str]) -> Iterator[tuple[str, int, str]]:
        """Path, number and text of each line that holds the words, capitals or not."""
        for path, _ in zip(paths, range(MOST_SEARCHED), strict=False):
            for number, line in enumerate((self.text(path) or "").split("\n"), 1):
                if words.casefold() in line.casefold():
                    yield path, number, line
