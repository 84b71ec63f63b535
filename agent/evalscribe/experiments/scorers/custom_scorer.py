"""The `@scorer` decorator, which turns users' functions into scorers."""

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
"""Default threshold. The scorer passes a trial if its function returns at least this number."""
MAX_MESSAGE = 200
ABOUT = "__evalscribe_scorer__"
"""Name of the attribute in which a decorated function stores its `ScorerDeclaration` as JSON."""
CALL = "__evalscribe_call__"
"""Name of the attribute in which a decorated function stores its entry point.

The entry point converts a `BoundRequest` to a `ScoreResult`, both as JSON.
"""
_FIELDS = ("status", "value", "score", "passed", "label", "explanation", "error_type", "metadata", "evidence")
"""Keys that a returned dictionary can have. `score` is an alias of `value`."""
_JSON: TypeAdapter[JsonValue] = TypeAdapter(JsonValue)


class ScorerDeclaration(Frozen):
    """The declaration in a scorer function's decorator."""

    name: str
    description: str = ""
    depends_on: tuple[str, ...] = ()
    """Names of the scorers whose results the function receives in `peer_scores`."""
    config: dict[str, JsonValue] = Field(default_factory=dict)
    """The scorer's settings with their default values. If the scorer declares settings, unknown keys are refused."""
    threshold: float = Field(default=THRESHOLD, ge=0, le=1)
    """Smallest returned number with which the scorer passes a trial."""


class BoundRequest(ScorerRequest):
    """A `ScorerRequest` with the settings of the scorer that receives it."""

    config: dict[str, JsonValue] = Field(default_factory=dict)


class ScorerContext(Frozen):
    """First argument of a scorer function that has two parameters."""

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
    """Turn `function(request)` or `function(ctx, request)` into a scorer. The function can be async.

    The function returns a `ScoreResult`, a bool, a number from 0 to 1, a dictionary with fields of a result, or None if
    it abstains. Raises `UsageError` for a function with other parameters, and for any scope but `item`.
    """
    if scope != "item":
        raise UsageError(f"scope {scope!r} is not supported: a scorer sees one item of a run (scope 'item')")

    def decorate(function: F) -> F:
        _argument_count(function)
        declaration = ScorerDeclaration(
            name=name or getattr(function, "__name__", type(function).__name__),
            description=description or _first_line(function),
            depends_on=tuple(depends_on),
            config=dict(config or {}),
            threshold=threshold,
        )
        setattr(function, ABOUT, declaration.model_dump(mode="json"))
        setattr(function, CALL, _entry_point(function, declaration))
        return function

    return decorate if function is None else decorate(function)


def _entry_point(function: Callable[..., object], declaration: ScorerDeclaration) -> Callable[[object], object]:
    """Return the function that is stored as the attribute `CALL`.

    The returned function is async if `function` is async.
    """

    async def call_async(payload: object) -> object:
        return_value = _call(function, declaration, payload)
        return _result_json(await return_value if inspect.isawaitable(return_value) else return_value, declaration)

    def call(payload: object) -> object:
        return_value = _call(function, declaration, payload)
        return (
            _await_json(return_value, declaration)
            if inspect.isawaitable(return_value)
            else _result_json(return_value, declaration)
        )

    return call_async if inspect.iscoroutinefunction(inspect.unwrap(function)) else call


async def _await_json(awaitable: Awaitable[object], declaration: ScorerDeclaration) -> object:
    return _result_json(await awaitable, declaration)


def _result_json(return_value: object, declaration: ScorerDeclaration) -> object:
    return parse_result(return_value, declaration.threshold).model_dump(mode="json")


def _call(function: Callable[..., object], declaration: ScorerDeclaration, payload: object) -> object:
    """Call the function and return its result or awaitable. Exceptions that the function raises are not caught."""
    request = BoundRequest.model_validate(payload)
    if _argument_count(function) == 1:
        return function(request)
    return function(ScorerContext(scorer=declaration.name, config=request.config), request)


def parse_result(return_value: object, threshold: float = THRESHOLD) -> ScoreResult:
    """Convert a function's return value into a checked result. An invalid value becomes an error, never a score."""
    try:
        return _storable(_to_result(return_value, threshold))
    except (ValueError, RecursionError) as error:  # ValidationError is a subclass of ValueError
        return _broken_result(_error_text(error))


def _to_result(return_value: object, threshold: float) -> ScoreResult:
    match return_value:
        case ScoreResult():
            return _complete_result(return_value.model_dump(), threshold)
        case None:
            return ScoreResult(status="unscored", explanation="the scorer abstains: it returned None")
        case bool():  # Before `int`, because a bool is an int in Python.
            return _complete_result({"passed": return_value, "output": return_value}, threshold)
        case int() | float():
            return _complete_result({"value": float(return_value), "output": return_value}, threshold)
        case dict():
            return _complete_result(
                {**_result_fields(return_value), "output": _JSON.validate_python(return_value)}, threshold
            )
    kinds = "a ScoreResult, a bool, a number from 0 to 1, a dict or None"
    raise ValueError(f"it returned {type(return_value).__name__}; it must return {kinds}")


def _result_fields(return_value: dict[Any, Any]) -> dict[str, Any]:
    unknown = [str(key) for key in return_value if key not in _FIELDS]
    if unknown:
        raise ValueError(f"it returned a dict with the unknown key {unknown[0]!r}; keys: {', '.join(_FIELDS)}")
    if "score" in return_value and "value" in return_value:
        raise ValueError("it returned a dict with 'score' and 'value', which mean the same: return one")
    return {"value" if key == "score" else key: value for key, value in return_value.items()}


def _complete_result(fields: dict[str, Any], threshold: float) -> ScoreResult:
    """Fill in missing fields: `value` is derived from `passed`, `passed` from `value`, the explanation from both."""
    value, passed = fields.get("value"), fields.get("passed")
    if fields.get("status", "ok") != "ok":
        return ScoreResult(**{"explanation": "", **fields, "value": None, "passed": None})
    if value is None and passed is None:
        raise ValueError("it returned neither 'value' nor 'passed'")
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise ValueError(f"its value is not a number but {type(value).__name__}")
    if value is not None and not (math.isfinite(value) and 0 <= value <= 1):
        raise ValueError(f"its value must be from 0 to 1, not {value}")
    value_field = {"value": float(bool(passed)) if value is None else float(value)}
    explanation = fields.get("explanation") or _default_explanation(value, passed, threshold)
    passes = value_field["value"] >= threshold if passed is None else passed
    return ScoreResult.model_validate(
        {**fields, **value_field, "passed": passes, "explanation": explanation}, strict=True
    )


def _default_explanation(value: float | None, passed: bool | None, threshold: float) -> str:
    if passed is not None:
        return f"the scorer says it {'passed' if passed else 'failed'}"
    return f"the scorer returned {value:g}; the threshold is {threshold:g}"


def _storable(result: ScoreResult) -> ScoreResult:
    """Return a result that can be stored.

    The result is JSON without NaN, and has an explanation. If the result is an error, it also has an error type.
    """
    # Called only to raise `ValueError` if metadata or evidence contains NaN, which JSON does not have.
    json.dumps(result.model_dump(mode="json"), allow_nan=False)
    changes: dict[str, object] = {}
    if not result.explanation.strip():
        changes["explanation"] = f"the scorer returned {result.status} without a reason"
    if (result.status == "error") != (result.error_type is not None):
        changes["error_type"] = "scorer_error" if result.status == "error" else None
    return result.model_copy(update=changes)


def _broken_result(reason: str) -> ScoreResult:
    return ScoreResult(status="error", error_type="scorer_error", explanation=f"the scorer broke: {reason}")


def _error_text(error: ValueError | RecursionError) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        path = ".".join(map(str, first["loc"])) or "its result"
        return f"{path}: {first['msg']}"[:MAX_MESSAGE]
    return str(error)[:MAX_MESSAGE]


def _argument_count(function: Callable[..., object]) -> int:
    """Return the number of arguments: 1 for `(request)`, 2 for `(ctx, request)`. Raises `UsageError` for others."""
    name = getattr(function, "__name__", repr(function))
    # `bind` also takes defaults, `*args` and partial functions into account.
    for count in (1, 2):
        try:
            inspect.signature(function).bind(*range(count))
        except TypeError:
            continue
        return count
    raise UsageError(f"{name} cannot be a scorer: it must take (request) or (ctx, request)")


def _first_line(function: Callable[..., object]) -> str:
    return (inspect.getdoc(function) or "").partition("\n")[0]
