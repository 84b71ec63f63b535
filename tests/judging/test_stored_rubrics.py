"""Rubric files are edited; their stored versions are used for judging."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from evalscribe.errors import NotFoundError, RubricError
from evalscribe.judging.rubrics import (
    DEFAULT_COLLECTION,
    ListedRubric,
    create_rubric,
    diff_rubrics,
    find_rubric,
    list_rubrics,
    outdated_note,
    parse_rubric_name,
    store_rubric,
    validate_rubrics,
)
from evalscribe.model.rubric import Collection
from evalscribe.prompts.templates import Prompts
from evalscribe.store.collections import CollectionStore, open_collections


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "prompts/rubrics").mkdir(parents=True)
    write(tmp_path, "polite", "Was it polite?")
    return tmp_path


@pytest.fixture
def prompts(folder: Path) -> Prompts:
    return Prompts(folder)


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[CollectionStore]:
    shelf = open_collections(tmp_path / "store")
    yield shelf
    shelf.close()


def write(folder: Path, name: str, text: str) -> None:
    (folder / f"prompts/rubrics/{name}.yaml").write_text(f"rubric_text: {text}\n")


def test_rubric_file_is_stored_as_version_1(shelf: CollectionStore, prompts: Prompts) -> None:
    rubric = store_rubric(shelf, prompts, "polite")
    assert (rubric.id, rubric.version, rubric.rubric_text) == ("polite", 1, "Was it polite?")
    assert shelf.rubric(DEFAULT_COLLECTION, "polite") == rubric


def test_changed_file_is_not_used_until_a_new_version_is_created(
    shelf: CollectionStore, prompts: Prompts, folder: Path
) -> None:
    first = store_rubric(shelf, prompts, "polite")
    assert outdated_note(prompts, first, "polite") is None
    write(folder, "polite", "Was it kind?")
    assert store_rubric(shelf, prompts, "polite") == first
    assert outdated_note(prompts, first, "polite") == (
        "the file of polite differs from version 1, which is used: `evalscribe rubrics create polite` makes version 2"
    )
    created = create_rubric(shelf, prompts, "polite")
    assert (created.new, created.rubric.version) == (True, 2)
    assert store_rubric(shelf, prompts, "polite").rubric_text == "Was it kind?"
    assert store_rubric(shelf, prompts, "polite@1") == first
    assert outdated_note(prompts, first, "polite@1") is None


def test_stored_version_survives_a_broken_or_removed_file(
    shelf: CollectionStore, prompts: Prompts, folder: Path
) -> None:
    first = store_rubric(shelf, prompts, "polite")
    path = folder / "prompts/rubrics/polite.yaml"
    path.write_text("rubric_text: [")
    assert store_rubric(shelf, prompts, "polite") == first
    assert outdated_note(prompts, first, "polite") is None
    path.unlink()
    assert store_rubric(shelf, prompts, "polite") == first


def test_creating_twice_makes_one_version(shelf: CollectionStore, prompts: Prompts) -> None:
    assert create_rubric(shelf, prompts, "polite").new
    again = create_rubric(shelf, prompts, "polite")
    assert (again.new, again.rubric.version) == (False, 1)


def test_rubric_given_by_path_is_always_used_in_its_current_form(
    shelf: CollectionStore, prompts: Prompts, tmp_path: Path
) -> None:
    path = tmp_path / "rude.yaml"
    for number, text in enumerate(("Was it rude?", "Was it very rude?"), start=1):
        path.write_text(f"rubric_text: {text}\n")
        assert find_rubric(shelf, prompts, str(path)).rubric_text == text
        rubric = store_rubric(shelf, prompts, str(path))
        assert (rubric.id, rubric.version, rubric.rubric_text) == ("rude", number, text)


def test_unknown_collection_is_refused(shelf: CollectionStore, prompts: Prompts) -> None:
    with pytest.raises(NotFoundError, match="collection 'c9' not found"):
        create_rubric(shelf, prompts, "polite", "c9")
    shelf.add_collection(Collection(id="c9", name="nine"))
    assert create_rubric(shelf, prompts, "polite", "c9").rubric.version == 1
    assert [row.version for row in list_rubrics(shelf, prompts).rubrics if row.name == "polite"] == [None]


def test_unknown_rubric_or_version_is_not_found(shelf: CollectionStore, prompts: Prompts) -> None:
    for name in ("rude", "rude@1", "polite@2"):
        with pytest.raises(NotFoundError, match="not found"):
            store_rubric(shelf, prompts, name)
    with pytest.raises(NotFoundError, match="polite"):
        find_rubric(shelf, prompts, "rude")


def test_showing_and_listing_rubrics_store_nothing(shelf: CollectionStore, prompts: Prompts) -> None:
    assert find_rubric(shelf, prompts, "polite").rubric_text == "Was it polite?"
    assert "polite" in {row.name for row in list_rubrics(shelf, prompts).rubrics}
    with pytest.raises(NotFoundError, match="none yet"):
        find_rubric(shelf, prompts, "polite@1")
    assert shelf.collections() == ()


def test_list_shows_file_version_and_whether_they_differ(
    shelf: CollectionStore, prompts: Prompts, folder: Path
) -> None:
    write(folder, "broken", "''")
    write(folder, "gone", "Is it gone?")
    create_rubric(shelf, prompts, "gone")
    (folder / "prompts/rubrics/gone.yaml").unlink()
    first = create_rubric(shelf, prompts, "polite").rubric
    write(folder, "polite", "Was it kind?")
    rows = {row.name: row for row in list_rubrics(shelf, prompts).rubrics}
    assert list(rows) == sorted(rows)
    assert rows["polite"] == ListedRubric(name="polite", version=1, digest=first.digest, file="workspace", changed=True)
    assert (rows["gone"].version, rows["gone"].file, rows["gone"].changed) == (1, None, False)
    assert (rows["failure"].version, rows["failure"].file) == (None, "shipped")
    assert rows["broken"].problem is not None
    assert "rubric_text" in rows["broken"].problem


def test_validation_reports_every_file(prompts: Prompts, folder: Path) -> None:
    write(folder, "broken", "''")
    good, bad, missing = validate_rubrics(prompts, ("polite", str(folder / "prompts/rubrics/broken.yaml"), "none.yaml"))
    assert (good.problem, missing.problem) == (None, "file none.yaml not found")
    assert bad.problem is not None
    assert bad.problem.startswith(f"{folder}/prompts/rubrics/broken.yaml:1: rubric_text:")


def test_diff_compares_the_latest_version_with_the_file(shelf: CollectionStore, prompts: Prompts, folder: Path) -> None:
    create_rubric(shelf, prompts, "polite")
    assert diff_rubrics(shelf, prompts, "polite") == ""
    write(folder, "polite", "Was it kind?")
    lines = diff_rubrics(shelf, prompts, "polite").splitlines()
    assert lines[:2] == ["--- polite@1", "+++ polite (file)"]
    assert lines[-2:] == ["-rubric_text: Was it polite?", "+rubric_text: Was it kind?"]
    create_rubric(shelf, prompts, "polite")
    assert diff_rubrics(shelf, prompts, "polite@2", "polite@1").splitlines()[-1] == "+rubric_text: Was it polite?"
    assert diff_rubrics(shelf, prompts, "polite@2", str(folder / "prompts/rubrics/polite.yaml")) == ""


def test_invalid_file_is_not_stored(shelf: CollectionStore, prompts: Prompts, folder: Path) -> None:
    write(folder, "broken", "''")
    with pytest.raises(RubricError, match="rubric_text"):
        store_rubric(shelf, prompts, "broken")
    assert shelf.rubrics(DEFAULT_COLLECTION) == ()


@pytest.mark.parametrize(
    ("name", "parts"),
    [("a", ("a", None)), ("a@2", ("a", 2)), ("a@b", ("a@b", None)), ("a@1@2", ("a@1", 2)), ("@2", ("@2", None))],
)
def test_rubric_name_is_split_into_name_and_version(name: str, parts: tuple[str, int | None]) -> None:
    assert parse_rubric_name(name) == parts
