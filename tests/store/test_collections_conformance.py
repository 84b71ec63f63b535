"""Behaviour of the store of collections, in a file and on a server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from evalscribe.errors import NotFoundError, UsageError
from evalscribe.model.result import JudgeResult
from evalscribe.model.rubric import Collection
from evalscribe.store.collections import CollectionStore, open_collections
from support.example_collections import ANOTHER, CHANGED, FAILED, FAILED_AGAIN, HERE, LABELS, RESULT, RUBRIC, THERE


@pytest.fixture(params=["file", "server"])
def store(request: pytest.FixtureRequest, folder: Path) -> Iterator[CollectionStore]:
    place = request.getfixturevalue("server_url") if request.param == "server" else folder
    store = open_collections(place)
    store.add_collection(HERE)
    yield store
    store.close()


def test_collections_are_listed_in_order_of_creation(store: CollectionStore) -> None:
    first = Collection(id="a0", name="made last")
    for collection in (THERE, first, HERE):
        store.add_collection(collection)
    assert store.collections() == (HERE, THERE, first)


def test_collection_id_is_unique(store: CollectionStore) -> None:
    with pytest.raises(UsageError, match="'c1' is taken"):
        store.add_collection(Collection(id="c1", name="another"))
    assert store.collections() == (HERE,)


def test_collection_is_deleted_with_its_contents(store: CollectionStore) -> None:
    store.add_collection(THERE)
    store.add_rubric("c1", RUBRIC)
    store.add_rubric("c1", CHANGED)
    store.add_label_set("c1", LABELS)
    assert store.contents("c1") == "1 rubric, 1 label set"
    store.remove_collection("c1")
    assert store.collections() == (THERE,)
    with pytest.raises(NotFoundError, match=f"collection 'c1' not found; available: {THERE.id}"):
        store.remove_collection("c1")
    store.add_collection(HERE)
    assert (store.rubrics("c1"), store.label_sets("c1"), store.contents("c1")) == (
        (),
        (),
        "",
    )


def test_rubric_is_deleted_with_all_its_versions(store: CollectionStore) -> None:
    store.add_collection(THERE)
    for collection_id, rubric in (
        ("c1", RUBRIC),
        ("c1", CHANGED),
        ("c1", CHANGED.model_copy(update={"id": "other"})),
        (THERE.id, RUBRIC),
    ):
        store.add_rubric(collection_id, rubric)
    store.remove_rubric("c1", RUBRIC.id)
    assert [stored.id for stored in store.rubrics("c1")] == ["other"]
    assert store.rubric(THERE.id, RUBRIC.id) == RUBRIC
    assert store.add_rubric("c1", CHANGED).version == 1


def test_only_a_changed_rubric_gets_a_new_version(store: CollectionStore) -> None:
    assert store.add_rubric("c1", RUBRIC).version == 1
    assert store.add_rubric("c1", RUBRIC.model_copy(update={"version": 7})).version == 1
    assert store.add_rubric("c1", CHANGED).version == 2
    assert store.add_rubric("c1", RUBRIC).version == 3
    assert store.rubric("c1", "polite", 1) == RUBRIC
    assert store.rubric("c1", "polite", 2).rubric_text == CHANGED.rubric_text
    assert store.rubric("c1", "polite") == RUBRIC.model_copy(update={"version": 3})


def test_rubrics_lists_the_latest_version_of_each(store: CollectionStore) -> None:
    store.add_collection(THERE)
    other = RUBRIC.model_copy(update={"id": "a"})
    for rubric in (RUBRIC, CHANGED, other):
        store.add_rubric("c1", rubric)
    assert [(rubric.id, rubric.version) for rubric in store.rubrics("c1")] == [("a", 1), ("polite", 2)]
    assert store.rubrics("c2") == ()
    assert store.add_rubric("c2", CHANGED).version == 1


def test_unknown_ids_are_reported_with_those_available(store: CollectionStore) -> None:
    store.add_rubric("c1", RUBRIC)
    for query in (
        lambda: store.rubrics("c9"),
        lambda: store.rubric("c9", "polite"),
        lambda: store.add_rubric("c9", RUBRIC),
        lambda: store.add_label_set("c9", LABELS),
        lambda: store.label_sets("c9"),
    ):
        with pytest.raises(NotFoundError, match="collection 'c9' not found; available: c1"):
            query()
    with pytest.raises(NotFoundError, match=r"rubric 'rude'.* not found; available: polite"):
        store.rubric("c1", "rude")
    for version in (0, -1, 2, 2**70):
        with pytest.raises(NotFoundError, match=rf"version {version}\b.* not found; available: 1 to 1"):
            store.rubric("c1", "polite", version)
    with pytest.raises(NotFoundError, match="label set 'l9'"):
        store.label_set("c1", "l9")


def test_label_sets_are_immutable(store: CollectionStore) -> None:
    second = LABELS.model_copy(update={"id": "a", "description": "later"})
    for labels in (LABELS, second, LABELS):
        store.add_label_set("c1", labels)
    assert store.label_sets("c1") == (LABELS, second)
    assert store.label_set("c1", "a") == second
    with pytest.raises(UsageError, match="'a' already exists with different content"):
        store.add_label_set("c1", LABELS.model_copy(update={"id": "a"}))


@pytest.mark.parametrize(
    ("first", "later", "expected"),
    [
        pytest.param(RESULT, FAILED, RESULT, id="a paid result survives a failed second asking"),
        pytest.param(FAILED, RESULT, RESULT, id="a result replaces a failure"),
        pytest.param(FAILED, FAILED_AGAIN, FAILED_AGAIN, id="a newer failure replaces an older"),
        pytest.param(RESULT, ANOTHER, ANOTHER, id="fresh"),
    ],
)
def test_failed_attempt_never_replaces_a_result(
    store: CollectionStore, first: JudgeResult, later: JudgeResult, expected: JudgeResult
) -> None:
    assert store.get_result("k") is None
    store.put_result("k", first)
    store.put_result("k", later)
    assert store.get_result("k") == expected


def test_results_are_counted_by_rubric_and_listed_by_rubric_and_subject(store: CollectionStore) -> None:
    newer = ANOTHER.model_copy(update={"rubric_version": 2})
    for key, result in (("k1", RESULT), ("k2", FAILED.model_copy(update={"agent_run_id": "a2"})), ("k3", newer)):
        store.put_result(key, result)
    counts = [
        (stored.rubric_id, stored.rubric_version, stored.results, stored.failures) for stored in store.result_counts()
    ]
    assert counts == [("polite", 2, 1, 0), ("polite", 1, 1, 1)]
    assert [stored.agent_run_id for stored in store.results_by_rubric("polite", 1, RESULT.judge)] == [
        "a1",
        "a2",
    ]
    assert store.results_about(["a1", "a9"]) == (newer, RESULT)
