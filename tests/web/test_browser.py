"""Every page in a real browser, served and as files: no errors, no external requests, accessible."""

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


def folder_url(folder: Path) -> str:
    return f"{folder.resolve().as_uri()}/"


def test_every_served_page_is_accessible_and_fits_narrow_screens(page: ServedPage, visit: Visit) -> None:
    """Check the light and dark colour schemes and a width of 400 px."""
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


def test_every_bundle_file_opens_without_a_server(bundle: Path, visit: Visit) -> None:
    opened = set(walk(visit(folder_url(bundle))))
    written = {path.resolve().as_uri() for path in bundle.rglob("*.html")}
    assert opened == written, "a page that no link leads to, or a link to no page"


def test_bundle_is_readable_without_javascript(bundle: Path, visit: Visit) -> None:
    with_script, without = visit(folder_url(bundle)), visit(folder_url(bundle), java_script_enabled=False)
    for address in walk(without):
        with_script.go(address)
        read = [visitor.page.locator("main").inner_text() for visitor in (with_script, without)]
        assert read[0] == read[1], address
        assert not without.page.locator("form.note, .decide, #pending").count()


def test_permalink_opens_the_cited_line(bundle: Path, page: ServedPage, visit: Visit) -> None:
    """`#run/eval/finding/line` opens the line on the eval's page; the run id may be abbreviated."""
    served = visit(page.base)
    served.go(page.address)
    for visitor in (visit(folder_url(bundle)), served):
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


def test_bundle_has_no_editing_controls(bundle: Path) -> None:
    for path in bundle.rglob("*.html"):
        text = path.read_text("utf-8")
        assert "evalscribe-token" not in text
        assert "data-live" not in text
        assert "data-editable" not in text


def test_pending_change_is_shown_and_its_command_commits_it(sample: Path, page: ServedPage, visit: Visit) -> None:
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
