"""Labelled subjects as the command line names them."""

from contextlib import closing
from pathlib import Path

from evalscribe.app.judging.labelled_source import LabelledSource, of_dataset, of_file
from evalscribe.errors import NotFoundError
from evalscribe.settings import Options
from evalscribe.wiring import settings
from evalscribe.wiring.experiments import datasets


def labelled(named: str, key: str) -> LabelledSource:
    """A file, else `NAME[@V][:SPLIT]` of a dataset, whose labels are called `key`.

    Raises `NotFoundError` where there is neither, `DataError`.
    """
    path = Path(named)
    if path.exists() or path.suffix in (".jsonl", ".json") or "/" in named:
        return of_file(path)
    with closing(datasets(settings(Options()))) as kept:
        try:
            return of_dataset(kept, named, key)
        except NotFoundError as error:
            raise NotFoundError(f"there is no file {named}, and {error}") from None
