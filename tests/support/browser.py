"""Open pages in Debian's Chromium with Playwright, and record problems such as errors and requests to other hosts."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urldefrag, urljoin

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Error, Page, Request, sync_playwright

from support.requirements import skip_or_fail
from support.waiting import PATIENCE_S

PROGRAM = "chromium"
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Only this machine's host names resolve, so that a page that loads anything else fails without reaching it.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
)
SERIOUS = ("serious", "critical")
"""Impacts of axe findings that make a test fail."""


@contextmanager
def running_browser(home: Path) -> Iterator[Browser]:
    """Start the browser with a new home folder, or skip the test if it is not installed.

    Do not use one browser for a whole session. While it runs, this thread has a running event loop, and asynchronous
    tests cannot start.
    """
    program = shutil.which(PROGRAM)
    if program is None:
        skip_or_fail("chromium")
    with sync_playwright() as playwright:
        environment = {**os.environ, "HOME": str(home)}
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS, env=environment)
        yield browser
        browser.close()


class Visitor:
    """A browser context with one page. It records errors and forbidden requests as problems."""

    def __init__(self, browser: Browser, allowed: str, **options: Any) -> None:
        """Open a page.

        Args:
            browser: The browser.
            allowed: Beginning of the addresses that pages may request.
            options: Options of Playwright's context, such as `color_scheme`.
        """
        self.allowed = allowed
        self.problems: list[str] = []
        """Console errors and warnings, script errors, failed requests, and requests that are not allowed."""
        self.context: BrowserContext = browser.new_context(**options)
        self.context.set_default_timeout(PATIENCE_S * 1000)
        self.context.on("page", lambda page: page.on("pageerror", lambda error: self._note(f"script: {error}")))
        self.context.on("console", self._console)
        self.context.on("request", self._requested)
        self.context.on("requestfailed", self._failed)
        self.page: Page = self.context.new_page()

    def go(self, address: str) -> int:
        """Open an address relative to `allowed` and return the status of the response. It is 404 for a missing file."""
        try:
            answer = self.page.goto(urljoin(self.allowed, address))
        except Error as error:
            if "ERR_FILE_NOT_FOUND" in error.message:
                return 404
            raise
        return answer.status if answer and answer.status else 200

    def links(self) -> Iterator[str]:
        """Yield the addresses below `allowed` to which the page links, without fragments."""
        for address in self.page.eval_on_selector_all("a[href]", "all => all.map(a => a.href)"):
            target = urldefrag(address)[0]
            if target.startswith(self.allowed):
                yield target

    def axe(self, *rules: str) -> list[str]:
        """Return the serious axe findings on the page, one line each. If no rule is named, all rules are checked."""
        # Evaluated code runs although the page's content security policy blocks scripts. The policy stays in force.
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(AXE_SCRIPT)
        # Without `preload`, because it loads the style sheets again.
        options = {"resultTypes": ["violations"], "preload": False, **({"runOnly": list(rules)} if rules else {})}
        answer = self.page.evaluate("options => axe.run(document, options)", options)
        return [
            f"{self.page.url} {found['id']}: {node['html'][:200]}"
            for found in answer["violations"]
            if found["impact"] in SERIOUS
            for node in found["nodes"][:3]
        ]

    def close(self) -> None:
        self.context.close()

    def _note(self, problem: str) -> None:
        self.problems.append(f"{problem[:500]}")

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self._note(f"console {message.type} on {message.location.get('url')}: {message.text}")

    def _requested(self, request: Request) -> None:
        if not request.url.startswith(self.allowed):
            self._note(f"request to {request.url}")

    def _failed(self, request: Request) -> None:
        # The browser aborts pending requests of a page when another page is opened.
        if request.failure != "net::ERR_ABORTED":
            self._note(f"failed: {request.url}: {request.failure}")


def walk(visitor: Visitor, first: Sequence[str] = ("index.html",)) -> Iterator[str]:
    """Open every page that is reachable by links, each once. Yield the address of each page while it is open.

    A link to a missing page is recorded as a problem of the visitor.
    """
    waiting = [urljoin(visitor.allowed, path) for path in first]
    seen = set(waiting)
    while waiting:
        address = waiting.pop(0)
        status = visitor.go(address)
        if status >= 400:
            visitor.problems.append(f"{status}: {address}")
            continue
        for target in visitor.links():
            if target not in seen:
                seen.add(target)
                waiting.append(target)
        yield address
