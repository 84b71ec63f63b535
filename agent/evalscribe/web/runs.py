"""The list of runs, and the page of one run: outcome, recommendations, failures."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from markupsafe import Markup

from evalscribe.errors import DataError
from evalscribe.reports.data import report_from_analysis
from evalscribe.reports.page import RecommendationRow, first_lines, headline, recommendation_rows
from evalscribe.text import pluralise
from evalscribe.web.inbox import search_text
from evalscribe.web.report_index import DECIDED, Entry, LoadedReport
from evalscribe.web.site import Page, Pages, Query, Site, inline_code, slug
from evalscribe.web.tasks import failure_pictures

_MARKED = re.compile(r"\*\*(.+?)\*\*|\[(\d+)\]\(#[^()\s]*\)")
_PATH = re.compile(r"(run/[^/]+/)(?:index|failures-([2-9]|[1-9]\d{1,5}))\.html")
FILTERS = ("label", "step", "cause", "kind")
ROWS = 1000
"""Maximum number of failures in the table of one page. A browser takes ten seconds to show 10,000 failures."""

FirstScreen = tuple[str, Sequence[str], Sequence[RecommendationRow]]
"""Headline, first lines and recommendations of a report."""


class RunPages(Pages):
    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._first_screens: dict[str, tuple[LoadedReport, FirstScreen]] = {}
        """Parsed reports with their first screens, keyed by name. They are cached because a large report takes seconds
        to render.
        """

    def paths(self) -> Iterator[str]:
        yield "runs.html"
        for report in self.site.reports.shown:
            yield run_path(report)
            yield from (_rows_path(report, page) for page in range(2, -(-len(report.entries) // ROWS) + 1))

    def begins(self, path: str) -> bool:
        return path == "runs.html"

    def page(self, path: str, query: Query) -> Page | None:
        if path == "runs.html":
            reports = self.site.reports.shown
            return Page("runs.html.j2", "Runs", path, {"reports": reports, "unread": self.site.reports.unread})
        match = _PATH.fullmatch(path)
        if match is None:
            return None
        report = next((report for report in self.site.reports.all if run_path(report) == f"{match[1]}index.html"), None)
        return self._run(report, query, int(match[2] or 1)) if report else None

    def _run(self, report: LoadedReport, query: Query, number: int) -> Page | None:
        analysis = report.analysis
        cached = self._first_screens.get(report.name)
        if cached is None or cached[0] is not report:
            cached = self._first_screens[report.name] = report, _first_screen(report)
        title, summary, rows = cached[1]
        entries = [entry for entry in report.entries if _matches(entry, query)]
        start = (number - 1) * ROWS
        if start and start >= len(entries):
            return None
        return Page(
            "run.html.j2",
            f"{analysis.run.model or report.name}: run {report.run}",
            "runs.html",
            {
                "report": report,
                "analysis": analysis,
                "run": analysis.run,
                "entries": entries[start : start + ROWS],
                "first_row": start + 1,
                "matching": len(entries),
                "previous_rows": _rows_path(report, number - 1) if number > 1 else None,
                "next_rows": _rows_path(report, number + 1) if start + ROWS < len(entries) else None,
                "undecided": sum(entry.group != DECIDED for entry in report.entries),
                "choices": _choices(report.entries),
                "summary": [_sentence(line, report) for line in summary],
                "recommendations": rows,
                "headline": title,
                "query": query,
                "failure_pictures": failure_pictures(report.entries),
            },
        )


def _first_screen(report: LoadedReport) -> FirstScreen:
    """Return the headline, the first lines and the recommendations in the form in which the report prints them."""
    try:
        rendered = report_from_analysis(report.analysis)
    except DataError:  # Reports written by people lack some facts that generated reports have.
        return pluralise(len(report.entries), "finding"), (), ()
    # The first line is the report's title.
    return headline(rendered), first_lines(rendered)[1:], recommendation_rows(rendered)


def _sentence(line: str, report: LoadedReport) -> Markup:
    """Render a line from the top of the report.

    Bold text and links to findings are kept; everything else becomes plain text.
    """
    paths = {str(entry.n): eval_path(entry.first.eval) for entry in report.entries}
    parts, end = [], 0
    for match in _MARKED.finditer(line):
        parts.append(inline_code(line[end : match.start()]))
        if match[1]:
            parts.append(Markup("<b>{}</b>").format(inline_code(match[1])))
        elif match[2] in paths:
            parts.append(Markup('<a href="{}">{}</a>').format(paths[match[2]], match[2]))
        else:
            parts.append(Markup.escape(match[2]))
        end = match.end()
    return Markup("").join([*parts, inline_code(line[end:])])


def eval_path(eval: str) -> str:
    """Return the path of an eval's page, relative to the folder of the eval's run."""
    return f"eval/{slug(eval)}.html"


def run_path(report: LoadedReport) -> str:
    """Return the path of a run's page, which shows the newest report on the run."""
    return f"run/{slug(report.run)}/index.html"


def _rows_path(report: LoadedReport, number: int) -> str:
    """Return the path of a page of the table of failures. Pages are numbered from 1 and have `ROWS` failures each."""
    return run_path(report) if number == 1 else f"run/{slug(report.run)}/failures-{number}.html"


def facets(entry: Entry) -> dict[str, str]:
    """Return the values of a finding that can be filtered: label, step, cause and kind of cause."""
    first = entry.first
    return {
        "label": entry.label,
        "step": first.step or "",
        "cause": first.cause or "",
        "kind": first.cause_kind or "",
    }


def _matches(entry: Entry, query: Query) -> bool:
    values = facets(entry)
    words = query.get("q", "").lower().split()
    return all(query.get(name, "") in ("", values[name]) for name in FILTERS) and all(
        word in search_text(entry) for word in words
    )


def _choices(entries: Sequence[Entry]) -> dict[str, list[tuple[str, int]]]:
    """Return the values of each filter, each with its number of findings. The most frequent values come first."""
    counts = {name: Counter(facets(entry)[name] for entry in entries) for name in FILTERS}
    return {name: [(value, n) for value, n in count.most_common() if value] for name, count in counts.items()}
