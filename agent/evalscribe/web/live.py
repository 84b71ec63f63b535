"""Running analyses: how other pages mention them, and the cards of the findings judged so far."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from evalscribe.analysis.running import MOST_STORED
from evalscribe.errors import EvalscribeError
from evalscribe.model.evidence import Citation
from evalscribe.model.finding import Finding, RunningAnalysis
from evalscribe.web.inbox import mark_quotations
from evalscribe.web.report_index import Scope
from evalscribe.web.runs import run_path
from evalscribe.web.site import Page, Pages, Query, Site, slug

MOST_CARDS = 50
"""Maximum number of cards in one response. The page requests the next cards a second later."""
_PLACE = re.compile(r"run/([^/]+)/(index|analysis|findings)\.html")


@dataclass(frozen=True)
class LiveAnalysis:
    """An analysis whose report is not written yet."""

    analysis: RunningAnalysis
    holder: str | None
    """Description of the process that analyses the run; None if the analysis was interrupted."""
    has_report: bool
    """True if there is an earlier report on the run."""

    @property
    def path(self) -> str:
        name = "analysis" if self.has_report else "index"
        return f"run/{slug(self.analysis.run_id)}/{name}.html"

    @property
    def start(self) -> str:
        """Identifier of this start of the analysis.

        If the run is analysed again, the identifier changes, and the page shows the cards from the beginning.
        """
        return slug(f"{self.analysis.started_at}.{self.analysis.process}")

    @property
    def progress(self) -> str:
        analysis = self.analysis
        if analysis.groups is None:
            return "reading the evidence"
        done = f"{analysis.judged:,} of {analysis.groups:,} judged"
        return f"{done}, writing the report" if analysis.judged == analysis.groups and self.holder else done


@dataclass(frozen=True)
class JudgedCard:
    """An analysis's finding on one group of failures."""

    number: int
    finding: Finding

    @property
    def title(self) -> str:
        paths = [eval.path for eval in self.finding.evals]
        return paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1:,} more"

    @property
    def quotations(self) -> Sequence[tuple[Citation, Markup]]:
        verdict = self.finding.judged
        return mark_quotations(verdict.citations) if verdict else ()


class LivePages(Pages):
    """Pages of runs that are being analysed, until their reports are written.

    A bundle has no such pages, because its pages never change.
    """

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        site.environment.globals.update(running=lambda: live_analyses(site), MOST_STORED=MOST_STORED)

    def paths(self) -> Iterator[str]:
        yield from ()

    def begins(self, path: str) -> bool:  # noqa: ARG002
        return False

    def page(self, path: str, query: Query) -> Page | None:
        if self.site.is_static:
            return None
        if path == "analyses.html":
            return Page("running.html.j2", "Analyses", "runs.html")
        match = _PLACE.fullmatch(path)
        if match is None:
            return None
        live = next((live for live in live_analyses(self.site) if slug(live.analysis.run_id) == match[1]), None)
        if match[2] == "findings":
            return self._findings(match[1], live, query)
        if live is None:
            return None
        title = f"{live.analysis.model}: run {live.analysis.run_id}"
        return Page("analysis.html.j2", title, "runs.html", self._values(live, 0))

    def _findings(self, name: str, live: LiveAnalysis | None, query: Query) -> Page:
        """Return the HTML fragment with the next cards.

        The parameter `after` of the address is the number of cards that the page already shows. If the analysis has
        ended or was started again, the fragment contains no cards, only the address that the page must open instead.
        """
        after = int(query["after"]) if re.fullmatch(r"\d{1,9}", query.get("after", "")) else 0
        ended = None
        if live is None:
            report = next((report for report in self.site.reports.all if slug(report.run) == name), None)
            ended = run_path(report) if report else "runs.html"
        elif query.get("start", live.start) != live.start:
            ended = live.path
        if live is None or ended is not None:
            values: dict[str, object] = {"live": live, "ended": ended, "name": name, "cards": (), "after": after}
        else:
            values = self._values(live, after)
        return Page("analysis_findings.html.j2", "Findings", "runs.html", values)

    def _values(self, live: LiveAnalysis, after: int) -> dict[str, object]:
        run = live.analysis.run_id
        findings = self.site.workspace.store.analyses.judged(run, after, MOST_CARDS)
        cards = [JudgedCard(number, finding) for number, finding in enumerate(findings, after + 1)]
        values: dict[str, object] = {"live": live, "ended": None, "name": slug(run), "cards": cards}
        return values | {"after": after + len(cards)}


def live_analyses(site: Site) -> Sequence[LiveAnalysis]:
    """Return the running analyses, and the interrupted analyses of runs without a report.

    The result is empty if the store cannot be read, if the site is a bundle, or if the site shows only some of the
    reports.
    """
    if site.is_static or site.reports.scope != Scope() or not site.workspace.has_store:
        return ()
    reported = {report.run for report in site.reports.all}
    try:
        store = site.workspace.store.analyses
        analyses = [
            LiveAnalysis(analysis, _holder(analysis, store.holder), analysis.run_id in reported)
            for analysis in store.running()
        ]
    except EvalscribeError:
        return ()
    return [live for live in analyses if live.holder or not live.has_report]


def _holder(analysis: RunningAnalysis, holder: Callable[[str], str | None]) -> str | None:
    """Describe the process that holds the run's lock, or return None if that process does not carry out the analysis.

    Other processes can also lock the run.
    """
    described = holder(analysis.run_id)
    # The space after the number keeps process 12 apart from process 123.
    return described if described and f"{described} ".startswith(f"process {analysis.process} ") else None
