"""Every report renders to a page that reads back without edits and in which text from evidence is not markup."""

import re
from urllib.parse import unquote

import yaml
from hypothesis import HealthCheck, given, settings

from evalscribe.model.report import Report, replaced
from evalscribe.reports import labels
from evalscribe.reports.page import KIND, NOTHING, page_digest, render
from evalscribe.reports.page_edits import normalised, parse_page, read_edits
from evalscribe.reports.reading import run_of
from support import generated_reports
from support.inert_pages import assert_inert


def without_people(report: Report) -> Report:
    """Remove the text that people wrote, which may contain links and mentions."""
    entries = tuple(replaced(entry, reviewer=(), notes=()) for entry in report.entries)
    return replaced(report, entries=entries, notes=(), actions_taken="")


@settings(max_examples=50, suppress_health_check=list(HealthCheck))
@given(generated_reports.reports.map(without_people))
def test_text_from_evidence_creates_no_markup(report: Report) -> None:
    """No heading, label, `Reviewer:` line, quotation, HTML, link, mention, image or front matter."""
    page = render(report)
    urls = {unquote(url) for url in (report.run.url, *(ref.url for e in report.entries for ref in e.evals)) if url}
    files = {*report.earlier, *(name for e in report.entries for one in e.each for name in one.recurrence.reports)}
    files |= {one.report for one in report.follow_ups}
    assert_inert(page, len(report.entries), lambda href: unquote(href) in urls | files)
    front = yaml.safe_load(page.split("\n---\n")[0].removeprefix("---\n"))
    assert list(front) == ["kind", "run", "revision", "written"]
    assert (front["kind"], front["run"], run_of(page)) == (KIND, report.run.id, report.run.id)
    parsed = parse_page(page)
    assert [(one.label, one.reviewer) for one in parsed.findings] == [(labels.of(one), ()) for one in report.entries]
    assert not [part for part in parsed.parts if part.kind == "blockquote"]
    assert parsed.actions == NOTHING


@settings(max_examples=50)
@given(generated_reports.reports)
def test_rendered_page_is_read_without_edits(report: Report) -> None:
    page = render(report)
    assert normalised(page) == page
    assert f"\nwritten: {page_digest(page)}\n" in page
    for text in (page, page.replace("\n", "\r\n"), f"\ufeff{page}"):
        edits = read_edits(text, report)
        assert (edits.report, edits.outside_edits) == (report, ())
    assert render(report) == page


@settings(max_examples=25)
@given(generated_reports.reports)
def test_page_with_a_wrong_digest_is_read_without_edits(report: Report) -> None:
    """The digest is wrong, as on an edited page; generated text is still not taken for an edit."""
    page = render(report)
    edits = read_edits(re.sub(r"\nwritten: sha256:..", "\nwritten: sha256:00", page), report)
    assert edits.outside_edits == ()
    assert [entry.classification for entry in edits.report.entries] == [e.classification for e in report.entries]
    assert len(parse_page(page).findings) == len(report.entries)


def test_heading_with_thousands_of_digits_is_no_finding() -> None:
    page = parse_page(f"## Failures\n\n### {'9' * 5_000}. a/b\n\n**MODEL_FAULT**\n")
    assert page.findings == ()
