"""Datasets, their items and versions."""

from typing import Literal

from pydantic import Field, JsonValue

from evalscribe.ids import Frozen, content_id

Provenance = Literal["published", "imported", "derived"]
"""Of a version: published by hand, out of a run that was imported, or made of a run's failures or reviews."""


class Item(Frozen):
    """One example of a dataset."""

    key: str
    """Unique in its dataset; pairs the item with itself in other versions and runs."""
    input: JsonValue
    expected_output: JsonValue = None
    """None (null) where nothing is expected: a scorer that needs one says so, it never compares with null."""
    metadata: dict[str, JsonValue] = Field(default_factory=dict)
    events: tuple[dict[str, JsonValue], ...] = ()
    """A recorded trace, as messages of a transcript; used where a run of an import is scored again, never in place of
    the trace of a fresh run."""
    split: str | None = None
    """`train`, `dev`, `test` or any other word."""
    cluster: str | None = None
    """Items of one cluster are no independent observations: they share a source."""
    source: dict[str, JsonValue] = Field(default_factory=dict)
    """Where it comes from: `file` and `line`, `run` and `run_item` and `eval` …; no part of the content."""

    @property
    def digest(self) -> str:
        """Content id of all but `source`."""
        return content_id(self.model_dump(mode="json", exclude={"source"}))

    @property
    def likeness(self) -> str:
        """Content id of what is asked and expected: equal ones are duplicates."""
        return content_id([self.input, self.expected_output])


class Dataset(Frozen):
    id: str
    """`ds-…`"""
    name: str
    """Unique; usable wherever its id is."""
    description: str = ""
    created_at: str
    """ISO 8601, UTC."""


class DatasetVersion(Frozen):
    """Items that never change. Its id is made of its dataset and of its items' content, in their order."""

    id: str
    """`dsv-…`"""
    dataset_id: str
    number: int
    """From 1."""
    items: int
    provenance: Provenance = "published"
    parent_run_id: str | None = None
    """The run that its items were taken from."""
    description: str = ""
    created_at: str

    @staticmethod
    def id_of(dataset_id: str, digests: tuple[str, ...]) -> str:
        """`digests` of the items, in order."""
        return short_id("dsv", [dataset_id, digests])


def short_id(prefix: str, value: object) -> str:
    """`prefix-<16 hex>`, named by content."""
    return f"{prefix}-{content_id(value).removeprefix('sha256:')[:16]}"
