"""Datasets, in a file and on a server."""

import pytest

from evalscribe.errors import DataError, UsageError
from evalscribe.model.record import AddedCounts
from evalscribe.store.datasets import DatasetStore
from support.example_experiments import DATASET, NOW, make_item

ITEMS = [
    make_item("a"),
    make_item("b", input="\x00", expected_output=None, metadata={"n": 10**30}, split="dev"),
    make_item("c"),
]


def test_dataset_is_found_by_id_and_by_name(datasets: DatasetStore) -> None:
    datasets.add(DATASET)
    other = DATASET.model_copy(update={"id": "ds-2", "name": "b"})
    datasets.add(other)
    assert datasets.find("ds-1") == datasets.find("refunds") == DATASET
    assert datasets.find("nope") is None
    assert datasets.all() == (DATASET, other)
    with pytest.raises(UsageError, match="the name 'refunds' is already used by dataset ds-1"):
        datasets.add(DATASET.model_copy(update={"id": "ds-3"}))


def test_draft_is_edited(datasets: DatasetStore) -> None:
    assert datasets.put("ds-1", ITEMS) == AddedCounts(new=3)
    assert tuple(datasets.draft("ds-1")) == tuple(ITEMS)
    changed = make_item("b", input="other", source={"line": 7})
    assert datasets.put("ds-1", [make_item("d"), changed, ITEMS[2]]) == AddedCounts(new=1, changed=1, same=1)
    assert tuple(datasets.draft("ds-1")) == (ITEMS[0], changed, ITEMS[2], make_item("d"))
    assert datasets.drop("ds-1", ["b", "b", "nope"]) == 1
    assert [item.key for item in datasets.draft("ds-1")] == ["a", "c", "d"]
    assert datasets.draft_size("ds-1") == 3
    assert tuple(datasets.draft("ds-2")) == ()


def test_keys_of_an_input_keep_their_order(datasets: DatasetStore) -> None:
    datasets.put("ds-1", [make_item("a", input={"z": 1, "a": 2})])
    assert [list(item.input) for item in datasets.draft("ds-1") if isinstance(item.input, dict)] == [["z", "a"]]


def test_version_is_immutable_and_its_id_depends_on_content(datasets: DatasetStore) -> None:
    datasets.put("ds-1", ITEMS)
    first = datasets.publish("ds-1", NOW, description="the first")
    assert (first.number, first.items, first.provenance) == (1, 3, "published")
    datasets.drop("ds-1", ["b"])
    second = datasets.publish("ds-1", NOW, provenance="derived", parent_run_id="r")
    assert second.number == 2
    assert datasets.versions("ds-1") == (first, second)
    assert datasets.version(second.id) == second
    assert tuple(datasets.items(first.id)) == tuple(ITEMS)
    assert [item.key for item in datasets.items(second.id)] == ["a", "c"]
    assert datasets.item(first.id, "b") == ITEMS[1]
    assert datasets.item(second.id, "b") is None
    datasets.restore(first.id)
    assert tuple(datasets.draft("ds-1")) == tuple(ITEMS)
    assert datasets.publish("ds-1", "later") == first
    datasets.put("ds-2", ITEMS)
    assert datasets.publish("ds-2", NOW).id != first.id


def test_empty_draft_is_not_published(datasets: DatasetStore) -> None:
    with pytest.raises(UsageError, match="no items"):
        datasets.publish("ds-1", NOW)
    with pytest.raises(UsageError, match="dataset version dsv-x not found"):
        datasets.restore("dsv-x")


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (make_item("x", input=float("nan")), "item 'x' cannot be stored: .*not finite"),
        (make_item("x", input=["\ud800"]), "item 'x' cannot be stored: .*surrogate"),
        (make_item("x", source={"a": float("inf")}), "source of item 'x' cannot be stored"),
        (make_item("x\x00"), "NUL"),
    ],
)
def test_item_that_cannot_be_stored_does_not_change_the_draft(
    datasets: DatasetStore, bad: object, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        datasets.put("ds-1", [ITEMS[0], bad])  # type: ignore[list-item]
    assert datasets.draft_size("ds-1") == 0


def test_more_items_than_one_page_are_read_in_order(datasets: DatasetStore) -> None:
    items = [make_item(f"k{n}") for n in range(1001)]
    datasets.put("ds-1", items)
    datasets.put("ds-2", [make_item("other")])
    first = datasets.publish("ds-1", NOW)
    assert [item.key for item in datasets.items(first.id)] == [item.key for item in items]
    assert datasets.drop("ds-1", [f"k{n}" for n in range(0, 1001, 2)]) == 501
    assert [item.key for item in datasets.draft("ds-1")] == [f"k{n}" for n in range(1, 1001, 2)]
    assert datasets.put("ds-1", items) == AddedCounts(new=501, same=500)
