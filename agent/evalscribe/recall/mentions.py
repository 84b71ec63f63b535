"""Evals named in running text."""

import re
from collections import Counter
from collections.abc import Sequence

from evalscribe.model.analysis import FindingSummary
from evalscribe.recall.words import bare, is_marked_name

TOKEN = re.compile(r"#\d+\b|[A-Za-z0-9][\w.-]*(?:/[\w.-]+)*(?:#\d+)?")


class Mentions:
    """Finds the evals of a report in running text: by path, by bare name, or by number (`#11`)."""

    def __init__(self, findings: Sequence[FindingSummary]) -> None:
        self.paths = {one.eval for one in findings}
        self.numbered: dict[str, list[str]] = {}
        for one in findings:
            self.numbered.setdefault(f"#{one.n}", []).append(one.eval)
        times = Counter(bare(path) for path in self.paths)
        self.bare = {name: path for path in self.paths if times[name := bare(path)] == 1 and is_marked_name(name)}

    def in_text(self, text: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(path for token in TOKEN.findall(text) for path in self._evals(token)))

    def _evals(self, token: str) -> Sequence[str]:
        """A token is an eval's path, its bare name, its number, or the path of a file of it."""
        token = token.rstrip(".")
        if token in self.paths:
            return [token]
        if token in self.numbered:
            return self.numbered[token]
        parts = token.split("/")
        ends = ("/".join(parts[n : n + 2]) for n in range(len(parts) - 1))
        within = [path for path in ends if path in self.paths]
        return within or ([self.bare[token]] if token in self.bare else [])
