"""The `@scorer` decorator: a user's own functions as scorers."""

import inspect
import json
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar, overload

from pydantic import Field, JsonValue, TypeAdapter, ValidationError

from evalscribe.errors import UsageError
from evalscribe.ids import Frozen
from evalscribe.model.score import ScoreResult, ScorerRequest

F = TypeVar("F", bound=Callable[..., object])
THRESHOLD = 0.7
"""Default threshold: the minimum returned number that passes."""
MAX_MESSAGE = 200
ABOUT = "__evalscribe_scorer__"
"""Attribute of a decorated function: its `ScorerDeclaration` as JSON."""
CALL = "__evalscribe_call__"
"""Attribute of a decorated function: its entry point, from a `BoundRequest` to a `ScoreResult`, both as JSON."""
_FIELDS = ("status", "value", "score", "passed", "label", "explanation", "error_type", "metadata", "evidence")
"""Keys of a dictionary that a function may return; `score` is an alias of `value`."""
_JSON: TypeAdapter[JsonValue] = TypeAdapter(JsonValue)


class ScorerDeclaration(Frozen):
    """Declaration of a decorated function."""

    name: str
    description: str = ""
    depends_on: tuple[str, ...] = ()
    """Names of the scorers whose results the function receives in `peer_scores`."""
    config: dict[str, JsonValue] = Field(default_factory=dict)
    """The scorer's settings with their defaults. Other keys are refused, unless there are no settings."""
    threshold: float = Field(default=THRESHOLD, ge=0, le=1)
    """Minimum returned number that passes."""


class BoundRequest(ScorerRequest):
    """A `ScorerRequest` with the settings of the scorer that receives it."""

    config: dict[str, JsonValue] = Field(default_factory=dict)


class ScorerContext(Frozen):
    """First argument of a scorer function with two parameters."""

    scorer: str
    config: dict[str, JsonValue] = Field(default_factory=dict)


@overload
def scorer(function: F, /) -> F: ...
@overload
def scorer(
    *,
    name: str | None = None,
    description: str | None = None,
    depends_on: tuple[str, ...] = (),
    config: Mapping[str, JsonValue] | None = None,
    threshold: float = THRESHOLD,
    scope: str = "item",
) -> Callable[[F], F]: ...
def scorer(
    function: F | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    depends_on: tuple[str, ...] = (),
    config: Mapping[str, JsonValue] | None = None,
    threshold: float = THRESHOLD,
    scope: str = "item",
) -> F | Callable[[F], F]:
    """Make a scorer of `function(request)` or `function(ctx, request)`, sync or async.

    It returns a `ScoreResult`, a bool, a number from 0 to 1, a dictionary of a result's fields, or None, which
    abstains. Raises `UsageError` for a function with other parameters, and for every scope but `item`.
    """
    if scope != "item":
        raise UsageError(f"scope {scope!r} is not supported: a scorer sees one item of a run (scope 'item')")

    def decorated(function: F) -> F:
        _arguments(function)
        told = ScorerDeclaration(
            name=name or getattr(function, "__name__", type(function).__name__),
            description=description or _first_line(function),
            depends_on=tuple(depends_on),
            config=dict(config or {}),
            threshold=threshold,
        )
        setattr(function, ABOUT, told.model_dump(mode="json"))
        setattr(function, CALL, _answering(function, told))
        return function

    return decorated if function is None else decorated(function)


def _answering(function: Callable[..., object], told: ScorerDeclaration) -> Callable[[object], object]:
    """Return the function to store as `CALL`; it is async if `function` is async."""

    async def later(payload: object) -> object:
        returned = _called(function, told, payload)
        return _json(await returned if inspect.isawaitable(returned) else returned, told)

    def now(payload: object) -> object:
        returned = _called(function, told, payload)
        return _awaited(returned, told) if inspect.isawaitable(returned) else _json(returned, told)

    return later if inspect.iscoroutinefunction(inspect.unwrap(function)) else now


async def _awaited(returned: Awaitable[object], told: ScorerDeclaration) -> object:
    return _json(await returned, told)


def _json(returned: object, told: ScorerDeclaration) -> object:
    return parse_result(returned, told.threshold).model_dump(mode="json")


def _called(function: Callable[..., object], told: ScorerDeclaration, payload: object) -> object:
    """Call the function and return its result or awaitable. Raises whatever it raises."""
    request = BoundRequest.model_validate(payload)
    if _arguments(function) == 1:
        return function(request)
    return function(ScorerContext(scorer=told.name, config=request.config), request)


def parse_result(returned: object, threshold: float = THRESHOLD) -> ScoreResult:
    """Convert what a function returned into a checked result; an invalid one is an error, never a score."""
    try:
        return _checked(_result(returned, threshold))
    except (ValueError, RecursionError) as error:  # a ValidationError is a ValueError
        return _broken(_reason(error))


def _result(returned: object, threshold: float) -> ScoreResult:
    match returned:
        case ScoreResult():
            return _whole(returned.model_dump(), threshold)
        case None:
            return ScoreResult(status="unscored", explanation="the scorer abstains: it returned None")
        case bool():
            return _whole({"passed": returned, "output": returned}, threshold)
        case int() | float():
            return _whole({"value": float(returned), "output": returned}, threshold)
        case dict():
            return _whole({**_named(returned), "output": _JSON.validate_python(returned)}, threshold)
    kinds = "a ScoreResult, a bool, a number from 0 to 1, a dict or None"
    raise ValueError(f"it returned {type(returned).__name__}; it must return {kinds}")


def _named(returned: dict[Any, Any]) -> dict[str, Any]:
    unknown = [str(key) for key in returned if key not in _FIELDS]
    if unknown:
        raise ValueError(f"it returned a dict with the unknown key {unknown[0]!r}; keys: {', '.join(_FIELDS)}")
    if "score" in returned and "value" in returned:
        raise ValueError("it returned a dict with 'score' and 'value', which mean the same: return one")
    return {"value" if key == "score" else key: value for key, value in returned.items()}


def _whole(fields: dict[str, Any], threshold: float) -> ScoreResult:
    """Fill in missing fields: value from passed, passed from value, explanation from both."""
    value, passed = fields.get("value"), fields.get("passed")
    if fields.get("status", "ok") != "ok":
        return ScoreResult(**{"explanation": "", **fields, "value": None, "passed": None})
    if value is None and passed is None:
        raise ValueError("it returned neither a value nor passed")
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise ValueError(f"its value is not a number but {type(value).__name__}")
    if value is not None and not (math.isfinite(value) and 0 <= value <= 1):
        raise ValueError(f"its value must be from 0 to 1, not {value}")
    settled = {"value": float(bool(passed)) if value is None else float(value)}
    said = fields.get("explanation") or _said(value, passed, threshold)
    passes = settled["value"] >= threshold if passed is None else passed
    return ScoreResult.model_validate({**fields, **settled, "passed": passes, "explanation": said}, strict=True)


def _said(value: float | None, passed: bool | None, threshold: float) -> str:
    if passed is not None:
        return f"the scorer says it {'passed' if passed else 'failed'}"
    return f"the scorer returned {value:g}; the threshold is {threshold:g}"


def _checked(result: ScoreResult) -> ScoreResult:
    """Return a result that can be stored: JSON without NaN, an explanation, and a type for every error."""
    json.dumps(result.model_dump(mode="json"), allow_nan=False)
    wanted: dict[str, object] = {}
    if not result.explanation.strip():
        wanted["explanation"] = f"the scorer returned {result.status} without a reason"
    if (result.status == "error") != (result.error_type is not None):
        wanted["error_type"] = "scorer_error" if result.status == "error" else None
    return result.model_copy(update=wanted)


def _broken(reason: str) -> ScoreResult:
    return ScoreResult(status="error", error_type="scorer_error", explanation=f"the scorer broke: {reason}")


def _reason(error: ValueError | RecursionError) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "its result"
        return f"{place}: {first['msg']}"[:MAX_MESSAGE]
    return str(error)[:MAX_MESSAGE]


def _arguments(function: Callable[..., object]) -> int:
    """Return 1 for `(request)` and 2 for `(ctx, request)`. Raises `UsageError` for any other signature."""
    name = getattr(function, "__name__", repr(function))
    for count in (1, 2):
        try:
            inspect.signature(function).bind(*range(count))
        except TypeError:
            continue
        return count
    raise UsageError(f"{name} cannot be a scorer: it must take (request) or (ctx, request)")


def _first_line(function: Callable[..., object]) -> str:
    return (inspect.getdoc(function) or "").partition("\n")[0]
