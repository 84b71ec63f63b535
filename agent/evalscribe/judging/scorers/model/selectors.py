"""Parts of a run item that a judge is shown, by name: `output`, `input.context`, `metadata.docs.0`, `transcript`."""

from collections.abc import Mapping

from pydantic import JsonValue, TypeAdapter, ValidationError

from evalscribe.judging.scorers.fields import Selector, picked
from evalscribe.judging.scorers.result import CannotScore
from evalscribe.model.evidence import Role
from evalscribe.model.score import ScorerRequest

TRANSCRIPT = "transcript"
ROLES: Mapping[str, Role] = {"input": "task", "output": "output", "expected": "expected", "metadata": "task"}
_SELECTOR: TypeAdapter[str] = TypeAdapter(Selector)


def check_name(name: str) -> None:
    """Raises `ValueError` for what is no name of a part."""
    try:
        _SELECTOR.validate_python("output" if name == TRANSCRIPT else name)
    except ValidationError as error:
        raise ValueError(f"{name} {error.errors()[0]['ctx']['error']}") from None


def root_of(name: str) -> str:
    return name.partition(".")[0]


def role_of(name: str) -> Role:
    """As what kind of document it is shown."""
    return "transcript" if name == TRANSCRIPT else ROLES[root_of(name)]


def selected(name: str, request: ScorerRequest) -> JsonValue:
    """Raises `CannotScore` where it is not there, or null."""
    if name == TRANSCRIPT:
        if request.transcript is None:
            raise CannotScore("artifact_error", "the target recorded no transcript")
        return request.transcript
    value = picked(request, name)
    if value is None:
        raise CannotScore("input_error", f"there is no {name}: it is null")
    return value
