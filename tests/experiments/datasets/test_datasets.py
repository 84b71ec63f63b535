"""Dataset operations on a real store."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalscribe.errors import DataError, NotFoundError, UsageError
from evalscribe.experiments.datasets import (
    AT_ONCE,
    ChangedItem,
    NewItem,
    add_item,
    checked_shares,
    compare_versions,
    create_dataset,
    find_duplicates,
    item_excerpts,
    list_datasets,
    publish_version,
    remove_duplicates,
    remove_items,
    split_draft,
    split_of,
    summarise_dataset,
    upload_items,
    version_lines,
)
from evalscribe.model.dataset import Dataset, Item
from evalscribe.model.record import AddedCounts
from evalscribe.sources.items import open_items
from evalscribe.store.datasets import DatasetStore
from evalscribe.store.lookup import find_dataset, find_dataset_version
from support.item_strategies import ITEMS

NOW = "2026-11-21T10:00:00.000+00:00"


def _items(*inputs: object) -> list[Item]:
    return [Item(key=f"k{number}", input=value) for number, value in enumerate(inputs)]  # type: ignore[arg-type]


def _upload(datasets: DatasetStore, dataset: Dataset, path: Path, *, partial: bool = True) -> object:
    return upload_items(datasets, dataset, path.name, lambda: open_items(path, path.name), partial=partial)


@settings(max_examples=25)
@given(items=st.lists(ITEMS, min_size=1, max_size=4, unique_by=lambda item: item.key))
def test_export_upload_and_publish_round_trip_keeps_every_item(
    datasets: DatasetStore, make: Callable[[], Dataset], items: list[Item]
) -> None:
    one, other = make(), make()
    datasets.put(one.id, items)
    first = publish_version(datasets, one, "", NOW).version
    exported = "".join(f"{line}\n" for line in version_lines(datasets.items(first.id), "jsonl"))
    with NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
        file.write(exported)
        file.flush()
        _upload(datasets, other, Path(file.name))
    second = publish_version(datasets, other, "", NOW).version
    assert [item.digest for item in datasets.items(second.id)] == [item.digest for item in items]
    assert "".join(f"{line}\n" for line in version_lines(datasets.items(second.id), "jsonl")) == exported


def test_publishing_an_unchanged_draft_returns_the_existing_version(datasets: DatasetStore, dataset: Dataset) -> None:
    datasets.put(dataset.id, _items(1, 2))
    first = publish_version(datasets, dataset, "one", NOW)
    assert (first.new, first.version.number, first.version.items) == (True, 1, 2)
    again = publish_version(datasets, dataset, "two", NOW)
    assert (again.new, again.version) == (False, first.version)
    datasets.drop(dataset.id, ["k1"])
    assert publish_version(datasets, dataset, "", NOW).version.number == 2
    assert [item.input for item in datasets.items(first.version.id)] == [1, 2], "the draft changes no version"


def test_version_is_found_by_number_id_or_latest(datasets: DatasetStore, dataset: Dataset) -> None:
    with pytest.raises(NotFoundError, match="nothing has been published yet: publish one with `evalscribe"):
        find_dataset_version(datasets, dataset, "latest")
    datasets.put(dataset.id, _items(1))
    first = publish_version(datasets, dataset, "", NOW).version
    datasets.put(dataset.id, _items(1, 2))
    second = publish_version(datasets, dataset, "", NOW).version
    assert [find_dataset_version(datasets, dataset, name) for name in ("1", "v1", first.id)] == [first] * 3
    assert find_dataset_version(datasets, dataset, "latest") == second
    assert find_dataset_version(datasets, None, first.id) == first
    with pytest.raises(NotFoundError, match=f"no version '3'; versions: 1 \\({first.id}\\), 2"):
        find_dataset_version(datasets, dataset, "3")
    with pytest.raises(NotFoundError, match="dataset version '1' not found"):
        find_dataset_version(datasets, None, "1")


def test_version_of_another_dataset_is_not_found(
    datasets: DatasetStore, dataset: Dataset, make: Callable[[], Dataset]
) -> None:
    other = make()
    datasets.put(other.id, _items(1))
    with pytest.raises(NotFoundError):
        find_dataset_version(datasets, dataset, publish_version(datasets, other, "", NOW).version.id)


def test_dataset_is_found_by_id_or_name_and_invalid_names_are_refused(datasets: DatasetStore, dataset: Dataset) -> None:
    assert find_dataset(datasets, dataset.id) == find_dataset(datasets, dataset.name) == dataset
    with pytest.raises(NotFoundError, match="dataset 'nope' not found; available: "):
        find_dataset(datasets, "nope")
    for name in ("", " a", "a\nb", dataset.name):
        with pytest.raises(UsageError):
            create_dataset(datasets, name, "", NOW)


def test_compare_versions_lists_added_removed_changed_and_moved_items(datasets: DatasetStore, dataset: Dataset) -> None:
    datasets.put(dataset.id, _items("a", "b", "c"))
    publish_version(datasets, dataset, "", NOW)
    assert compare_versions(datasets, dataset, "1", "draft").same
    datasets.drop(dataset.id, ["k0"])
    changed = Item(key="k2", input="C", metadata={"n": 1}, source={"file": "elsewhere"})
    datasets.put(dataset.id, [changed, Item(key="new", input=1), *_items("a")])
    done = compare_versions(datasets, dataset, "1", "draft")
    assert (done.added, done.removed) == (("new",), ())
    assert done.changed == (ChangedItem(key="k2", fields=("input", "metadata")),)
    assert done.moved, "k0 went to the end"
    back = compare_versions(datasets, dataset, "draft", "latest")
    assert (back.added, back.removed, back.base.items, back.other.items) == ((), ("new",), 4, 3)


def test_reordering_items_publishes_a_new_version(datasets: DatasetStore, dataset: Dataset) -> None:
    items = _items(1, 2)
    for order in (items, items[::-1]):
        datasets.drop(dataset.id, ["k0", "k1"])
        datasets.put(dataset.id, order)
        publish_version(datasets, dataset, "", NOW)
    done = compare_versions(datasets, dataset, "1", "2")
    assert done.moved
    assert not done.same
    assert (done.added, done.removed, done.changed) == ((), (), ())


def test_duplicates_are_grouped_and_only_later_ones_are_removable(datasets: DatasetStore, dataset: Dataset) -> None:
    items = [
        Item(key="a", input=1, expected_output=2, split="train"),
        Item(key="b", input=1),
        Item(key="c", input=1, expected_output=2, split="test", metadata={"n": 1}),
        Item(key="d", input=1, expected_output=2),
        Item(key="e", input=1),
    ]
    datasets.put(dataset.id, items)
    groups = find_duplicates(datasets.draft(dataset.id))
    assert [(one.kept.key, [twin.key for twin in one.others]) for one in groups] == [("a", ["c", "d"]), ("b", ["e"])]
    assert groups[0].splits == ("test", "train")
    with pytest.raises(UsageError, match="a is not a duplicate that can be removed; removable items: c, d, e"):
        remove_duplicates(datasets, dataset, ["a", "d"])
    assert remove_duplicates(datasets, dataset, ["d"]).items == 1
    assert remove_duplicates(datasets, dataset, []).items == 2
    assert [item.key for item in datasets.draft(dataset.id)] == ["a", "b"]
    assert remove_duplicates(datasets, dataset, []).items == 0


def test_file_with_an_invalid_line_is_refused_unless_partial(
    datasets: DatasetStore, dataset: Dataset, folder: Path
) -> None:
    path = folder / "f.jsonl"
    path.write_text('{"input": 1}\n' * 600 + "x\n")
    with pytest.raises(DataError, match=r"f\.jsonl:601: invalid JSON.*\n1 line of f\.jsonl cannot be read, so nothing"):
        _upload(datasets, dataset, path, partial=False)
    assert datasets.draft_size(dataset.id) == 0
    done = upload_items(datasets, dataset, "f.jsonl", lambda: open_items(path, "f.jsonl"), partial=True)
    assert (done.added.new, done.skipped, done.items) == (600, 1, 600)
    path.write_text('{"input": 1}\n')
    assert upload_items(datasets, dataset, "f", lambda: open_items(path, "f"), partial=False).added.same == 1


class _Watched:
    """Item source and store in one; records how many items were read ahead of being stored."""

    problems, bad, hidden = (), 0, 0

    def __init__(self, number: int) -> None:
        self.number, self.read_so_far, self.stored, self.most = number, 0, 0, 0

    def read(self) -> Iterator[Item]:
        for number in range(1, self.number + 1):
            self.read_so_far = number
            yield Item(key=str(number), input=0)

    def put(self, _dataset_id: str, items: Sequence[Item]) -> AddedCounts:
        self.most = max(self.most, self.read_so_far - self.stored)
        self.stored += len(items)
        return AddedCounts(new=len(items))


def test_upload_stores_items_in_batches_while_reading(dataset: Dataset) -> None:
    watched = _Watched(2100)
    done = upload_items(cast(DatasetStore, watched), dataset, "f", lambda: watched, partial=True)
    assert (done.added.new, watched.stored, watched.most) == (2100, 2100, AT_ONCE)


def test_partial_upload_of_a_truncated_file_keeps_the_items_before_the_cut(
    datasets: DatasetStore, dataset: Dataset, folder: Path
) -> None:
    path = folder / "f.json"
    path.write_text("[" + '{"input": 1},' * 700 + '{"input": ')
    done = upload_items(datasets, dataset, "f.json", lambda: open_items(path, "f.json"), partial=True)
    assert done.items == datasets.draft_size(dataset.id) == 700
    assert str(done.stopped).startswith("f.json: invalid JSON")


def test_file_without_items_is_refused(datasets: DatasetStore, dataset: Dataset, folder: Path) -> None:
    path = folder / "f.jsonl"
    for content, message in (("", "^f.jsonl contains no items"), ("x\n" * 30, "f.jsonl:1: .*(?s:.)*and 10 more\n")):
        path.write_text(content)
        with pytest.raises(DataError, match=message):
            _upload(datasets, dataset, path)


def test_add_item_parses_fields_and_refuses_invalid_ones(datasets: DatasetStore, dataset: Dataset) -> None:
    first = add_item(datasets, dataset, NewItem('{"q": 1}', "words", '{"n": 1}', "[{}]", "dev", "c", "one"))
    assert first.item == Item(
        key="one",
        input={"q": 1},
        expected_output="words",
        metadata={"n": 1},
        events=({},),
        split="dev",
        cluster="c",
    )
    assert add_item(datasets, dataset, NewItem("[urgent] help")).item.input == "[urgent] help"
    assert add_item(datasets, dataset, NewItem("[urgent] help")).added.same == 1
    for example, message in (
        (NewItem('{"a": 1, "a": 2}'), "`input`: an object has the member `a` twice"),
        (NewItem("x", metadata="{"), "`metadata`: invalid JSON"),
        (NewItem("x", events="{}"), "`events` is not a list"),
        (NewItem("x", key=" "), "`key` is not a valid name"),
    ):
        with pytest.raises(UsageError, match=message):
            add_item(datasets, dataset, example)


def test_remove_items_removes_all_or_none(datasets: DatasetStore, dataset: Dataset) -> None:
    datasets.put(dataset.id, _items(1, 2))
    with pytest.raises(NotFoundError, match="has no item nope"):
        remove_items(datasets, dataset, ["k0", "nope"])
    assert remove_items(datasets, dataset, ["k0", "k0"]).items == 1
    assert [item.key for item in datasets.draft(dataset.id)] == ["k1"]


def test_split_keeps_clusters_together_and_existing_items_in_place(datasets: DatasetStore, dataset: Dataset) -> None:
    shares = checked_shares({"train": 0.2, "dev": 0.4, "test": 0.4})
    items = [Item(key=f"k{n}", input=n, cluster=f"c{n // 3}" if n % 2 else None) for n in range(1200)]
    datasets.put(dataset.id, items[:900])
    done = split_draft(datasets, dataset, shares, 0)
    before = {item.key: item.split for item in datasets.draft(dataset.id)}
    assert sum(done.items.values()) == done.changed == 900
    assert all(abs(done.items[name] / 900 - share) < 0.06 for name, share in shares.items())
    datasets.put(dataset.id, items[900:])
    assert split_draft(datasets, dataset, shares, 0).changed == 300
    draft = list(datasets.draft(dataset.id))
    assert [item.key for item in draft] == [item.key for item in items]
    assert {item.key: item.split for item in draft if item.key in before} == before
    clusters = {(item.cluster, item.split) for item in draft if item.cluster}
    assert len(clusters) == len({cluster for cluster, _ in clusters})
    assert any(split_of(item, shares, 1) != item.split for item in draft)


@pytest.mark.parametrize("shares", [{"train": 0.5}, {"train": 1.5, "test": -0.5}, {"train": 0.5, "dev": 0.6}])
def test_split_shares_must_sum_to_one(shares: dict[str, float | None]) -> None:
    with pytest.raises(UsageError, match="sum to 1"):
        checked_shares(shares)
    assert checked_shares({"train": 0.5, "dev": None, "test": 0.5}) == {"train": 0.5, "test": 0.5}
    assert list(checked_shares({"train": None})) == ["train", "dev", "test"]


def test_splitting_an_empty_draft_is_refused(datasets: DatasetStore, dataset: Dataset) -> None:
    with pytest.raises(UsageError, match="has no items"):
        split_draft(datasets, dataset, {"test": 1.0}, 0)


def test_dataset_summary_and_listing_count_items_and_versions(datasets: DatasetStore, dataset: Dataset) -> None:
    datasets.put(dataset.id, [Item(key="a", input="x\ny" * 50, expected_output=0, split="dev", cluster="c")])
    version = publish_version(datasets, dataset, "", NOW).version
    full = summarise_dataset(datasets, dataset)
    assert (full.draft_items, full.draft_is, full.with_expected, full.clusters) == (1, 1, 1, 1)
    assert (full.splits, full.versions) == ({"dev": 1}, (version,))
    datasets.put(dataset.id, _items(1))
    assert summarise_dataset(datasets, dataset).draft_is is None
    (short,) = list_datasets(datasets, dataset.name.upper())
    assert (short.draft_items, short.versions, short.latest) == (2, 1, version)
    item = item_excerpts(next(datasets.draft(dataset.id)))
    assert (len(item.input), item.expected_output, item.input[:8]) == (59, "0", "x yx yx ")
    assert "\n" not in item.input


def test_csv_export_quotes_values_and_unknown_format_is_refused() -> None:
    items = [Item(key="a,b", input={"q": 1}, expected_output=False), Item(key="b", input='x\n"y"')]
    head, first, second = version_lines(items, "csv")
    assert head == "key,input,expected_output,metadata,events,split,cluster,source"
    assert first == '"a,b","{""q"": 1}",false,,,,,'
    assert second == 'b,"x\n""y""",,,,,,'
    with pytest.raises(UsageError, match="`format` 'xml' is unknown; use one of jsonl, csv"):
        version_lines(items, "xml")
