"""Parts of a run item by name: `output`, `input.context`, `metadata.docs[0]`."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, JsonValue

from evalscribe.evidence import Role
from evalscribe.judging.scorers.fields import member, read, steps
from evalscribe.judging.scorers.result import CannotScore
from evalscribe.output_schema.path import joined
from evalscribe.score import ScorerRequest

ROOTS: Mapping[str, Role] = {
    "input": "task",
    "output": "output",
    "expected": "expected",
    "metadata": "task",
    "transcript": "transcript",
}
"""What a name may begin with, and as what role of document a judge is shown it."""


def _checked(name: str) -> str:
    root, *inner = steps(name)
    if root not in ROOTS:
        raise ValueError(f"{name!r} begins with none of {', '.join(ROOTS)}")
    if inner and root == "transcript":
        raise ValueError(f"{name!r} is no part: a transcript is text and shown whole")
    return name


PartName = Annotated[str, AfterValidator(_checked)]


def checked_name(name: str) -> str:
    """Raises `ValueError` for what is no name of a part."""
    return _checked(name)


def root_of(name: str) -> str:
    return str(steps(name)[0])


def selected(name: str, request: ScorerRequest) -> JsonValue:
    """Raises `CannotScore` where it is not there, or null."""
    root, *inner = steps(name)
    path = str(root)
    value: JsonValue = getattr(request, path)
    value = read(path, value) if inner and isinstance(value, str) else value
    for step in inner if value is not None else ():
        value = member(path, value, step)
        path = joined(path, step)
    if value is None:
        raise _missing(path)
    return value


def _missing(path: str) -> CannotScore:
    if path == "transcript":
        return CannotScore("artifact_error", "the target recorded no transcript")
    if path == "expected":
        return CannotScore("input_error", "the item has no expected output to compare with")
    return CannotScore("input_error", f"there is no {path}: it is null")
