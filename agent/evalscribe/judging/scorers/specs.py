"""From a name and a configuration, as somebody wrote them, to a scorer's spec and to the scorer itself."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import JsonValue, ValidationError

from evalscribe.errors import UsageError
from evalscribe.ids import Frozen
from evalscribe.judging.scorers.catalogue import found, kinds
from evalscribe.judging.scorers.kind import Alias, Check
from evalscribe.judging.scorers.result import CannotScore, broken
from evalscribe.output_schema.path import shown
from evalscribe.ports import ScorerRunner
from evalscribe.score import ScoreResult, ScorerRequest
from evalscribe.scorer_spec import ScorerSpec

F = TypeVar("F", bound=Frozen)


def spec(name: str, config: Mapping[str, JsonValue]) -> ScorerSpec:
    """A scorer without a model, by its name or another name of one of its settings; its config complete.

    Raises `UsageError` naming the key and its rule.
    """
    one = found(name)
    given = configured(one.config, name, config)
    if isinstance(one, Alias):
        given = configured(kinds()[one.of].config, name, one.translated(given))
        one = kinds()[one.of]
    if one.check is None:
        raise UsageError(f"scorer {name} needs a model")
    return ScorerSpec(
        name=name, scorer=one.name, config=given.model_dump(mode="json"), code=f"{one.name}/{one.version}"
    )


def runner(spec: ScorerSpec) -> ScorerRunner:
    """Ready to score. Raises `UsageError` for a spec that `spec` would not make."""
    kind = kinds().get(spec.scorer)
    if kind is None or kind.check is None:
        raise UsageError(f"scorer {spec.name} ({spec.scorer}) is none without a model")
    return _Runner(spec.name, kind.check(configured(kind.config, spec.name, spec.config)))


@dataclass
class _Runner:
    name: str
    check: Check
    depends_on: tuple[str, ...] = ()

    async def score(self, request: ScorerRequest) -> ScoreResult:
        """The one place where what concerns one item becomes data."""
        try:
            return await self.check(request)
        except CannotScore as error:
            return broken(error)
        except RecursionError:
            return broken(CannotScore("input_error", "the values of this item are nested too deeply to be compared"))

    async def close(self) -> None:
        await self.check.close()


def configured(shape: type[F], name: str, config: Mapping[str, JsonValue]) -> F:
    """Raises `UsageError` naming the key and its rule."""
    try:
        return shape.model_validate_json(json.dumps(config, allow_nan=False))
    except ValidationError as error:
        raise UsageError(f"scorer {name}: {_told(error, shape, name)}") from error
    except (ValueError, TypeError, RecursionError) as error:
        raise UsageError(f"scorer {name}: its config is no JSON: {error}") from error


def _told(error: ValidationError, shape: type[Frozen], name: str) -> str:
    """The first problem in our words."""
    details = error.errors()[0]
    path = ".".join(str(part) for part in details["loc"])
    keys = [field.alias or key for key, field in shape.model_fields.items()]
    match details["type"]:
        case "missing":
            return f"{path} is missing; {_example(shape, name)}"
        case "extra_forbidden":
            return f"{path} is unknown; its config has: {', '.join(keys) or 'nothing'}"
        case "value_error":
            return f"{path} {details['ctx']['error']}".lstrip()
        case _:
            return f"{path} {_rule(details['msg'])}, not {shown(details['input'])}".lstrip()


def _rule(message: str) -> str:
    return re.sub(r"^\w+ should", "must", message)


def _example(shape: type[Frozen], name: str) -> str:
    """How to write what is required, so that it can be copied."""
    properties: dict[str, Any] = shape.model_json_schema(by_alias=True)
    said = {key: f"… {properties['properties'][key].get('description', '')}".rstrip() for key in properties["required"]}
    return f"write {json.dumps({'name': name, 'config': said}, ensure_ascii=False)}"
