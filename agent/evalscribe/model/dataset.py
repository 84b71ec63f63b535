"""Datasets, their items and versions."""

from typing import Literal

from pydantic import Field, JsonValue

from evalscribe.ids import Frozen, content_id

Provenance = Literal["published", "imported", "derived"]
"""Origin of a version: published by hand, imported with a run, or derived from a run's failures or reviews."""


class Item(Frozen):
    """One example of a dataset."""

    key: str
    """Unique in its dataset; identifies the item across versions and runs."""
    input: JsonValue
    expected_output: JsonValue = None
    """None if the item has no expected output. Scorers that need one then report an error."""
    metadata: dict[str, JsonValue] = Field(default_factory=dict)
    events: tuple[dict[str, JsonValue], ...] = ()
    """A recorded trace, as messages of a transcript. It is stored and displayed only; runs and scorers ignore it."""
    split: str | None = None
    """`train`, `dev`, `test` or any other word."""
    cluster: str | None = None
    """Name of the item's cluster. Items of a cluster share a source, so they are not independent observations."""
    source: dict[str, JsonValue] = Field(default_factory=dict)
    """Origin, such as `file` and `line`, or `run`, `run_item` and `eval`. It is not part of the item's content."""

    @property
    def digest(self) -> str:
        """Content id of everything except `source`."""
        return content_id(self.model_dump(mode="json", exclude={"source"}))

    @property
    def likeness(self) -> str:
        """Content id of input and expected output; items with equal ids are duplicates."""
        return content_id([self.input, self.expected_output])


class Dataset(Frozen):
    id: str
    """`ds-…`"""
    name: str
    """Unique; commands accept it in place of the id."""
    description: str = ""
    created_at: str
    """ISO 8601, UTC."""


class DatasetVersion(Frozen):
    """An immutable list of items. Its id is derived from the dataset and from the content and order of the items."""

    id: str
    """`dsv-…`"""
    dataset_id: str
    number: int
    """From 1."""
    items: int
    provenance: Provenance = "published"
    parent_run_id: str | None = None
    """The run from which the items were taken."""
    description: str = ""
    created_at: str

    @staticmethod
    def id_of(dataset_id: str, digests: tuple[str, ...]) -> str:
        """Return the id of a version; `digests` are the digests of its items, in order."""
        return short_id("dsv", [dataset_id, digests])


def short_id(prefix: str, value: object) -> str:
    """Return a content id of the form `prefix-<16 hex>`."""
    return f"{prefix}-{content_id(value).removeprefix('sha256:')[:16]}"
