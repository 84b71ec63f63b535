"""Fixtures: a repository with the reports of the sample, a browser, and a running server."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from support.browser import Visitor, running_browser
from support.command import Workspace
from support.repository_states import git
from support.served_page import ServedPage, serving

Visit = Callable[..., Visitor]


@pytest.fixture(scope="session")
def analyzed_sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with the reports of the sample, committed. Copy it before changing anything."""
    folder = tmp_path_factory.mktemp("sample")
    git(folder, "init", "-q")
    git(folder, "config", "user.name", "Ada")
    git(folder, "config", "user.email", "ada@x.example")
    Workspace(folder).run("analyze", "sample", "--judge", "rules", "--date", "2026-11-02")
    git(folder, "add", "-A", "reports")
    git(folder, "commit", "-q", "-m", "reports")
    return folder


@pytest.fixture
def sample(analyzed_sample: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(analyzed_sample, tmp_path / "sample"))


@pytest.fixture
def page(sample: Path) -> Iterator[ServedPage]:
    """A server that shows the reports of the sample."""
    with serving(sample) as served:
        yield served


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with running_browser(tmp_path_factory.mktemp("browser")) as browser:
        yield browser


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visit]:
    """A function that opens browser contexts; teardown fails if any of them recorded a problem."""
    visitors: list[Visitor] = []

    def visit(allowed: str, **options: Any) -> Visitor:
        visitors.append(Visitor(browser, allowed, **options))
        return visitors[-1]

    yield visit
    problems = [problem for visitor in visitors for problem in visitor.problems]
    for visitor in visitors:
        visitor.close()
    assert problems == []
