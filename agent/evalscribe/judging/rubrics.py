"""Load rubrics from the YAML files that people edit, and check those that judge failures."""

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from evalscribe.errors import NotFoundError, RubricError, UsageError
from evalscribe.json_data import join_path
from evalscribe.model.finding import CLASSIFICATIONS, Classification
from evalscribe.model.output_schema import META_SCHEMA
from evalscribe.model.rubric import DEFAULT_SCHEMA, Rubric
from evalscribe.prompts.files import dump_yaml, parse_yaml
from evalscribe.prompts.templates import Prompts

FOLDER = "rubrics"
ENDING = ".yaml"
LARGEST = 256 * 1024
"""Bytes of one file."""
_NOT_IN_FILES = {"id": "the file's name is the rubric's id", "version": "versions are given when a rubric is created"}
_OF_PROMPT = ("output_parsing_mode", "response_xml_key")
"""What the default prompt is made for."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")


def parse_rubric(text: str, name: str, where: str) -> Rubric:
    """The rubric of a file's text, its id being `name`.

    Raises `RubricError` with `where`, the line, and the path.
    """
    if len(text.encode(errors="replace")) > LARGEST:
        raise RubricError("", f"is larger than {LARGEST // 1024} KiB", where)
    document = parse_yaml(text, where)
    try:
        return Rubric(**_fields(document.value), id=_checked_name(name))
    except RubricError as error:
        raise RubricError(error.path, error.problem, document.place(error.path)) from error


def load_rubric(name_or_path: str, prompts: Prompts) -> Rubric:
    """A rubric by its name, or from the file at a path.

    Raises `NotFoundError` naming what there is, `RubricError` for a file that is none.
    """
    if name_or_path.endswith((".yaml", ".yml")) or "/" in name_or_path:
        return _from_file(Path(name_or_path))
    names = rubric_names(prompts)
    if name_or_path not in names:
        raise NotFoundError(f"there is no rubric {name_or_path!r}; there is: {', '.join(names)}, or the path of a file")
    return parse_rubric(_source(f"{FOLDER}/{name_or_path}{ENDING}", prompts), name_or_path, _place(name_or_path))


def rubric_names(prompts: Prompts) -> tuple[str, ...]:
    """Of the workspace's rubrics and the shipped ones, in order."""
    names = [name.removeprefix(f"{FOLDER}/") for name in prompts.names(FOLDER) if name.endswith(ENDING)]
    return tuple(name.removesuffix(ENDING) for name in names if "/" not in name)


def to_yaml(rubric: Rubric) -> str:
    """The file of a rubric, without what is so by default: parsing it gives an equal one, but for id and version."""
    return dump_yaml(_written(rubric))


def file_schema() -> dict[str, Any]:
    """JSON Schema of a rubric's file, the meta-schema of its `output_schema` included."""
    schema = {**Rubric.model_json_schema(), "description": f"A rubric as a file: prompts/{FOLDER}/<name>{ENDING}"}
    for name in _NOT_IN_FILES:
        del schema["properties"][name]
    own = {key: value for key, value in META_SCHEMA.items() if not key.startswith("$")}
    schema["properties"]["output_schema"] = {**own, "$ref": META_SCHEMA["$ref"], "default": DEFAULT_SCHEMA}
    definitions = {**schema.pop("$defs"), **META_SCHEMA["$defs"]}
    return {"$schema": META_SCHEMA["$schema"], **schema, "$defs": definitions}


def _place(name: str) -> str:
    return f"prompts/{FOLDER}/{name}{ENDING}"


def _fields(value: object) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise RubricError("", "must be a mapping of fields: rubric_text, output_schema …")
    for name, why in _NOT_IN_FILES.items():
        if name in value:
            raise RubricError(name, f"does not belong in a file: {why}")
    for name in value:
        if not isinstance(name, str):
            raise RubricError(join_path("", str(name)), "is unknown: names of fields are text")
    return dict(value)


def _checked_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise RubricError("", f"a rubric cannot be called {name!r}: letters, digits, '.', '_' and '-' only")
    return name


def _source(name: str, prompts: Prompts) -> str:
    try:
        return prompts.source(name)
    except UsageError as error:  # not UTF-8, too large or unreadable: the file's fault, not the command line's
        raise RubricError("", str(error)) from error


def _from_file(path: Path) -> Rubric:
    try:
        if not path.is_file():
            raise NotFoundError(f"there is no file {path}")
        if path.stat().st_size > LARGEST:
            raise RubricError("", f"is larger than {LARGEST // 1024} KiB", str(path))
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise RubricError("", f"is not UTF-8 (byte {error.start})", str(path)) from error
    except OSError as error:
        raise RubricError("", f"cannot be read: {error.strerror}", str(path)) from error
    except ValueError as error:  # a path with a null byte
        raise NotFoundError(f"there is no file {str(path)!r}") from error
    return parse_rubric(text, path.stem, str(path))


def _written(rubric: Rubric) -> dict[str, Any]:
    """Its fields but for those that are so by default, in the order of `Rubric`."""
    bare = Rubric(
        rubric_text=rubric.rubric_text,
        output_parsing_mode=rubric.output_parsing_mode,
        response_xml_key=rubric.response_xml_key,
    )
    plain = Rubric(rubric_text=rubric.rubric_text)
    by_default = {**_dumped(bare), **{name: _dumped(plain)[name] for name in _OF_PROMPT}}
    told = {name: value for name, value in _dumped(rubric).items() if _differs(value, by_default[name])}
    if "judge_model" in told and rubric.judge_model.reasoning_effort is None:
        told["judge_model"] = rubric.judge_model.id
    return {"rubric_text": rubric.rubric_text, **told}


def _dumped(rubric: Rubric) -> dict[str, Any]:
    return rubric.model_dump(mode="json", exclude=set(_NOT_IN_FILES), exclude_none=True)


def _differs(one: object, other: object) -> bool:
    """In the order of its properties too: a judge writes them in that order."""
    return json.dumps(one) != json.dumps(other)


DEFAULT_RUBRIC = "failure"
"""The shipped rubric for failures."""
LABEL_FIELD = "classification"


def failure_labels(rubric: Rubric) -> tuple[Classification, ...]:
    """The labels that a rubric for failures gives, in our order. Raises `UsageError` for any other rubric."""
    field = rubric.output_schema.get("properties", {}).get(LABEL_FIELD)
    given = field.get("enum") if field else None
    if not given:
        raise UsageError(
            f"rubric {rubric.id} judges no failures: its schema has no `{LABEL_FIELD}` with an enum of labels\n"
            f"(of {', '.join(CLASSIFICATIONS)}); any question can be asked with `evalscribe judge {rubric.id}`"
        )
    unknown = [str(label) for label in given if label not in CLASSIFICATIONS]
    if unknown:
        raise UsageError(
            f"rubric {rubric.id} judges no failures: {LABEL_FIELD} may be {unknown[0]!r}; "
            f"an analysis knows {', '.join(CLASSIFICATIONS)}"
        )
    return tuple(label for label in CLASSIFICATIONS if label in given)


@cache
def default_rubric() -> Rubric:
    """The default rubric as it came with the package."""

    return load_rubric(DEFAULT_RUBRIC, Prompts())


def judge_id(model: str, rubric: Rubric) -> str:
    """`anthropic/claude-opus-5-5`, and `anthropic/claude-opus-5-5 with unfair-check@2` for any rubric but the shipped
    default."""
    return model if rubric.digest == default_rubric().digest else f"{model} with {rubric.id}@{rubric.version}"
