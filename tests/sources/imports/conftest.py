"""Fixtures that import a file and collect the result."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from evalscribe.model.record import Record, TableReading
from evalscribe.model.run import Run
from evalscribe.sources.address import RunOverrides
from evalscribe.sources.formats import open_records


@dataclass(frozen=True)
class Read:
    """Result of importing a file."""

    format: str
    run: Run
    records: list[Record]
    left_out: dict[str, int] = field(default_factory=dict)
    lost: Sequence[str] = ()
    table: TableReading | None = None

    @property
    def told(self) -> str:
        """Run, records and omissions as JSON, with the content-based run id replaced by `RUN`."""
        dumped = [self.run.model_dump(mode="json"), *(one.model_dump(mode="json") for one in self.records)]
        return json.dumps([dumped, self.left_out], ensure_ascii=False).replace(self.run.id, "RUN")


def read(path: Path, **overrides: str) -> Read:
    records = open_records(path, RunOverrides(**overrides))
    run, *rest = list(records.read())
    assert isinstance(run, Run)
    assert all(isinstance(one, Record) for one in rest)
    read = [one for one in rest if isinstance(one, Record)]
    return Read(records.format, run, read, dict(records.left_out), records.lost, records.table)


@pytest.fixture
def read_file() -> Callable[..., Read]:
    return read


@pytest.fixture
def read_value(tmp_path: Path) -> Callable[..., Read]:
    """Return a function that writes a value to a JSON file and imports it."""

    def read_it(value: object, **overrides: str) -> Read:
        path = tmp_path / "given.json"
        path.write_text(json.dumps(value))
        return read(path, **overrides)

    return read_it


@pytest.fixture
def leaves() -> Callable[[object], Iterator[tuple[str, object]]]:
    """Return a function that yields, for each leaf, its path and a copy of the value with that leaf changed."""

    def changed(value: object, place: str = "") -> Iterator[tuple[str, object]]:
        if isinstance(value, dict):
            for key, inner in value.items():
                for where, other in changed(inner, f"{place}.{key}"):
                    yield where, {**value, key: other}
        elif isinstance(value, list):
            for n, inner in enumerate(value):
                for where, other in changed(inner, f"{place}[{n}]"):
                    yield where, [*value[:n], other, *value[n + 1 :]]
        else:
            yield place, _other(value)

    return changed


def _other(leaf: object) -> object:
    if isinstance(leaf, bool):
        return not leaf
    if isinstance(leaf, int | float):
        return leaf + 7
    return f"{leaf} changed"
