"""The complete site, and bundles. A bundle is the site written as files that open without a server."""

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
"""Name of the file that lists the top-level names of a bundle. Only the files and folders in this list are removed."""


def open_site(workspace: Workspace, scope: Scope, *, token: str | None = None) -> Site:
    """Return the site with all sections. Takes the same arguments as `Site`."""
    return Site(workspace, ALL_PAGES, scope, token=token)


class WrittenBundle(Frozen):
    pages: int
    size: int
    """Total size of all files, in bytes."""


def write_bundle(workspace: Workspace, scope: Scope, folder: Path) -> WrittenBundle:
    """Write every page of the scope into a folder, replacing an earlier bundle there.

    Raises:
        DataError: The folder contains files that do not belong to a bundle.
        AccessError: The folder cannot be written.
        UnavailableError: The disk is full.
    """
    # Inside the folder, because files can be moved into place by renaming only within one file system.
    new = folder / f".{MARK}.new"
    try:
        old = _old_names(folder)
        shutil.rmtree(new, ignore_errors=True)
        try:
            written = _write(open_site(workspace, scope), new)
            for name in old - {MARK}:  # Keep the old mark until the end, in case the process is interrupted.
                _remove(folder / name)
            # The new mark comes first. If the process is interrupted, the mark lists all files in the folder, so that
            # the next start can replace them.
            for name in sorted((path.name for path in new.iterdir()), key=lambda name: name != MARK):
                (new / name).replace(folder / name)
        finally:
            shutil.rmtree(new, ignore_errors=True)
    except OSError as error:
        raise write_error(f"cannot write {folder}", error) from error
    return written


def _old_names(folder: Path) -> set[str]:
    """Return the names of the top-level files and folders of an earlier bundle.

    Raises `DataError` if the folder contains anything else.
    """
    if not folder.exists():
        return set()
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder; give a new folder or an earlier bundle")
    mark = folder / MARK
    expected = {MARK, *mark.read_text("utf-8").split("\n")} if mark.is_file() else set()
    names = {path.name for path in folder.iterdir()} - {f".{MARK}.new"}
    # Files that people add to a bundle must not be removed, for example the `.git` of the branch from which it is
    # published, or a web host's configuration.
    if more := sorted(names - expected):
        raise DataError(
            f"{folder} has files that do not belong to a bundle, such as {more[0]}; name a new folder or the "
            "folder of an earlier bundle"
        )
    return names


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


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
    names = sorted(path.name for path in folder.iterdir())
    (folder / MARK).write_text("".join(f"{name}\n" for name in names), "utf-8")
    return WrittenBundle(pages=pages, size=size)
