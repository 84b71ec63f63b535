"""Make a dataset, and put single examples into its draft or take them out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from pydantic import JsonValue

from evalscribe import text as prose
from evalscribe.errors import DataError, NotFoundError, UsageError
from evalscribe.ids import Frozen
from evalscribe.json_data import InvalidJson, StrictJson
from evalscribe.model.dataset import Dataset, Item, short_id
from evalscribe.model.experiment_storage import Datasets
from evalscribe.model.storage import AddedCounts
from evalscribe.sources.items import parse_item

MOST_NAMED = 10


@dataclass(frozen=True)
class Example:
    """An example as it was typed: texts, of which some may be JSON."""

    input: str
    expected: str | None = None
    metadata: str | None = None
    events: str | None = None
    split: str | None = None
    cluster: str | None = None
    key: str | None = None


class PutIn(Frozen):
    """What became of an example."""

    item: Item
    added: AddedCounts
    hidden: int = 0
    """Secrets that were taken out of it."""


class TakenOut(Frozen):
    """Items that a draft has no more."""

    dataset: str
    items: int


def created(datasets: Datasets, name: str, description: str, now: str) -> Dataset:
    """Raises `UsageError` for what can be no name, or is another dataset's."""
    if name != prose.name(name):
        raise UsageError(f"--name {name[:80]!r} is no name: one line of 1 to {prose.NAME_LIMIT} characters")
    dataset = Dataset(id=short_id("ds", [name, now]), name=name, description=prose.visible(description), created_at=now)
    datasets.add(dataset)
    return dataset


def put_in(datasets: Datasets, dataset: Dataset, example: Example) -> PutIn:
    """An example of a key that is there replaces it. Raises `UsageError` saying what is wrong with it."""
    value: dict[str, object] = {"input": json_or_text("--input", example.input)}
    if example.expected is not None:
        value["expected_output"] = json_or_text("--expected-output", example.expected)
    for name in ("metadata", "events"):
        if (text := getattr(example, name)) is not None:
            value[name] = _needed(f"--{name}", text)
    value |= {name: found for name in ("split", "cluster", "key") if (found := getattr(example, name)) is not None}
    try:
        read = parse_item(value, {})
    except DataError as error:
        raise UsageError(str(error)) from None
    return PutIn(item=read.item, added=datasets.put(dataset.id, [read.item]), hidden=read.hidden)


def taken_out(datasets: Datasets, dataset: Dataset, keys: Sequence[str]) -> TakenOut:
    """Raises `NotFoundError`, and takes out none, where one is not there."""
    missing = set(keys)
    for item in datasets.draft(dataset.id):
        missing.discard(item.key)
    if missing:
        told = ", ".join(sorted(missing)[:MOST_NAMED])
        raise NotFoundError(
            f"the draft of {dataset.name} has no item {told}; "
            f"`evalscribe datasets examples list {dataset.name}` shows what it has"
        )
    return TakenOut(dataset=dataset.name, items=datasets.drop(dataset.id, keys))


def json_or_text(option: str, text: str) -> JsonValue:
    """JSON where it is some, else the text. Raises `UsageError` for JSON that readers may understand in two ways."""
    try:
        return _json(option, text)
    except InvalidJson:
        return text


def _needed(option: str, text: str) -> JsonValue:
    try:
        return _json(option, text)
    except InvalidJson as error:
        raise UsageError(f"{option}: {error}") from None


def _json(option: str, text: str) -> JsonValue:
    """Raises `UsageError`, or `InvalidJson`."""
    try:
        return cast(JsonValue, StrictJson().decode(text))
    except InvalidJson:
        raise
    except DataError as error:
        raise UsageError(f"{option}: {error}") from None
