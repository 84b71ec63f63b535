"""The whole site, and how it is written as files that open without a server."""

import shutil
from pathlib import Path

from evalscribe.errors import DataError, write_error
from evalscribe.ids import Frozen
from evalscribe.web.app import STATIC
from evalscribe.web.collections import CollectionPages
from evalscribe.web.comparison import ComparisonPages
from evalscribe.web.evidence import EvidencePages
from evalscribe.web.experiments import ExperimentPages
from evalscribe.web.inbox import InboxPages
from evalscribe.web.judges import AccuracyPages, RubricPages
from evalscribe.web.live import LivePages
from evalscribe.web.report_index import Scope
from evalscribe.web.runs import RunPages
from evalscribe.web.site import Site
from evalscribe.web.tasks import TaskPages
from evalscribe.workspace import Workspace

ALL_PAGES = (
    InboxPages,
    RunPages,
    EvidencePages,
    TaskPages,
    ComparisonPages,
    CollectionPages,
    RubricPages,
    AccuracyPages,
    LivePages,
    ExperimentPages,
)
"""The sections of the site."""
MARK = "evalscribe-bundle"
"""Name of a file that a bundle has, so that a folder with other files is never overwritten."""


def open_site(workspace: Workspace, scope: Scope, *, token: str | None = None) -> Site:
    """Return the site with all sections. The arguments are those of `Site`."""
    return Site(workspace, ALL_PAGES, scope, token=token)


class WrittenBundle(Frozen):
    pages: int
    size: int
    """Bytes of all files."""


def write_bundle(workspace: Workspace, scope: Scope, folder: Path) -> WrittenBundle:
    """Write every page of the scope; replaces an earlier bundle in the folder.

    Raises:
        DataError: The folder has files that are not a bundle.
        AccessError: The folder cannot be written.
        UnavailableError: The disk is full.
    """
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())) and not (folder / MARK).is_file():
            raise DataError(f"{folder} has other files; give a new folder or an earlier bundle")
        new = folder.with_name(f".{folder.name}.new")
        shutil.rmtree(new, ignore_errors=True)
        written = _write(open_site(workspace, scope), new)
        if folder.exists():
            shutil.rmtree(folder)
        new.replace(folder)
    except OSError as error:
        raise write_error(f"cannot write {folder}", error) from error
    return written


def _write(site: Site, folder: Path) -> WrittenBundle:
    pages = size = 0
    for path in dict.fromkeys(site.paths()):
        text = site.render(path).encode()
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text)
        pages, size = pages + 1, size + len(text)
    static = folder / "static"
    static.mkdir(parents=True)
    for name in STATIC:
        shutil.copyfile(Path(__file__).with_name("static") / name, static / name)
        size += (static / name).stat().st_size
    (folder / MARK).write_text("Pages written by evalscribe view --bundle.\n", "utf-8")
    return WrittenBundle(pages=pages, size=size)
