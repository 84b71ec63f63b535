"""Load rubrics from YAML files, and check the labels of rubrics that judge failures."""

import json
import re
from collections.abc import Iterable, Mapping
from difflib import unified_diff
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from evalscribe.errors import DataError, NotFoundError, RubricError, UsageError
from evalscribe.ids import Frozen
from evalscribe.json_data import join_path
from evalscribe.model.finding import CLASSIFICATIONS, Classification
from evalscribe.model.output_schema import META_SCHEMA
from evalscribe.model.rubric import DEFAULT_SCHEMA, Collection, Rubric
from evalscribe.prompts.files import dump_yaml, parse_yaml
from evalscribe.prompts.templates import Prompts

if TYPE_CHECKING:
    from evalscribe.store.collections import CollectionStore

FOLDER = "rubrics"
ENDING = ".yaml"
LARGEST = 256 * 1024
"""Maximum bytes of one rubric file."""
_NOT_IN_FILES = {"id": "the file's name is the rubric's id", "version": "a rubric gets its version when it is created"}
_OF_PROMPT = ("output_parsing_mode", "response_xml_key")
"""Names of the fields that determine the default prompt of a rubric."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")


def parse_rubric(text: str, name: str, where: str) -> Rubric:
    """Parse the text of a rubric file. The rubric gets the id `name`.

    Raises `RubricError` if the rubric is invalid. The error contains `where`, the line, and the path of the field.
    """
    if len(text.encode(errors="replace")) > LARGEST:
        raise RubricError("", f"is larger than {LARGEST // 1024} KiB", where)
    document = parse_yaml(text, where)
    try:
        return Rubric(**_fields(document.value), id=_checked_name(name))
    except RubricError as error:
        raise RubricError(error.path, error.problem, document.place(error.path)) from error


def load_rubric(name_or_path: str, prompts: Prompts) -> Rubric:
    """Load a rubric by name, or from the file at a path.

    Raises `NotFoundError` if the rubric or file does not exist. For a name, the message lists the available rubrics.
    Raises `RubricError` if the file is invalid.
    """
    if name_or_path.endswith((".yaml", ".yml")) or "/" in name_or_path:
        return _from_file(Path(name_or_path))
    names = rubric_names(prompts)
    if name_or_path not in names:
        raise NotFoundError(f"rubric {name_or_path!r} not found; give a file or one of {', '.join(names)}")
    return parse_rubric(_source(f"{FOLDER}/{name_or_path}{ENDING}", prompts), name_or_path, _file_name(name_or_path))


def rubric_names(prompts: Prompts) -> tuple[str, ...]:
    """Return the sorted names of the rubrics in the workspace and of those shipped with the package."""
    names = [name.removeprefix(f"{FOLDER}/") for name in prompts.names(FOLDER) if name.endswith(ENDING)]
    return tuple(name.removesuffix(ENDING) for name in names if "/" not in name)


def to_yaml(rubric: Rubric) -> str:
    """Return a rubric as YAML. Fields with default values are left out.

    Parsing this YAML gives an equal rubric, except that the id and the version can differ.
    """
    return dump_yaml(_explicit_fields(rubric))


def file_schema() -> dict[str, Any]:
    """Return the JSON Schema for rubric files, including the meta-schema for `output_schema`."""
    schema = {**Rubric.model_json_schema(), "description": f"A rubric as a file: prompts/{FOLDER}/<name>{ENDING}"}
    for name in _NOT_IN_FILES:
        del schema["properties"][name]
    meta_fields = {key: value for key, value in META_SCHEMA.items() if not key.startswith("$")}
    schema["properties"]["output_schema"] = {**meta_fields, "$ref": META_SCHEMA["$ref"], "default": DEFAULT_SCHEMA}
    definitions = {**schema.pop("$defs"), **META_SCHEMA["$defs"]}
    return {"$schema": META_SCHEMA["$schema"], **schema, "$defs": definitions}


def _file_name(name: str) -> str:
    return f"prompts/{FOLDER}/{name}{ENDING}"


def _fields(value: object) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise RubricError("", "must be a mapping of fields: rubric_text, output_schema …")
    for name, reason in _NOT_IN_FILES.items():
        if name in value:
            raise RubricError(name, f"does not belong in a file: {reason}")
    for name in value:
        if not isinstance(name, str):
            raise RubricError(join_path("", str(name)), "is unknown: a field name must be a string")
    return dict(value)


def _checked_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise RubricError("", f"a rubric cannot be called {name!r}: use only letters, digits, '.', '_' and '-'")
    return name


def _source(name: str, prompts: Prompts) -> str:
    try:
        return prompts.source(name)
    except UsageError as error:  # the file is not UTF-8, too large or unreadable
        raise RubricError("", str(error)) from error


def _from_file(path: Path) -> Rubric:
    try:
        # A named pipe is not a regular file. Reading from it would block the command.
        if not path.is_file():
            raise NotFoundError(f"file {path} not found")
        if path.stat().st_size > LARGEST:
            raise RubricError("", f"is larger than {LARGEST // 1024} KiB", str(path))
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise RubricError("", f"is not UTF-8 (byte {error.start})", str(path)) from error
    except OSError as error:
        raise RubricError("", f"cannot be read: {error.strerror}", str(path)) from error
    except ValueError as error:  # the path contains a null byte
        raise NotFoundError(f"file {str(path)!r} not found") from error
    return parse_rubric(text, path.stem, str(path))


def _explicit_fields(rubric: Rubric) -> dict[str, Any]:
    """Return the fields of a rubric that do not have their default values, in the order of the class `Rubric`."""
    # The default prompt depends on the parsing fields, so a rubric is compared with the default for its own parsing
    # fields.
    parsing_defaults = Rubric(
        rubric_text=rubric.rubric_text,
        output_parsing_mode=rubric.output_parsing_mode,
        response_xml_key=rubric.response_xml_key,
    )
    defaults = Rubric(rubric_text=rubric.rubric_text)
    by_default = {**_dump(parsing_defaults), **{name: _dump(defaults)[name] for name in _OF_PROMPT}}
    fields = {name: value for name, value in _dump(rubric).items() if _differs(value, by_default[name])}
    if "judge_model" in fields and rubric.judge_model.reasoning_effort is None:
        fields["judge_model"] = rubric.judge_model.id
    return {"rubric_text": rubric.rubric_text, **fields}


def _dump(rubric: Rubric) -> dict[str, Any]:
    return rubric.model_dump(mode="json", exclude=set(_NOT_IN_FILES), exclude_none=True)


def _differs(value: object, default: object) -> bool:
    """Return whether a value differs from the default value.

    The order of properties matters, because judges write their answers in that order.
    """
    return json.dumps(value) != json.dumps(default)


DEFAULT_RUBRIC = "failure"
"""Name of the shipped rubric for failures."""
LABEL_FIELD = "classification"


def failure_labels(rubric: Rubric) -> tuple[Classification, ...]:
    """Return the labels that a rubric for failures allows, in the order of `CLASSIFICATIONS`.

    Raises `UsageError` if the rubric is not for failures.
    """
    field = rubric.output_schema.get("properties", {}).get(LABEL_FIELD)
    labels = field.get("enum") if field else None
    if not labels:
        raise UsageError(
            f"rubric {rubric.id} does not judge failures: its schema has no `{LABEL_FIELD}` with an enum of labels\n"
            f"(allowed: {', '.join(CLASSIFICATIONS)}). To ask another question, use `evalscribe judge {rubric.id}`"
        )
    unknown = [str(label) for label in labels if label not in CLASSIFICATIONS]
    if unknown:
        raise UsageError(
            f"rubric {rubric.id} does not judge failures: its `{LABEL_FIELD}` allows {unknown[0]!r}, "
            f"but an analysis only accepts {', '.join(CLASSIFICATIONS)}"
        )
    return tuple(label for label in CLASSIFICATIONS if label in labels)


@cache
def default_rubric() -> Rubric:
    """Return the default rubric as shipped with the package."""

    return load_rubric(DEFAULT_RUBRIC, Prompts())


def judge_id(model: str, rubric: Rubric) -> str:
    """Return the id of a judge.

    The id begins with the model's name. If the rubric is not the default rubric, the id continues with the name and
    version of the rubric, as in ` with unfair-check@2`.
    """
    return model if rubric.digest == default_rubric().digest else f"{model} with {rubric.id}@{rubric.version}"


DEFAULT_COLLECTION = "default"
"""Collection for rubrics that are used on the command line. The collection is created when it is first needed."""
_VERSIONED = re.compile(r"(?P<name>.+)@(?P<version>[0-9]{1,18})")


class CreatedRubric(Frozen):
    rubric: Rubric
    new: bool
    """True if a new version was stored. False if the file equals the latest stored version."""


class ListedRubric(Frozen):
    """A rubric that exists as a file, as a stored version, or as both."""

    name: str
    version: int | None = None
    """Number of the latest stored version; None if no version is stored."""
    digest: str | None = None
    """Content id of the latest stored version, or of the file if no version is stored."""
    file: Literal["shipped", "workspace"] | None = None
    """Origin of the rubric's file; None if there is no file."""
    changed: bool = False
    """True if the file differs from the latest stored version."""
    problem: str | None = None
    """Reason why the file is not a valid rubric; None if it is valid."""


class RubricListing(Frozen):
    collection: str
    rubrics: tuple[ListedRubric, ...]


class ValidatedRubric(Frozen):
    file: str
    """The file or name as requested."""
    problem: str | None = None
    """Description of the problem, with the path of the field and, if known, the line. None for a valid rubric."""


def create_rubric(
    store: "CollectionStore", prompts: Prompts, name: str, collection: str = DEFAULT_COLLECTION
) -> CreatedRubric:
    """Store a rubric file as the next version of its rubric.

    `name`: path of the file, or NAME for `prompts/rubrics/NAME.yaml`.

    Raises `RubricError` for an invalid file, and `NotFoundError` for a missing file or an unknown collection.
    """
    rubric = load_rubric(name, prompts)
    _make_default(store, collection)
    previous = _latest(store, rubric.id, collection)
    stored = store.add_rubric(collection, rubric)
    return CreatedRubric(rubric=stored, new=previous is None or previous.version != stored.version)


def store_rubric(store: "CollectionStore", prompts: Prompts, name: str) -> Rubric:
    """Return a stored rubric: version 2 for the name `NAME@2`, the latest version for the name `NAME`.

    For the name `NAME`, if no version is stored yet, the rubric's file is stored as the first version.

    Raises `NotFoundError` if the rubric does not exist. The message lists the available rubrics. Raises `RubricError`
    if the file is invalid.
    """
    rubric_id, version = parse_rubric_name(name)
    _make_default(store, DEFAULT_COLLECTION)
    latest = _latest(store, rubric_id, DEFAULT_COLLECTION)
    if version is not None:
        return store.rubric(DEFAULT_COLLECTION, rubric_id, version)
    return latest or store.add_rubric(DEFAULT_COLLECTION, load_rubric(name, prompts))


def outdated_note(prompts: Prompts, rubric: Rubric, name: str) -> str | None:
    """Return a note if a rubric's file differs from the stored version that is used.

    Return None if they are equal, if there is no valid file, or if `name` asks for a version, as in `NAME@2`.
    """
    if parse_rubric_name(name)[1] is not None:
        return None
    try:
        file = load_rubric(name, prompts)
    except (NotFoundError, DataError):
        return None  # the stored version is used if there is no valid file
    if file.digest == rubric.digest:
        return None
    return (
        f"the file of {rubric.id} differs from version {rubric.version}, which is used: "
        f"`evalscribe rubrics create {rubric.id}` makes version {rubric.version + 1}"
    )


def list_rubrics(
    store: "CollectionStore | None", prompts: Prompts, collection: str = DEFAULT_COLLECTION
) -> RubricListing:
    """Return all rubrics, sorted by name: shipped rubrics, the workspace's rubrics, and stored rubrics.

    If `store` is None, no stored rubrics are listed. Raises `NotFoundError` for an unknown collection.
    """
    stored = store.rubrics(collection) if store and not _lacks_default(store, collection) else ()
    versions = {rubric.id: rubric for rubric in stored}
    workspace_names = {name.rpartition("/")[2].removesuffix(ENDING) for name in prompts.overrides(FOLDER)}
    rows = {
        name: _of_file(prompts, name, "workspace" if name in workspace_names else "shipped")
        for name in rubric_names(prompts)
    }
    for name, latest in versions.items():
        rows[name] = _with_version(rows.get(name, ListedRubric(name=name)), latest)
    return RubricListing(collection=collection, rubrics=tuple(rows[name] for name in sorted(rows)))


def find_rubric(store: "CollectionStore", prompts: Prompts, name: str, collection: str = DEFAULT_COLLECTION) -> Rubric:
    """Return a rubric without storing it.

    `name`: `NAME`, `NAME@2` or the path of a file. Raises the same errors as `store_rubric`.
    """
    rubric_id, version = parse_rubric_name(name)
    if version is not None and not _lacks_default(store, collection):
        return store.rubric(collection, rubric_id, version)
    if version is not None:
        raise NotFoundError(f"rubric {rubric_id!r} in collection {collection!r} not found; available: none yet")
    return _latest(store, rubric_id, collection) or load_rubric(name, prompts)


def validate_rubrics(prompts: Prompts, files: Iterable[str]) -> tuple[ValidatedRubric, ...]:
    """Validate rubrics, each given as a path or a name. Return one result for each rubric, valid or not."""
    return tuple(ValidatedRubric(file=file, problem=_problem(prompts, file)) for file in files)


def diff_rubrics(
    store: "CollectionStore", prompts: Prompts, old: str, new: str | None = None, collection: str = DEFAULT_COLLECTION
) -> str:
    """Return the unified diff between the YAML of two rubrics; empty if the two are equal.

    If `new` is None, compare `old` with the file of the same rubric.
    """
    old_rubric = find_rubric(store, prompts, old, collection)
    new_rubric = find_rubric(store, prompts, new, collection) if new else load_rubric(old_rubric.id, prompts)
    old_lines, new_lines = (to_yaml(rubric).splitlines(keepends=True) for rubric in (old_rubric, new_rubric))
    names = (
        _title(store, old_rubric, old, collection),
        _title(store, new_rubric, new, collection) if new else f"{new_rubric.id} (file)",
    )
    return "".join(unified_diff(old_lines, new_lines, *names))


def parse_rubric_name(name: str) -> tuple[str, int | None]:
    """Split a name such as `failure@2` into the rubric's name and version. Without `@`, the version is None."""
    match = _VERSIONED.fullmatch(name)
    return (match["name"], int(match["version"])) if match else (name, None)


def _of_file(prompts: Prompts, name: str, whose: Literal["shipped", "workspace"]) -> ListedRubric:
    try:
        return ListedRubric(name=name, file=whose, digest=load_rubric(name, prompts).digest)
    except DataError as error:
        return ListedRubric(name=name, file=whose, problem=str(error))


def _with_version(row: ListedRubric, latest: Rubric) -> ListedRubric:
    changed = row.digest not in (None, latest.digest)
    return row.model_copy(update={"version": latest.version, "digest": latest.digest, "changed": changed})


def _title(store: "CollectionStore", rubric: Rubric, name: str, collection: str) -> str:
    """Return the title of a rubric in a diff: `polite@2` for a stored version, otherwise the name as given."""
    latest = _latest(store, rubric.id, collection) if name == rubric.id else None
    return f"{name}@{latest.version}" if latest else name


def _problem(prompts: Prompts, file: str) -> str | None:
    try:
        load_rubric(file, prompts)
    except (DataError, NotFoundError) as error:
        return str(error)
    return None


def _latest(store: "CollectionStore", rubric_id: str, collection: str) -> Rubric | None:
    if _lacks_default(store, collection):
        return None
    try:
        return store.rubric(collection, rubric_id)
    except NotFoundError:
        # A known collection without this rubric is no error, but an unknown collection is.
        if any(existing.id == collection for existing in store.collections()):
            return None
        raise


def _lacks_default(store: "CollectionStore", collection: str) -> bool:
    """Return whether `collection` is the default collection and does not exist yet.

    The default collection is created when the first rubric is stored.
    """
    return collection == DEFAULT_COLLECTION and all(item.id != collection for item in store.collections())


def _make_default(store: "CollectionStore", collection: str) -> None:
    if collection == DEFAULT_COLLECTION:
        store.add_collection(Collection(id=DEFAULT_COLLECTION, name=DEFAULT_COLLECTION))
