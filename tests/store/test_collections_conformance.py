"""What every shelf does, on a file and on a server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from evalscribe.errors import NotFoundError, UsageError
from evalscribe.model.result import JudgeResult
from evalscribe.model.rubric import Collection
from evalscribe.store.collections import CollectionStore, open_collections
from support.example_collections import ANOTHER, CHANGED, FAILED, FAILED_AGAIN, HERE, LABELS, RESULT, RUBRIC, THERE


@pytest.fixture(params=["file", "server"])
def shelf(request: pytest.FixtureRequest, folder: Path) -> Iterator[CollectionStore]:
    place = request.getfixturevalue("server_url") if request.param == "server" else folder
    shelf = open_collections(place)
    shelf.add_collection(HERE)
    yield shelf
    shelf.close()


def test_collections_are_in_the_order_they_were_made(shelf: CollectionStore) -> None:
    first = Collection(id="a0", name="made last")
    for collection in (THERE, first, HERE):
        shelf.add_collection(collection)
    assert shelf.collections() == (HERE, THERE, first)


def test_an_id_is_one_collections(shelf: CollectionStore) -> None:
    with pytest.raises(UsageError, match="'c1' is taken"):
        shelf.add_collection(Collection(id="c1", name="another"))
    assert shelf.collections() == (HERE,)


def test_a_collection_goes_with_what_it_holds(shelf: CollectionStore) -> None:
    shelf.add_collection(THERE)
    shelf.add_rubric("c1", RUBRIC)
    shelf.add_rubric("c1", CHANGED)
    shelf.add_label_set("c1", LABELS)
    assert shelf.contents("c1") == "1 rubric, 1 label set"
    shelf.remove_collection("c1")
    assert shelf.collections() == (THERE,)
    with pytest.raises(NotFoundError, match=f"collection 'c1' not found; available: {THERE.id}"):
        shelf.remove_collection("c1")
    shelf.add_collection(HERE)
    assert (shelf.rubrics("c1"), shelf.label_sets("c1"), shelf.contents("c1")) == ((), (), "")


def test_a_rubric_goes_with_all_its_versions(shelf: CollectionStore) -> None:
    shelf.add_collection(THERE)
    for collection_id, rubric in (
        ("c1", RUBRIC),
        ("c1", CHANGED),
        ("c1", CHANGED.model_copy(update={"id": "other"})),
        (THERE.id, RUBRIC),
    ):
        shelf.add_rubric(collection_id, rubric)
    shelf.remove_rubric("c1", RUBRIC.id)
    assert [one.id for one in shelf.rubrics("c1")] == ["other"]
    assert shelf.rubric(THERE.id, RUBRIC.id) == RUBRIC
    assert shelf.add_rubric("c1", CHANGED).version == 1


def test_a_changed_rubric_is_the_next_version_and_an_unchanged_one_is_not(shelf: CollectionStore) -> None:
    assert shelf.add_rubric("c1", RUBRIC).version == 1
    assert shelf.add_rubric("c1", RUBRIC.model_copy(update={"version": 7})).version == 1
    assert shelf.add_rubric("c1", CHANGED).version == 2
    assert shelf.add_rubric("c1", RUBRIC).version == 3
    assert shelf.rubric("c1", "polite", 1) == RUBRIC
    assert shelf.rubric("c1", "polite", 2).rubric_text == CHANGED.rubric_text
    assert shelf.rubric("c1", "polite") == RUBRIC.model_copy(update={"version": 3})


def test_the_latest_of_each_by_id(shelf: CollectionStore) -> None:
    shelf.add_collection(THERE)
    other = RUBRIC.model_copy(update={"id": "a"})
    for rubric in (RUBRIC, CHANGED, other):
        shelf.add_rubric("c1", rubric)
    assert [(rubric.id, rubric.version) for rubric in shelf.rubrics("c1")] == [("a", 1), ("polite", 2)]
    assert shelf.rubrics("c2") == ()
    assert shelf.add_rubric("c2", CHANGED).version == 1


def test_what_is_not_there(shelf: CollectionStore) -> None:
    shelf.add_rubric("c1", RUBRIC)
    for asked in (
        lambda: shelf.rubrics("c9"),
        lambda: shelf.rubric("c9", "polite"),
        lambda: shelf.add_rubric("c9", RUBRIC),
        lambda: shelf.add_label_set("c9", LABELS),
        lambda: shelf.label_sets("c9"),
    ):
        with pytest.raises(NotFoundError, match="collection 'c9' not found; available: c1"):
            asked()
    with pytest.raises(NotFoundError, match=r"rubric 'rude'.* not found; available: polite"):
        shelf.rubric("c1", "rude")
    for version in (0, -1, 2, 2**70):
        with pytest.raises(NotFoundError, match=rf"version {version}\b.* not found; available: 1 to 1"):
            shelf.rubric("c1", "polite", version)
    with pytest.raises(NotFoundError, match="label set 'l9'"):
        shelf.label_set("c1", "l9")


def test_label_sets_are_immutable(shelf: CollectionStore) -> None:
    second = LABELS.model_copy(update={"id": "a", "description": "later"})
    for labels in (LABELS, second, LABELS):
        shelf.add_label_set("c1", labels)
    assert shelf.label_sets("c1") == (LABELS, second)
    assert shelf.label_set("c1", "a") == second
    with pytest.raises(UsageError, match="'a' already exists with other content"):
        shelf.add_label_set("c1", LABELS.model_copy(update={"id": "a"}))


@pytest.mark.parametrize(
    ("first", "then", "kept"),
    [
        pytest.param(RESULT, FAILED, RESULT, id="a paid result survives a failed second asking"),
        pytest.param(FAILED, RESULT, RESULT, id="a result replaces a failure"),
        pytest.param(FAILED, FAILED_AGAIN, FAILED_AGAIN, id="a newer failure replaces an older"),
        pytest.param(RESULT, ANOTHER, ANOTHER, id="fresh"),
    ],
)
def test_results_are_never_lost(
    shelf: CollectionStore, first: JudgeResult, then: JudgeResult, kept: JudgeResult
) -> None:
    assert shelf.get_result("k") is None
    shelf.put_result("k", first)
    shelf.put_result("k", then)
    assert shelf.get_result("k") == kept


def test_results_are_counted_and_listed_by_rubric_and_by_subject(shelf: CollectionStore) -> None:
    newer = ANOTHER.model_copy(update={"rubric_version": 2})
    for key, result in (("k1", RESULT), ("k2", FAILED.model_copy(update={"agent_run_id": "a2"})), ("k3", newer)):
        shelf.put_result(key, result)
    counts = [(one.rubric_id, one.rubric_version, one.results, one.failures) for one in shelf.result_counts()]
    assert counts == [("polite", 2, 1, 0), ("polite", 1, 1, 1)]
    assert [one.agent_run_id for one in shelf.results_by_rubric("polite", 1, RESULT.judge)] == ["a1", "a2"]
    assert shelf.results_about(["a1", "a9"]) == (newer, RESULT)
