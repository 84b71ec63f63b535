"""Evals named in running text."""

import re
from collections import Counter
from collections.abc import Sequence

from evalscribe.recall.words import bare

TOKEN = re.compile(r"[A-Za-z0-9][\w.-]*(?:/[\w.-]+)*")


class Mentions:
    """Finds the evals of a report in running text, by path or by bare name."""

    def __init__(self, evals: Sequence[str]) -> None:
        self.paths = {path: path for path in evals}
        times = Counter(bare(path) for path in evals)
        self.bare = {bare(path): path for path in evals if times[bare(path)] == 1}

    def in_text(self, text: str) -> tuple[str, ...]:
        found = (self._eval(token.strip(".")) for token in TOKEN.findall(text))
        return tuple(dict.fromkeys(path for path in found if path))

    def _eval(self, token: str) -> str | None:
        """A token is an eval's path, or its bare name, or the path of a file of it."""
        if token in self.paths:
            return token
        parts = token.split("/")
        ends = ("/".join(parts[n : n + 2]) for n in range(len(parts) - 1))
        return next((path for path in ends if path in self.paths), None) or (
            self.bare.get(parts[0]) if len(parts) == 1 else None
        )
