"""Write small reports for tests of the web pages, and read tables from the pages."""

import re
from functools import lru_cache
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

from evalscribe.ids import path_part
from evalscribe.model.analysis import analysis_from_report
from evalscribe.model.report import EvalRef, JudgeLabel, Report, ReportEntry, RunHeader
from evalscribe.reports.data import write_data
from evalscribe.reports.page import render
from evalscribe.sample import checkpoints_file
from evalscribe.settings import Options
from evalscribe.web.bundle import open_site
from evalscribe.web.report_index import Scope
from evalscribe.web.site import Site
from evalscribe.workspace import Workspace
from support.fork_server import fork_server
from support.waiting import PATIENCE_S

CHECKPOINTS = ("room-desk-c1", "room-desk-c2")
HOSTILE = "<script>alert(1)</script>'\"\u202e\x00/../x onload=1"


class Markup(HTMLParser):
    """Collects the elements of a page and the names of their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.scripts = 0
        self.attributes: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        self.attributes |= {name for name, _ in attrs}


def assert_only_own_markup(page: str) -> None:
    """Check that a page has exactly one script, no event handlers, no inline styles and no invisible characters."""
    markup = Markup(page)
    assert markup.scripts == 1
    assert not {name for name in markup.attributes if name.startswith("on") or name == "style"}
    assert not {"\u202e", "\x00"}.intersection(page)


class Cells(HTMLParser):
    """Collects the text of the cells of a page's tables, by row."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self._inside = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
            self._inside = True

    def handle_endtag(self, tag: str) -> None:
        self._inside = self._inside and tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.tables[-1][-1][-1] += data


def matrix(page: str) -> dict[str, list[str]]:
    """Return the texts of each task's cells in the matrix, keyed by task."""
    rows = Cells(page).tables[-1][2:]
    tasks = re.findall(r'<th scope="row"><bdi>([^<]*)</bdi>', page.partition('class="matrix"')[2])
    return {unescape(task): [cell.strip() for cell in row[1:]] for task, row in zip(tasks, rows, strict=True)}


def links(page: str) -> list[str]:
    return re.findall(r'href="([^"#?]+)', page)


def entry(path: str, label: str | None = "MODEL_FAULT", **changes: object) -> ReportEntry:
    """Build a finding about one eval. Without a label, it is a finding that no judge could decide."""
    judge = JudgeLabel(id="rules@1", classification=label, confidence=0.9) if label else None
    basic = {"evals": (EvalRef(path=path),), "classification": label, "cause": "wrong-sum", "cause_kind": "model"}
    return ReportEntry(**{**basic, "judge": judge, "why": f"why {path}", "reasoning": "It fails.", **changes})


def write(folder: Path, *entries: ReportEntry, run: str = "run1abcdef", **changes: object) -> None:
    """Write a report of a run with these failures and one passed eval. `changes` replaces fields of the report."""
    number = len(entries)
    header = RunHeader(
        id=run, provider="p", model="m", experiment="e", passed=1, failed=number, total=1 + number, listed=number
    )
    report = Report(**{"run": header, "date": "2026-11-01", "judges": ("rules@1",), "entries": entries, **changes})
    with Workspace(Options(reports=folder)) as workspace:
        name = f"p/m/{path_part(run)[:8]}_{report.date}.md"
        workspace.reports.write_report(name, render(report), write_data(analysis_from_report(report)))


@lru_cache
def analysed_sample(base: Path) -> Path:
    """Create a workspace with the analysed sample and both checkpoints, in the store and as reports."""
    folder = base / "analysed-sample"
    folder.mkdir()
    commands = [["analyze", "sample"], ["import", str(checkpoints_file())], *(["analyze", run] for run in CHECKPOINTS)]
    for command in commands:
        judge = ["--judge", "rules"] if command[0] == "analyze" else []
        program = ["-m", "evalscribe", *command, *judge, "--quiet"]
        fork_server.run(program, folder, timeout=PATIENCE_S).check_returncode()
    return folder


def site(folder: Path, scope: Scope | None = None, *, token: str | None = "t") -> Site:
    """Open the site for a folder of reports, without a store. If `token` is None, the site is a bundle."""
    return open_site(Workspace(Options(reports=folder), folder=folder, environ={}), scope or Scope(), token=token)
