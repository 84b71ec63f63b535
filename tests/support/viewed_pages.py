"""`evalscribe view` in a process of its own, and its pages as a browser with the token gets them."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from http.cookiejar import CookieJar
from urllib.error import HTTPError
from urllib.request import HTTPCookieProcessor, ProxyHandler, build_opener

from support.command import Workspace
from support.waiting import PATIENCE_S


class ViewedPages:
    """The pages at an address that has the token."""

    def __init__(self, address: str) -> None:
        self.base = address.partition("?")[0]
        self._opener = build_opener(ProxyHandler({}), HTTPCookieProcessor(CookieJar()))
        self._opener.open(address, timeout=PATIENCE_S).close()

    def get(self, path: str) -> str:
        """Return a page; empty if there is none."""
        try:
            with self._opener.open(self.base + path, timeout=PATIENCE_S) as answer:
                text: str = answer.read().decode()
                return text
        except HTTPError as missing:
            with missing:
                if missing.code != 404:
                    raise
            return ""


@contextmanager
def viewing(workspace: Workspace) -> Iterator[ViewedPages]:
    """Serve the pages of a folder until the `with` block ends."""
    process = workspace.start("view", "--no-open")
    try:
        assert process.stdout is not None
        address = process.stdout.readline().split()[-1:]
        assert address, process.communicate(timeout=PATIENCE_S)
        yield ViewedPages(address[0])
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE_S)
