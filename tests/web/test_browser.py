"""Every page in a real browser, served and as files: no error, no request elsewhere, readable by everybody."""

import subprocess
from pathlib import Path

import pytest

from support.browser import walk
from support.command import Workspace
from support.repository_states import git
from support.served_page import ServedPage
from web.conftest import Visit


@pytest.fixture(scope="session")
def bundle(analyzed_sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages") / "bundle"
    Workspace(analyzed_sample).run("view", "--bundle", folder)
    return folder


def address_of(folder: Path) -> str:
    return f"{folder.resolve().as_uri()}/"


def test_every_served_page_is_sound_and_accessible(page: ServedPage, visit: Visit) -> None:
    """In light, in dark, and 400 px wide."""
    visitor = visit(page.base)
    visitor.go(page.address)
    findings, wide, pages = [], [], []
    for address in walk(visitor):
        pages.append(address.removeprefix(page.base))
        findings += visitor.axe()
        visitor.page.emulate_media(color_scheme="dark")
        findings += visitor.axe("color-contrast")
        visitor.page.emulate_media(color_scheme="light")
        visitor.page.set_viewport_size({"width": 400, "height": 800})
        findings += visitor.axe("scrollable-region-focusable", "meta-viewport")
        if visitor.page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"):
            wide.append(address)
        visitor.page.set_viewport_size({"width": 1280, "height": 800})
    assert {"index.html", "runs.html", "tasks.html"} <= set(pages)
    assert findings == []
    assert wide == [], "the whole page scrolls sideways"


def test_every_file_of_a_bundle_opens_without_a_server(bundle: Path, visit: Visit) -> None:
    opened = set(walk(visit(address_of(bundle))))
    written = {path.resolve().as_uri() for path in bundle.rglob("*.html")}
    assert opened == written, "a page that no link leads to, or a link to no page"


def test_a_bundle_can_be_read_without_javascript(bundle: Path, visit: Visit) -> None:
    with_script, without = visit(address_of(bundle)), visit(address_of(bundle), java_script_enabled=False)
    for address in walk(without):
        with_script.go(address)
        read = [visitor.page.locator("main").inner_text() for visitor in (with_script, without)]
        assert read[0] == read[1], address
        assert not without.page.locator("form.note, .decide, #pending").count()


def test_a_lasting_link_leads_to_the_evidence(bundle: Path, page: ServedPage, visit: Visit) -> None:
    """`#run/eval/finding/line`, with the run's id or its beginning, opens the line on the page of the eval."""
    served = visit(page.base)
    served.go(page.address)
    for visitor in (visit(address_of(bundle)), served):
        visitor.go("index.html")
        card = visitor.page.locator("article.card", has=visitor.page.locator(".quotation a")).first
        quotation = card.locator(".quotation a").first
        target, line = str(quotation.evaluate("link => link.href")), quotation.inner_text()
        run, evaluation, n = (str(card.get_attribute(f"data-{name}")) for name in ("run", "eval", "n"))
        for name in (run, run[:8]):
            visitor.page.goto("about:blank")
            fragment = "/".join(part.replace("/", "%2F") for part in (name, evaluation, n, line))
            visitor.go(f"index.html#{fragment}")
            visitor.page.wait_for_url(target)


def test_a_bundle_of_a_report_has_nothing_to_change(bundle: Path) -> None:
    for path in bundle.rglob("*.html"):
        text = path.read_text("utf-8")
        assert "evalscribe-token" not in text
        assert "data-live" not in text
        assert "data-editable" not in text


def test_the_page_shows_a_pending_change_and_the_command_commits_it(
    sample: Path, page: ServedPage, visit: Visit
) -> None:
    visitor = visit(page.base)
    visitor.go(page.address)
    visitor.page.locator("article.card").first.get_by_role("button", name="KNOWN_GAP").click()
    visitor.page.locator("#pending summary", has_text="1 report changed").click()
    command = visitor.page.locator("#pending code.command")
    command.wait_for()
    assert "+**KNOWN_GAP**" in visitor.page.locator("#pending pre").inner_text()
    subprocess.run(["sh", "-c", command.inner_text()], cwd=sample, check=True, capture_output=True)
    assert git(sample, "status", "--porcelain", "reports") == ""
    assert git(sample, "log", "-1", "--format=%s") == "Review findings\n"
