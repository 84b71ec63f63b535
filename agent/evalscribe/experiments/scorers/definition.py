"""Definition of a built-in scorer: its name, configuration, check and result."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import ConfigDict, JsonValue, ValidationError

from evalscribe.errors import UsageError
from evalscribe.ids import Frozen
from evalscribe.json_data import preview
from evalscribe.model.score import ScoreErrorType, ScoreResult, ScorerRequest


class CannotScore(Exception):
    """Raised if a check lacks something that it needs. The item then neither passes nor fails."""

    def __init__(self, error_type: ScoreErrorType, reason: str) -> None:
        super().__init__(reason)
        self.error_type = error_type
        self.reason = reason


def score_result(
    passed: bool,
    explanation: str,
    *,
    label: str,
    value: float | None = None,
    evidence: JsonValue = None,
    metadata: Mapping[str, JsonValue] | None = None,
) -> ScoreResult:
    """Build the result of a check. By default, its value is 1 if `passed` is true, else 0."""
    return ScoreResult(
        value=float(passed) if value is None else value,
        passed=passed,
        label=label,
        explanation=explanation,
        evidence=evidence,
        metadata=dict(metadata or {}),
    )


def error_result(error: CannotScore) -> ScoreResult:
    return ScoreResult(status="error", error_type=error.error_type, explanation=error.reason)


class ScorerConfig(Frozen):
    """Base class of scorer configurations. Unknown keys are refused, and types are not converted."""

    model_config = ConfigDict(
        strict=True, allow_inf_nan=False, use_attribute_docstrings=True, validate_by_alias=True, serialize_by_alias=True
    )


C = TypeVar("C", bound=Frozen)


class ScorerCheck:
    """Base class of checks. A check is a scorer with its configuration."""

    async def __call__(self, request: ScorerRequest) -> ScoreResult:
        """Score one item. Raises `CannotScore` for a problem that affects only this item."""
        raise NotImplementedError

    async def close(self) -> None:
        """End the processes that the check has started. A check without processes need not override this method."""


@dataclass(frozen=True)
class ScorerKind(Generic[C]):
    """A built-in scorer: its name, description, config class and check."""

    name: str
    line: str
    """Description of the check, in one line."""
    config: type[C]
    check: Callable[[C], ScorerCheck] | None
    """Builds the check from a config. None for scorers that ask a model; the module `model_specs` builds their specs.
    """
    version: int = 1
    """Version of the check. Raise the version when the check's rule changes, so that older scores are not reused."""


@dataclass(frozen=True)
class ScorerAlias(Generic[C]):
    """A preset: another name for a scorer with fixed settings."""

    name: str
    of: str
    line: str
    config: type[C]
    translate: Callable[[C], Mapping[str, JsonValue]]


def function_check(check: Callable[[C, ScorerRequest], ScoreResult]) -> Callable[[C], ScorerCheck]:
    """Return a function that builds a check from a config. The check calls `check` with the config and the request."""
    return lambda config: FunctionCheck(lambda request: check(config, request))


@dataclass(frozen=True)
class FunctionCheck(ScorerCheck):
    """A check that calls a plain function."""

    check: Callable[[ScorerRequest], ScoreResult]

    async def __call__(self, request: ScorerRequest) -> ScoreResult:
        return self.check(request)


AnyKind = ScorerKind[Any]
AnyAlias = ScorerAlias[Any]


F = TypeVar("F", bound=Frozen)


def validate_config(model: type[F], name: str, config: Mapping[str, JsonValue], fields: tuple[str, ...] = ()) -> F:
    """Validate a config. Raises `UsageError` with the invalid key and the rule that the key violates."""
    try:
        # In strict mode, pydantic accepts a list for a tuple only from JSON.
        return model.model_validate_json(json.dumps(config, allow_nan=False))
    except ValidationError as error:
        raise UsageError(f"scorer {name}: {_describe(error, model, name)}", fields=fields) from error
    except (ValueError, TypeError, RecursionError) as error:
        raise UsageError(f"scorer {name}: its config is not JSON: {error}", fields=fields) from error


def _describe(error: ValidationError, model: type[Frozen], name: str) -> str:
    """Describe the first validation error of an invalid config."""
    details = error.errors()[0]
    path = ".".join(str(part) for part in details["loc"])
    keys = [field.alias or key for key, field in model.model_fields.items()]
    match details["type"]:
        case "missing":
            return f"{path} is missing; {_example(model, name)}"
        case "extra_forbidden":
            return f"{path} is unknown; known keys: {', '.join(keys) or 'none'}"
        case "value_error":
            return f"{path} {details['ctx']['error']}".lstrip()
        case _:
            return f"{path} {_rule(details['msg'])}, not {preview(details['input'])}".lstrip()


def _rule(message: str) -> str:
    return re.sub(r"^\w+ should", "must", message)


def _example(model: type[Frozen], name: str) -> str:
    """Return an example config that the user can copy. The example has all required keys."""
    properties: dict[str, Any] = model.model_json_schema(by_alias=True)
    placeholders = {
        key: f"… {properties['properties'][key].get('description', '')}".rstrip() for key in properties["required"]
    }
    return f"write {json.dumps({'name': name, 'config': placeholders}, ensure_ascii=False)}"
