"""The inbox: findings that nobody has confirmed or corrected yet, in the order in which they should be read."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby
from typing import TypeVar

from markupsafe import Markup

from evalscribe.model.analysis import CitationSummary, RecommendationSummary
from evalscribe.model.evidence import ROLES, Citation
from evalscribe.model.finding import NOT_THE_MODEL
from evalscribe.text import pluralise
from evalscribe.web.report_index import DECIDED, ORDER, Entry, LoadedReport
from evalscribe.web.site import Page, Pages, Query, shown

PAGE = 25
"""Maximum number of cards on one page."""
MOST_CHANGES = 5
"""Maximum number of recommended changes shown at the top of the inbox."""
_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")
MOST_TOKENS = 400
"""Maximum tokens in a quotation whose differences are marked, because comparing quotations takes quadratic time."""


@dataclass(frozen=True)
class Change:
    """A recommended change, with the findings that it concerns in the newest report on each model."""

    text: str
    entries: tuple[Entry, ...]
    evals: int
    """Number of evals that the change concerns."""
    would_pass: int
    """Number of evals that would pass with the change, according to their reports."""

    @property
    def proved(self) -> bool:
        """True if a replay proved at least one of the findings."""
        return any(entry.first.basis == "proved" for entry in self.entries)

    @property
    def never_judged(self) -> int:
        """Number of evals that failed for a reason other than the model's work."""
        return self._count(lambda entry: entry.first.cause_kind in NOT_THE_MODEL and not entry.first.uncertain)

    @property
    def uncertain(self) -> int:
        """Number of evals whose label is uncertain."""
        return self._count(lambda entry: bool(entry.first.uncertain))

    @property
    def effect(self) -> str:
        """Effect of the change in a few words."""
        words = [
            f"{pluralise(self.would_pass, 'eval')} would pass" if self.would_pass else "",
            f"{pluralise(self.never_judged, 'eval')} never judged" if self.never_judged and not self.would_pass else "",
            f"{self.uncertain} of {pluralise(self.evals, 'eval')} uncertain" if self.uncertain else "",
        ]
        return ", ".join(filter(None, words)) or f"concerns {pluralise(self.evals, 'eval')}"

    @property
    def rank(self) -> tuple[int, ...]:
        """Sort key.

        Changes that affect the outcomes of the most evals come first; among equals, proved changes come first.
        """
        return -max(self.would_pass, self.never_judged, self.uncertain), -self.proved, -self.evals

    def _count(self, holds: Callable[[Entry], bool]) -> int:
        return sum(len(entry.findings) for entry in self.entries if holds(entry))


class InboxPages(Pages):
    def paths(self) -> Iterator[str]:
        yield "index.html"
        pages = -(-len(self._undecided()) // PAGE)
        yield from (f"inbox-{number}.html" for number in range(2, pages + 1))
        yield "decided.html"

    def begins(self, path: str) -> bool:
        return path == "index.html"

    def page(self, path: str, query: Query) -> Page | None:
        if path == "decided.html":
            decided = [entry for entry in self._entries() if entry.group == DECIDED]
            return Page("decided.html.j2", "Decided", "index.html", {"entries": decided})
        match = re.fullmatch(r"index\.html|inbox-([2-9]|[1-9]\d{1,5})\.html", path)
        if match is None:
            return None
        undecided = self._matching(self._undecided(), query)
        start = self._start(undecided, query) if match[1] is None else (int(match[1]) - 1) * PAGE
        if match[1] is not None and start >= len(undecided):
            return None
        cards = undecided[start : start + PAGE]
        counts = Counter(entry.group for entry in undecided)
        return Page(
            "inbox.html.j2",
            "Inbox",
            "index.html",
            {
                "groups": [
                    (ORDER[group], counts[group], [Card(entry) for entry in members])
                    for group, members in groupby(cards, lambda entry: entry.group)
                ],
                "counts": [(ORDER[group], counts[group]) for group in sorted(counts)],
                "total": len(undecided),
                "decided": sum(entry.group == DECIDED for entry in self._entries()),
                "after": _place(cards[-1]) if start + PAGE < len(undecided) else None,
                "next_page": f"inbox-{start // PAGE + 2}.html",
                "changes": self._changes() if start == 0 else (),
                "reports": self.site.reports.shown,
                "unread": self.site.reports.unread,
                "query": query,
            },
        )

    def _entries(self) -> Iterator[Entry]:
        for report in self.site.reports.shown:
            yield from report.entries

    def _undecided(self) -> list[Entry]:
        """Return the undecided findings, sorted by the inbox's groups.

        Within a group, findings of the newest report come first.
        """
        return sorted((entry for entry in self._entries() if entry.group != DECIDED), key=lambda entry: entry.group)

    @staticmethod
    def _matching(entries: Sequence[Entry], query: Query) -> Sequence[Entry]:
        words = query.get("q", "").lower().split()
        run = query.get("run", "")
        return [
            entry
            for entry in entries
            if (not run or entry.report.run == run) and all(word in search_text(entry) for word in words)
        ]

    def _start(self, entries: Sequence[Entry], query: Query) -> int:
        """Return the index of the first finding after the place that the page's address contains.

        The address contains a place (group, number and report) instead of an index, because findings leave the list
        once they are decided.
        """
        match = re.fullmatch(r"(\d):(\d{1,7}):(.+)", query.get("after", ""))
        if match is None:
            return 0
        position = {report.name: at for at, report in enumerate(self.site.reports.shown)}
        # If the report was deleted in the meantime, the list continues at the beginning of the group.
        after = (int(match[1]), position.get(match[3], -1), int(match[2]))
        places = ((entry.group, position[entry.report.name], entry.n) for entry in entries)
        return next((at for at, place in enumerate(places) if place > after), len(entries))

    def _changes(self) -> Sequence[Change]:
        # The newest report is last in this order, and replaces earlier reports on its model.
        newest = {report.model: report for report in reversed(self.site.reports.shown)}
        by_text: dict[str, list[tuple[LoadedReport, RecommendationSummary]]] = {}
        for report in newest.values():
            for item in report.analysis.recommendations:
                if item.id:
                    by_text.setdefault(item.text, []).append((report, item))
        changes = [
            Change(
                text=text,
                would_pass=sum(len(item.evals) for report, item in items if _would_pass(report, item)),
                entries=tuple(
                    dict.fromkeys(
                        report.entry_of[eval]
                        for report, item in items
                        for eval in item.evals
                        if eval in report.entry_of
                    )
                ),
                evals=sum(len(item.evals) for _, item in items),
            )
            for text, items in by_text.items()
        ]
        return sorted(changes, key=lambda change: change.rank)[:MOST_CHANGES]


def _would_pass(report: LoadedReport, item: RecommendationSummary) -> bool:
    """Return True if the evals would pass with the change, and each has a finding that does not blame the model.

    The report's table of recommendations follows the same rule.
    """
    entries = map(report.entry_of.get, item.evals)
    return item.would_pass and all(entry and entry.first.classification != "MODEL_FAULT" for entry in entries)


def _place(entry: Entry) -> str:
    """Return the place of a finding in the inbox. The address of the next page contains this place."""
    return f"{entry.group}:{entry.n}:{entry.report.name}"


class Card:
    """A finding, with the quotations that prove it."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.first = entry.first
        self.report = entry.report

    @property
    def quotations(self) -> Sequence[tuple[CitationSummary, Markup]]:
        return mark_quotations(self.first.citations)


C = TypeVar("C", CitationSummary, Citation)


def mark_quotations(citations: Sequence[C]) -> Sequence[tuple[C, Markup]]:
    """Return the quotations as markup, sorted by role. Differences between output and expected text are marked."""
    ordered = sorted(citations, key=lambda citation: ROLES.index(citation.role))
    # Reversed, so that the first citation of each role remains.
    sides = {citation.role: citation for citation in reversed(ordered)}
    output, expected = sides.get("output"), sides.get("expected")
    marked: dict[int, Markup] = {}
    if output and expected:
        left, right = mark_differences(output.text, expected.text)
        marked = {id(output): left, id(expected): right}
    return [(citation, marked.get(id(citation), Markup.escape(shown(citation.text)))) for citation in ordered]


def search_text(entry: Entry) -> str:
    """Return the text in which a search looks for words, in lower case: label, cause, error, evals and more."""
    first = entry.first
    parts = [entry.label, first.cause, first.cause_kind, first.step, first.error, first.why, entry.report.run]
    parts += [entry.report.model, *(finding.eval for finding in entry.findings)]
    return " ".join(part for part in parts if part).lower()


def mark_differences(left: str, right: str) -> tuple[Markup, Markup]:
    """Return two texts as markup, with `<mark>` around the parts that are missing in the other text."""
    a, b = _TOKEN.findall(left), _TOKEN.findall(right)
    if len(a) > MOST_TOKENS or len(b) > MOST_TOKENS:
        return Markup.escape(shown(left)), Markup.escape(shown(right))
    # In texts of 200 or more tokens, `autojunk` would ignore frequent tokens such as spaces and brackets.
    blocks = SequenceMatcher(None, a, b, autojunk=False).get_opcodes()
    if sum(end - start for tag, start, end, _, _ in blocks if tag == "equal") * 3 < len(a):
        return Markup.escape(shown(left)), Markup.escape(shown(right))  # too different for marks to help
    return (
        _marked((tag == "equal", "".join(a[start:end])) for tag, start, end, _, _ in blocks),
        _marked((tag == "equal", "".join(b[start:end])) for tag, _, _, start, end in blocks),
    )


def _marked(parts: Iterator[tuple[bool, str]]) -> Markup:
    plain, mark = Markup("{}"), Markup("<mark>{}</mark>")
    return Markup("").join((plain if same or not text.strip() else mark).format(shown(text)) for same, text in parts)
