"""The accuracy page of judges, from real reports with corrections."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from evalscribe.model.finding import Classification, HumanLabel
from evalscribe.reports.accuracy import accuracy
from evalscribe.reports.corrections import correct_label
from evalscribe.web.bundle import open_site, write_bundle
from evalscribe.web.report_index import Scope
from evalscribe.web.site import Site
from evalscribe.workspace import Workspace
from support.fork_server import fork_server
from support.page_links import active_parts, broken_links, bundle_pages, parse_page
from support.waiting import PATIENCE_S

HOSTILE = "<img src=x onerror=alert(1)> said"
OTHER: dict[str, Classification] = {"MODEL_FAULT": "KNOWN_GAP"}


@pytest.fixture(scope="module")
def analysed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the report of the rules judge on the sample."""
    folder = tmp_path_factory.mktemp("analysed")
    (folder / "evalscribe.toml").touch()
    program = ["-m", "evalscribe", "analyze", "sample", "--judge", "rules", "--quiet"]
    fork_server.run(program, folder, timeout=PATIENCE_S).check_returncode()
    return folder


@pytest.fixture
def workspace(analysed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workspace]:
    folder = tmp_path / "work"
    shutil.copytree(analysed, folder)
    monkeypatch.chdir(folder)
    with Workspace() as workspace:
        yield workspace


@pytest.fixture
def corrected(workspace: Workspace) -> Workspace:
    """The workspace with the first finding corrected and the second confirmed."""
    site = open_site(workspace, Scope())
    site.reports.refresh()
    report = next(report for report in site.reports.shown if report.editable)
    for number, entry in enumerate(report.entries[:2]):
        judged = entry.first.classification or "MODEL_FAULT"
        label = OTHER.get(judged, "MODEL_FAULT") if number == 0 else judged
        correct_label(workspace, report.name, str(entry.n), label, note=HOSTILE)
    return workspace


def text_of(site: Site, path: str = "accuracy.html") -> str:
    return " ".join(parse_page(site.render(path)).text.split())


def label(n: int, human_label: Classification, confidence: float, reviewer: str = "Ada") -> HumanLabel:
    """Return a human label for a `MODEL_FAULT` verdict of a model judge."""
    return HumanLabel(
        run="r-1",
        provider="p",
        model="m",
        experiment="default",
        eval=f"a/{n}",
        label=human_label,
        reviewer=reviewer,
        email=f"{reviewer}@x.example",
        commit="c",
        date="2026-11-02",
        report="p/m/r-1_2026-11-02.md",
        judge="p/judge",
        judged="MODEL_FAULT",
        confidence=confidence,
        cost_usd=0.01,
    )


def test_page_without_corrections_explains_how_to_make_them(workspace: Workspace) -> None:
    text = text_of(open_site(workspace, Scope(), token="t"))
    assert "Nobody has confirmed or corrected a finding here yet" in text
    assert "evalscribe review label REPORT N LABEL" in text


def test_page_shows_the_measured_accuracy(corrected: Workspace) -> None:
    measured = accuracy(corrected.reports, corrected.store.analyses)
    (row,) = measured.judges
    text = text_of(open_site(corrected, Scope(), token="t"))
    assert f"{row.judge} {row.labelled} {row.agreed} {row.agreement:.2f} [" in text
    assert f"{row.judge}: 1 of 2 confirmed" in text
    assert f"reviewed {measured.coverage.reviewed} of {measured.coverage.findings} failed evals" in text


def test_wrong_verdict_links_to_its_evidence(corrected: Workspace) -> None:
    (row,) = accuracy(corrected.reports, corrected.store.analyses).judges
    (wrong,) = row.wrong
    site = open_site(corrected, Scope(), token="t")
    page = parse_page(site.render("accuracy.html"))
    assert [link for link in page.links if "/eval/" in link] == [
        f"run/{wrong.run}/eval/{wrong.eval.replace('/', '~2f')}.html"
    ]
    assert "<img src=x onerror=alert(1)> said" in page.text
    assert active_parts(page) == []


def test_calibration_is_shown_as_a_curve_and_a_table(workspace: Workspace) -> None:
    labels = [label(1, "MODEL_FAULT", 0.9), label(2, "KNOWN_GAP", 0.95), label(3, "MODEL_FAULT", 0.35)]
    workspace.store.analyses.put_labels({labels[0].report: [*labels, label(1, "MODEL_FAULT", 0.9, "Ben")]})
    site = open_site(workspace, Scope(), token="t")
    html, text = site.render("accuracy.html"), text_of(site)
    assert "<svg" in html
    assert "0.3 to 0.4 0.35 1.00 1" in text
    assert "0.9 to 1.0 0.95 0.00 1" in text
    assert "Calibration error" in text
    assert "Ada and Ben 1 1" in text
    assert "MODEL_FAULT 2 0 1.00" in text
    assert "KNOWN_GAP 1 0 0.00" in text
    assert "a/2" in text


def test_page_of_one_report_measures_only_its_corrections(corrected: Workspace) -> None:
    labels = [label(1, "KNOWN_GAP", 0.9)]
    corrected.store.analyses.put_labels({labels[0].report: labels})
    assert "p/judge" in text_of(open_site(corrected, Scope(), token="t"))
    report = next(report for report in corrected.reports.all() if report.data)
    assert "p/judge" not in text_of(open_site(corrected, Scope(report=report.name), token="t"))


def test_every_bundle_link_resolves(corrected: Workspace, tmp_path: Path) -> None:
    write_bundle(corrected, Scope(), tmp_path / "bundle")
    pages = bundle_pages(tmp_path / "bundle")
    assert "accuracy.html" in pages
    assert list(broken_links(tmp_path / "bundle", pages)) == []
    assert {path: parts for path, page in pages.items() if (parts := active_parts(page))} == {}
