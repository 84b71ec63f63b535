"""The six real runs analysed with the rules: every citation is verified and every report parses back."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from evalscribe.model.analysis import Analysis, analysis_from_report
from evalscribe.reports.page_checks import check_page, outside_fences, quotations
from evalscribe.reports.reading import PageSource
from evalscribe.reports.snippets import Quoted
from support.command import NEXT, Workspace
from support.real_runs import failures, run_folders
from support.report_pages import report_at

MOST_BYTES, MOST_LINES = 37_700, 671
"""Half the size of the six reports before the page was shortened: 75.4 kB and 1,342 lines."""
FEWEST_WORDS = 4
"""Minimum words for a text between full stops, semicolons and bars to count as a sentence."""


@pytest.fixture
def in_turn(workspace: Workspace, real_data: Path) -> dict[str, Analysis]:
    """Analyse every run into one reports folder, as a maintainer would."""
    return {
        folder.name: Analysis.model_validate_json(
            workspace.run("analyze", folder, "--judge", "rules", "--json", "--date", "2026-11-02").out
        )
        for folder in run_folders(real_data)
    }


def test_every_real_run_is_analysed_with_verified_citations(
    in_turn: dict[str, Analysis], workspace: Workspace, real_data: Path
) -> None:
    assert sum(len(document.findings) for document in in_turn.values()) == 146
    assert not any(finding.unclassified for document in in_turn.values() for finding in document.findings)
    assert len(workspace.reports) == 6
    lines = {(e.eval.id, d.role, d.path): d.text.split("\n") for e in failures(real_data) for d in e.documents}
    for document in in_turn.values():
        assert document.report_path
        report = report_at(Path(document.report_path))
        assert analysis_from_report(report).run.model_dump() == {**document.run.model_dump()}
        assert [f.classification for f in analysis_from_report(report).findings] == [
            f.classification for f in document.findings
        ]
        printed = [snippet for entry in report.entries for snippet in entry.snippets]
        assert {snippet.status for snippet in printed} <= {"verified"}
        for finding in document.findings:
            for cited in finding.citations:
                assert cited.status == "verified"
                of_group = [f.eval_id for f in document.findings if f.group == finding.group]
                texts = [lines.get((eval_id, cited.role, cited.path)) for eval_id in of_group if eval_id]
                assert any(text and "\n".join(text[cited.first - 1 : cited.last]) == cited.text for text in texts)


def test_reports_are_short_and_repeat_no_sentence_three_times(
    in_turn: dict[str, Analysis], workspace: Workspace
) -> None:
    pages = [path.read_bytes() for path in workspace.reports]
    assert len(pages) == len(in_turn)
    assert sum(map(len, pages)) <= MOST_BYTES
    assert sum(page.count(b"\n") for page in pages) <= MOST_LINES
    for page in pages:
        counts = Counter(sentences(page.decode()))
        assert {text: count for text, count in counts.items() if count > 2} == {}


def sentences(page: str) -> Iterator[str]:
    for _, line in outside_fences(page):
        for part in re.split(r"(?<=[.;]) |\|| · ", line):
            if len(part.split()) >= FEWEST_WORDS:
                yield " ".join(part.split())


def test_every_finding_and_quotation_is_on_the_page(in_turn: dict[str, Analysis], workspace: Workspace) -> None:
    """The short page drops no finding, step, label, recommendation, pattern or quotation of the data."""
    for path in workspace.reports:
        text = path.read_text("utf-8")
        source = PageSource(name=path.name, text=text, data=path.with_suffix(".json").read_text("utf-8"))
        report, parts, problems = check_page(source, path.name, lambda _: True)
        assert report is not None
        assert not problems
        for entry, part in zip(report.entries, parts, strict=True):
            body = "\n".join(part.lines)
            assert [spot(quoted) for quoted in quotations(part)] == [
                (one.role, one.path, one.first, one.last, "".join(one.text.split())) for one in entry.snippets
            ]
            assert f"**{entry.classification}**" in body
            assert entry.step is None or f" · {entry.step}" in body
            assert all(eval.path.rpartition("/")[2] in body for eval in entry.evals)
        assert all(item.text.rstrip(".")[1:] in text for item in report.recommendations)
        headings = re.findall(r"^## (.*)", text, re.MULTILINE)
        assert headings == [
            *(["Recommendations"] if report.recommendations else []),
            "Failures",
            *(["Patterns"] if "## Patterns" in text else []),
            "Net impact",
            "Actions taken",
        ]


def spot(quoted: Quoted) -> tuple[str, str, int, int, str]:
    one = quoted.snippet
    return one.role, one.path, one.first, quoted.last, "".join(one.text.split())


def test_second_analysis_leaves_the_report_unchanged(workspace: Workspace, real_data: Path) -> None:
    folder = run_folders(real_data)[0]
    first = workspace.run("analyze", folder, "--judge", "rules").out
    before = workspace.report.stat().st_mtime_ns
    again = workspace.run("analyze", folder, "--judge", "rules").out
    assert workspace.report.stat().st_mtime_ns == before
    assert again.splitlines()[-1].startswith(NEXT)
    assert first.replace("new, revision 1", "unchanged") == again


def test_failure_shared_by_all_evals_is_one_entry(workspace: Workspace, real_data: Path) -> None:
    document = json.loads(
        workspace.run("analyze", real_data / "convex-runs" / "jn70vkj7", "--judge", "rules", "--json").out
    )
    assert len({finding["group"] for finding in document["findings"]}) == 1
    assert {finding["cause_kind"] for finding in document["findings"]} == {"infrastructure"}
    text = workspace.report.read_text()
    assert "no eval could be scored" in text
    assert text.count("### 1. 72 evals\n**KNOWN_GAP** (infrastructure)") == 1
