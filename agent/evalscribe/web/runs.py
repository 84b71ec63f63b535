"""The list of runs, and the page of one run: outcome, recommendations, failures."""

from collections import Counter
from collections.abc import Iterator, Sequence

from evalscribe.model.finding import RECOMMENDATION_GROUPS
from evalscribe.web.inbox import search_text
from evalscribe.web.report_index import DECIDED, Entry, LoadedReport
from evalscribe.web.site import Page, Pages, Query, slug

FILTERS = ("label", "step", "cause", "kind")


class RunPages(Pages):
    def paths(self) -> Iterator[str]:
        yield "runs.html"
        yield from (run_path(report) for report in self.site.reports.shown)

    def page(self, path: str, query: Query) -> Page | None:
        if path == "runs.html":
            reports = self.site.reports.shown
            return Page("runs.html.j2", "Runs", path, {"reports": reports, "unread": self.site.reports.unread})
        folder, _, file = path.rpartition("/")
        if file != "index.html" or not folder.startswith("run/"):
            return None
        report = next((report for report in self.site.reports.all if run_path(report) == path), None)
        return self._run(report, query) if report else None

    @staticmethod
    def _run(report: LoadedReport, query: Query) -> Page:
        analysis = report.analysis
        entries = [entry for entry in report.entries if _matches(entry, query)]
        return Page(
            "run.html.j2",
            f"{analysis.run.model or report.name}: run {report.run}",
            "runs.html",
            {
                "report": report,
                "analysis": analysis,
                "run": analysis.run,
                "entries": entries,
                "undecided": sum(entry.group != DECIDED for entry in report.entries),
                "choices": _choices(report.entries),
                "groups": RECOMMENDATION_GROUPS,
                "query": query,
            },
        )


def run_path(report: LoadedReport) -> str:
    """Return the path of a run's page. A second report on the same run has its own."""
    return f"run/{slug(report.run)}/index.html"


def facets(entry: Entry) -> dict[str, str]:
    """Return the values of a finding that the filters of the address name."""
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
    """Return the values of each filter with their numbers of findings, most frequent first."""
    counts = {name: Counter(facets(entry)[name] for entry in entries) for name in FILTERS}
    return {name: [(value, n) for value, n in count.most_common() if value] for name, count in counts.items()}
