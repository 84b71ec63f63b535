"""Define datasets, their items and their versions."""

from typing import Literal

from pydantic import Field, JsonValue

from evalscribe.ids import Frozen, content_id

Provenance = Literal["published", "imported", "derived"]
"""Origin of a dataset version: published by hand, imported with a run, or derived from a run's failures or from
reviews."""


class Item(Frozen):
    """One example of a dataset."""

    key: str
    """Key of the item, unique in its dataset. It identifies the item in all versions and runs."""
    input: JsonValue
    expected_output: JsonValue = None
    """The output that scorers expect. If it is None, scorers that need an expected output report an error."""
    metadata: dict[str, JsonValue] = Field(default_factory=dict)
    events: tuple[dict[str, JsonValue], ...] = ()
    """A recorded trace in the form of transcript messages. It is only stored and displayed; runs and scorers ignore it.
    """
    split: str | None = None
    """Name of the split to which the item belongs: `train`, `dev`, `test` or any other word."""
    cluster: str | None = None
    """Name of the cluster to which the item belongs. Items in the same cluster come from a common source, so they are
    not independent observations."""
    source: dict[str, JsonValue] = Field(default_factory=dict)
    """Origin of the item, such as `file` and `line`, or `run`, `run_item` and `eval`. The origin is not part of the
    item's content."""

    @property
    def digest(self) -> str:
        """Content id of the whole item except its `source`."""
        return content_id(self.model_dump(mode="json", exclude={"source"}))

    @property
    def likeness(self) -> str:
        """Content id of the input and the expected output. Items with the same content id are duplicates."""
        return content_id([self.input, self.expected_output])


class Dataset(Frozen):
    id: str
    """Id of the dataset, in the form `ds-…`."""
    name: str
    """Unique name of the dataset. Commands accept the name in place of the id."""
    description: str = ""
    created_at: str
    """Time of creation, in ISO 8601, UTC."""


class DatasetVersion(Frozen):
    """An immutable list of items.

    The version's id is derived from the dataset's id and from the content and order of the items.
    """

    id: str
    """Id of the version, in the form `dsv-…`."""
    dataset_id: str
    number: int
    """Number of the version in its dataset, from 1."""
    items: int
    provenance: Provenance = "published"
    parent_run_id: str | None = None
    """Id of the run from which the items were taken, if any."""
    description: str = ""
    created_at: str

    @staticmethod
    def id_of(dataset_id: str, digests: tuple[str, ...]) -> str:
        """Return the id of a dataset version. `digests` are the digests of the version's items, in order."""
        return short_id("dsv", [dataset_id, digests])


def short_id(prefix: str, value: object) -> str:
    """Return a content id of the form `prefix-<16 hex>`."""
    return f"{prefix}-{content_id(value).removeprefix('sha256:')[:16]}"
