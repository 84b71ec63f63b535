"""Rubrics as files and as stored versions: make a version, list, show and compare them.

Files are what people edit; judging always uses a stored version, which never changes.
"""

import re
from collections.abc import Iterable
from difflib import unified_diff
from typing import Literal

from evalscribe.errors import DataError, NotFoundError
from evalscribe.ids import Frozen
from evalscribe.judging.rubrics import ENDING, FOLDER, load_rubric, rubric_names, to_yaml
from evalscribe.model.collection_storage import CollectionStore
from evalscribe.model.rubric import Collection, Rubric
from evalscribe.prompts.templates import Prompts

DEFAULT_COLLECTION = "default"
"""Where rubrics of the command line are; made when it is first needed."""
_VERSIONED = re.compile(r"(?P<name>.+)@(?P<version>[0-9]{1,18})")


class Created(Frozen):
    rubric: Rubric
    new: bool
    """False where the latest version was the same already."""


class Listed(Frozen):
    """A rubric by its name: as a file, as a stored version, or as both."""

    name: str
    version: int | None = None
    """The latest that is stored."""
    digest: str | None = None
    """Content id of that version, of the file where none is stored."""
    file: Literal["shipped", "workspace"] | None = None
    """Whose file it is; None where there is none any more."""
    changed: bool = False
    """Whether the file says something else than the latest version."""
    problem: str | None = None
    """Why the file is no rubric."""


class Listing(Frozen):
    collection: str
    rubrics: tuple[Listed, ...]


class Validated(Frozen):
    file: str
    """As it was asked for."""
    problem: str | None = None
    """Names the file, the line where there is one, and the path in it; None for a good rubric."""


def created(shelf: CollectionStore, prompts: Prompts, name: str, collection: str = DEFAULT_COLLECTION) -> Created:
    """The next version of a rubric, from the file that `name` is, or from `prompts/rubrics/NAME.yaml`.

    Raises `RubricError` for a file that is no rubric, `NotFoundError` for no file or an unknown collection.
    """
    rubric = load_rubric(name, prompts)
    before = _latest(shelf, rubric.id, collection)
    stored = shelf.add_rubric(collection, rubric)
    return Created(rubric=stored, new=before is None or before.version != stored.version)


def stored(shelf: CollectionStore, prompts: Prompts, name: str) -> Rubric:
    """The version to judge with: `NAME@2` that one, `NAME` the latest; the file is version 1 where none is stored.

    Raises `NotFoundError` naming what there is, `RubricError` for a file that is no rubric.
    """
    rubric_id, version = parsed_name(name)
    latest = _latest(shelf, rubric_id, DEFAULT_COLLECTION)
    if version is not None:
        return shelf.rubric(DEFAULT_COLLECTION, rubric_id, version)
    return latest or shelf.add_rubric(DEFAULT_COLLECTION, load_rubric(name, prompts))


def outdated(prompts: Prompts, rubric: Rubric, name: str) -> str | None:
    """A note for whoever judges with `NAME` while its file says something else by now; None otherwise."""
    if parsed_name(name)[1] is not None:
        return None
    try:
        file = load_rubric(name, prompts)
    except (NotFoundError, DataError):
        return None  # its stored version is good
    if file.digest == rubric.digest:
        return None
    return (
        f"the file of {rubric.id} differs from version {rubric.version}, which judges: "
        f"`evalscribe rubric create {rubric.id}` makes version {rubric.version + 1}"
    )


def listed(shelf: CollectionStore, prompts: Prompts, collection: str = DEFAULT_COLLECTION) -> Listing:
    """Every rubric that is shipped, in the workspace or stored, by name. Raises `NotFoundError`."""
    _make_default(shelf, collection)
    versions = {rubric.id: rubric for rubric in shelf.rubrics(collection)}
    own = {name.rpartition("/")[2].removesuffix(ENDING) for name in prompts.own(FOLDER)}
    rows = {name: _of_file(prompts, name, "workspace" if name in own else "shipped") for name in rubric_names(prompts)}
    for name, latest in versions.items():
        rows[name] = _with_version(rows.get(name, Listed(name=name)), latest)
    return Listing(collection=collection, rubrics=tuple(rows[name] for name in sorted(rows)))


def found(shelf: CollectionStore, prompts: Prompts, name: str, collection: str = DEFAULT_COLLECTION) -> Rubric:
    """What `NAME`, `NAME@2` or a file says, without storing it. Raises as `stored` does."""
    rubric_id, version = parsed_name(name)
    if version is not None:
        _make_default(shelf, collection)
        return shelf.rubric(collection, rubric_id, version)
    return _latest(shelf, rubric_id, collection) or load_rubric(name, prompts)


def checked(prompts: Prompts, files: Iterable[str]) -> tuple[Validated, ...]:
    """Each file, or rubric by its name, with what is wrong with it."""
    return tuple(Validated(file=file, problem=_problem(prompts, file)) for file in files)


def diffed(
    shelf: CollectionStore, prompts: Prompts, old: str, new: str | None = None, collection: str = DEFAULT_COLLECTION
) -> str:
    """Unified diff of two rubrics as YAML; by default of the latest version and the file. Empty: equal."""
    before = found(shelf, prompts, old, collection)
    after = found(shelf, prompts, new, collection) if new else load_rubric(before.id, prompts)
    old_lines, new_lines = (to_yaml(rubric).splitlines(keepends=True) for rubric in (before, after))
    names = (
        _title(shelf, before, old, collection),
        _title(shelf, after, new, collection) if new else f"{after.id} (file)",
    )
    return "".join(unified_diff(old_lines, new_lines, *names))


def parsed_name(name: str) -> tuple[str, int | None]:
    """`failure@2` is the rubric and its version; without one, the name alone."""
    match = _VERSIONED.fullmatch(name)
    return (match["name"], int(match["version"])) if match else (name, None)


def _of_file(prompts: Prompts, name: str, whose: Literal["shipped", "workspace"]) -> Listed:
    try:
        return Listed(name=name, file=whose, digest=load_rubric(name, prompts).digest)
    except DataError as error:
        return Listed(name=name, file=whose, problem=str(error))


def _with_version(row: Listed, latest: Rubric) -> Listed:
    changed = row.digest not in (None, latest.digest)
    return row.model_copy(update={"version": latest.version, "digest": latest.digest, "changed": changed})


def _title(shelf: CollectionStore, rubric: Rubric, name: str, collection: str) -> str:
    """`polite@2` for the latest version too; a file as it was named."""
    latest = _latest(shelf, rubric.id, collection) if name == rubric.id else None
    return f"{name}@{latest.version}" if latest else name


def _problem(prompts: Prompts, file: str) -> str | None:
    try:
        load_rubric(file, prompts)
    except (DataError, NotFoundError) as error:
        return str(error)
    return None


def _latest(shelf: CollectionStore, rubric_id: str, collection: str) -> Rubric | None:
    _make_default(shelf, collection)
    try:
        return shelf.rubric(collection, rubric_id)
    except NotFoundError:
        if any(there.id == collection for there in shelf.collections()):
            return None
        raise


def _make_default(shelf: CollectionStore, collection: str) -> None:
    if collection == DEFAULT_COLLECTION:
        shelf.add_collection(Collection(id=DEFAULT_COLLECTION, name=DEFAULT_COLLECTION))
