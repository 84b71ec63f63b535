"""Where labelled subjects are: in a file of JSON lines, or in a version of a dataset."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from evalscribe.app.datasets.found import found, version_named
from evalscribe.app.named import LATEST
from evalscribe.errors import DataError, NotFoundError
from evalscribe.ids import canonical_json
from evalscribe.model.dataset import Dataset, Item
from evalscribe.model.experiment_storage import Datasets
from evalscribe.workspace import Workspace

_NAMED = re.compile(r"(?P<name>.+?)(?:@(?P<version>[^@:]+))?(?::(?P<split>[^@:]+))?")


@dataclass(frozen=True)
class LabelledSource:
    name: str
    """As it is told, before the number of a line."""
    folder: Path
    """What files of subjects are relative to."""
    lines: tuple[tuple[int, str], ...]
    """JSON texts of a subject with its label, each with its line or its item's place, from 1."""


def labelled(workspace: Workspace, named: str, key: str) -> LabelledSource:
    """A file, else `NAME[@V][:SPLIT]` of a dataset, whose labels are called `key`.

    Raises `NotFoundError` where there is neither, `DataError`.
    """
    path = Path(named)
    if path.exists() or path.suffix in (".jsonl", ".json") or "/" in named:
        return of_file(path)
    try:
        return of_dataset(workspace.store.datasets, named, key)
    except NotFoundError as error:
        raise NotFoundError(f"there is no file {named}, and {error}") from None


def of_file(path: Path) -> LabelledSource:
    """Raises `NotFoundError` for no file, `DataError` for one that is no text."""
    lines = tuple((number, text) for number, text in enumerate(_read(path).split("\n"), 1) if text.strip())
    return LabelledSource(str(path), path.parent, lines)


def of_dataset(datasets: Datasets, named: str, key: str) -> LabelledSource:
    """The items of `NAME[@V][:SPLIT]`: the input is the subject; the expected output is its label, or holds it as `key`
    or `label`.

    Raises `NotFoundError` naming what there is.
    """
    dataset, version_name, split = _parts(datasets, named)
    version = version_named(datasets, dataset, version_name or LATEST)
    lines = tuple(_lines(datasets.items(version.id), split, key))
    if not lines:
        raise NotFoundError(f"{dataset.name}@{version.number} has no item of the split {split!r}")
    return LabelledSource(f"{dataset.name}@{version.number}{f':{split}' if split else ''}", Path(), lines)


def _parts(datasets: Datasets, named: str) -> tuple[Dataset, str | None, str | None]:
    """A whole name comes before one with a version or a split."""
    if whole := datasets.find(named):
        return whole, None, None
    match = _NAMED.fullmatch(named)
    if match is None:
        return found(datasets, named), None, None
    return found(datasets, match["name"]), match["version"], match["split"]


def _lines(items: Iterator[Item], split: str | None, key: str) -> Iterator[tuple[int, str]]:
    for number, item in enumerate(items, 1):
        if split is None or item.split == split:
            yield number, canonical_json({"subject": item.input, **_label(item.expected_output, key)})


def _label(expected: JsonValue, key: str) -> dict[str, JsonValue]:
    if isinstance(expected, dict):
        return next(({"label": expected[name]} for name in (key, "label") if name in expected), {})
    return {} if expected is None else {"label": expected}


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError:
        raise DataError(f"{path} is no text in UTF-8") from None
    except OSError as error:
        raise NotFoundError(f"{path} cannot be read: {error.strerror}") from None
