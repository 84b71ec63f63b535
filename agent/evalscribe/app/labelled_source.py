"""Where labelled subjects are: in a file of JSON lines, or in a version of a dataset."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from evalscribe.app.datasets.found import LATEST, found, version_named
from evalscribe.dataset import Dataset, Item
from evalscribe.errors import DataError, NotFoundError
from evalscribe.ids import canonical_json
from evalscribe.ports import Datasets

_NAMED = re.compile(r"(?P<name>.+?)(?:@(?P<version>[^@:]+))?(?::(?P<split>[^@:]+))?")


@dataclass(frozen=True)
class LabelledSource:
    name: str
    """As it is told, before the number of a line."""
    folder: Path
    """What files of subjects are relative to."""
    lines: tuple[tuple[int, str], ...]
    """JSON texts of a subject with its label, each with its line or its item's place, from 1."""


def of_file(path: Path) -> LabelledSource:
    """Raises `NotFoundError` for no file, `DataError` for one that is no text."""
    lines = tuple((number, text) for number, text in enumerate(_read(path).split("\n"), 1) if text.strip())
    return LabelledSource(str(path), path.parent, lines)


def of_dataset(datasets: Datasets, named: str) -> LabelledSource:
    """The items of `NAME[@V][:SPLIT]`: the input is the subject, the expected output holds its label.

    Raises `NotFoundError` naming what there is.
    """
    dataset, version_name, split = _parts(datasets, named)
    version = version_named(datasets, dataset, version_name or LATEST)
    lines = tuple(_lines(datasets.items(version.id), split))
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


def _lines(items: Iterator[Item], split: str | None) -> Iterator[tuple[int, str]]:
    for number, item in enumerate(items, 1):
        if split is None or item.split == split:
            expected = item.expected_output if isinstance(item.expected_output, dict) else {}
            label = {"label": expected["label"]} if "label" in expected else {}
            yield number, canonical_json({"subject": item.input, **label})


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError:
        raise DataError(f"{path} is no text in UTF-8") from None
    except OSError as error:
        raise NotFoundError(f"{path} cannot be read: {error.strerror}") from None
