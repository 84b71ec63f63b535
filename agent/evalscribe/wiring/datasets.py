"""What use cases of datasets work with."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from evalscribe.app.datasets.of_runs import RunShelves
from evalscribe.ports import Datasets, ItemRows
from evalscribe.settings import Options, Settings
from evalscribe.sources.items import Columns
from evalscribe.wiring import settings
from evalscribe.wiring.experiments import datasets, experiment_runs, now
from evalscribe.wiring.stores import archive, store

if TYPE_CHECKING:
    from evalscribe.app.datasets.from_reviews import ReviewDesk

__all__ = ["Columns", "item_file", "now", "open_datasets", "open_review_desk", "open_run_shelves"]
STANDARD_INPUT = "-"


@contextmanager
def open_datasets() -> Iterator[Datasets]:
    """The workspace's, closed at the end."""
    with closing(datasets(settings(Options()))) as opened:
        yield opened


@contextmanager
def open_run_shelves() -> Iterator[RunShelves]:
    """With all places where runs are."""
    found: Settings = settings(Options())
    with ExitStack() as stack:
        yield RunShelves(
            store=stack.enter_context(closing(store(found))),
            archive=stack.enter_context(closing(archive(found))),
            runs=stack.enter_context(closing(experiment_runs(found))),
            datasets=stack.enter_context(closing(datasets(found))),
        )


@contextmanager
def open_review_desk(reports: Path | None) -> Iterator["ReviewDesk"]:
    """With the reports in which people gave labels."""
    from evalscribe.app.datasets.from_reviews import ReviewDesk
    from evalscribe.wiring import library

    found = settings(Options(reports=reports))
    with ExitStack() as stack:
        yield ReviewDesk(
            library=library(found),
            store=stack.enter_context(closing(store(found))),
            archive=stack.enter_context(closing(archive(found))),
            datasets=stack.enter_context(closing(datasets(found))),
        )


@contextmanager
def item_file(file: str, columns: Columns | None = None) -> Iterator[tuple[str, Callable[[], ItemRows]]]:
    """How a file is called, and how to read it, as often as wanted. `-`: what standard input gives, kept meanwhile."""
    from evalscribe.sources.items import open_csv, open_items

    with ExitStack() as stack:
        path, name = Path(file), file
        if file == STANDARD_INPUT:
            path = Path(stack.enter_context(TemporaryDirectory(prefix="evalscribe-"))) / "stdin"
            name = path.name
            with path.open("wb") as kept:
                copyfileobj(sys.stdin.buffer, kept)
        yield name, (lambda: open_csv(path, name, columns) if columns else open_items(path, name))
