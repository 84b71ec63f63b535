"""Scorers of JSON output: json_valid, numeric_range, json_schema."""

import json
import math
import re
from collections.abc import Sequence
from functools import reduce
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, Field, JsonValue, model_validator

from evalscribe.experiments.scorers.definition import (
    AnyKind,
    CannotScore,
    ScorerCheck,
    ScorerKind,
    function_check,
    score_result,
)
from evalscribe.experiments.scorers.values import ReadsOutput, as_evidence, parse_json, render_value, type_name
from evalscribe.json_data import join_names, join_path, preview, shorten_path
from evalscribe.model.score import ScoreResult, ScorerRequest
from evalscribe.text import pluralise, printable

if TYPE_CHECKING:
    from jsonschema.exceptions import SchemaError, ValidationError
    from jsonschema.protocols import Validator
    from referencing import Resource
    from referencing._core import Resolver

import asyncio
import contextlib
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from pathlib import Path
from typing import cast

# `float` alone would also accept `1_0`, `inf` and digits of other scripts, such as `١`.
_NUMBER = re.compile(r"\s*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)
LONGEST_NUMBER = 400
EXCERPT_MARGIN = 40
"""Number of characters of invalid JSON shown before and after the error."""


class JsonValid(ReadsOutput):
    """Config of `json_valid`. The only key is `output_field`."""


class NumericRange(ReadsOutput):
    min: float | None = None
    """Smallest number that passes."""
    max: float | None = None
    """Largest number that passes."""
    inclusive: bool = True
    """Whether a number that equals a bound passes."""

    @model_validator(mode="after")
    def _require_range(self) -> "NumericRange":
        if self.min is None and self.max is None:
            raise ValueError("needs min, max or both")
        if self.min is not None and self.max is not None and not self._is_range(self.min, self.max):
            raise ValueError(f"there is no number between min {self.min:g} and max {self.max:g}")
        return self

    def _is_range(self, low: float, high: float) -> bool:
        return low < high or (low == high and self.inclusive)

    def holds(self, number: float) -> bool:
        low, high = -math.inf if self.min is None else self.min, math.inf if self.max is None else self.max
        return low <= number <= high if self.inclusive else low < number < high

    def __str__(self) -> str:
        least, most = ("at least", "at most") if self.inclusive else ("above", "below")
        bounds = ((least, self.min), (most, self.max))
        return " and ".join(f"{word} {bound:.15g}" for word, bound in bounds if bound is not None)


def json_valid(config: JsonValid, request: ScorerRequest) -> ScoreResult:
    output = config.output_of(request)
    if output is None:
        return score_result(False, "there is no output", label="invalid")
    if not isinstance(output, str):
        return score_result(True, "the output is a JSON value", label="valid")
    try:
        parse_json(output)
    except ValueError as error:
        return invalid_json_result(output, error, label="invalid")
    return score_result(True, "the output is JSON", label="valid")


def invalid_json_result(text: str, error: ValueError, *, label: str) -> ScoreResult:
    """Return a failed result that describes the problem, and the position in the text if the parser reports it."""
    explanation = f"the output is not JSON: {printable(str(error))}; it is {render_value(text)}"
    evidence: JsonValue = {"output": as_evidence(text)}
    if isinstance(error, json.JSONDecodeError):
        excerpt = text[max(0, error.pos - EXCERPT_MARGIN) : error.pos + EXCERPT_MARGIN]
        evidence = {"line": error.lineno, "column": error.colno, "at": error.pos, "near": excerpt}
    return score_result(False, explanation, label=label, evidence=evidence)


def numeric_range(config: NumericRange, request: ScorerRequest) -> ScoreResult:
    output = config.output_of(request)
    number = _number(output)
    if number is None:
        return score_result(
            False,
            f"the output is not a number: {render_value(output)}",
            label="parse_error",
            evidence={"output": as_evidence(output)},
        )
    holds = config.holds(number)
    explanation = f"{render_value(output)} is {'' if holds else 'not '}{config}"
    return score_result(holds, explanation, label="in_range" if holds else "out_of_range", evidence={"output": number})


def _number(value: JsonValue) -> float | None:
    """Return a number unchanged, and convert numeric text to a number.

    Return None for any other value, including true and NaN.
    """
    if isinstance(value, str) and len(value) <= LONGEST_NUMBER and _NUMBER.fullmatch(value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if isinstance(value, int) or math.isfinite(value) else None


JSON_KINDS: tuple[AnyKind, ...] = (
    ScorerKind("json_valid", "whether the output is JSON", JsonValid, function_check(json_valid)),
    ScorerKind(
        "numeric_range", "whether the output is a number within bounds", NumericRange, function_check(numeric_range)
    ),
)


MOST_PROBLEMS = 100
QUICK_LENGTH = 64_000
"""Maximum number of characters of a JSON value that is checked in the current process. Longer values are checked in a
child process. If the schema has slow keywords, every value is checked in a child process."""
# Patterns are searched with `re`, which cannot be interrupted. `uniqueItems` takes 8 s of CPU time for 2,000 objects.
SLOW_KEYWORDS = ('"pattern"', '"patternProperties"', '"uniqueItems"', '"$dynamicRef"')
_UNKNOWN: Any = None
# Validating a value of each type finds references that lead back to themselves.
_PROBES: tuple[JsonValue, ...] = (None, {}, [], "", 0)


def build_validator(schema: Any) -> "Validator":
    """Return a validator for a schema of any published draft. Remote references are not fetched.

    Raises `ValueError` if the schema is invalid.
    """
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for
    from referencing import Registry

    draft = schema.get("$schema") if isinstance(schema, dict) else None
    cls: Any = Draft202012Validator if draft is None else validator_for({"$schema": str(draft)}, default=_UNKNOWN)
    if cls is None:
        raise ValueError(f"has the unknown $schema {preview(draft)}")
    try:
        cls.check_schema(schema)
    except SchemaError as error:
        raise ValueError(f"is not a JSON Schema: {_problem(error, 'schema')['said']}") from error
    validator: Validator = cls(schema, registry=Registry())
    return validator


def _validate_schema(schema: Any) -> Any:
    try:
        validator = build_validator(schema)
        # The values below do not reach every reference, for example one in `properties`.
        _check_references(schema)
        for probe in _PROBES:
            problems(validator, probe)
    except RecursionError as error:
        raise ValueError("refers to itself endlessly, or is nested too deeply") from error
    except CannotScore as error:
        raise ValueError(error.reason) from error
    return schema


def _check_references(schema: Any) -> None:
    from referencing import Registry, Resource
    from referencing.jsonschema import DRAFT202012

    resource = Resource.from_contents(schema, default_specification=DRAFT202012)
    uri = resource.id() or ""
    _check_resource(resource, Registry().with_resource(uri, resource).resolver(uri))


def _check_resource(resource: "Resource[Any]", resolver: "Resolver[Any]") -> None:
    from referencing.exceptions import Unresolvable

    reference = resource.contents.get("$ref") if isinstance(resource.contents, dict) else None
    if isinstance(reference, str):
        try:
            resolver.lookup(reference)
        except Unresolvable as error:
            raise ValueError(
                f"has the $ref {preview(reference)}, which cannot be resolved: remote references are not fetched"
            ) from error
    for subresource in resource.subresources():
        _check_resource(subresource, resolver.in_subresource(subresource))


class JsonSchema(ReadsOutput):
    schema_: Annotated[dict[str, JsonValue] | bool, Field(alias="schema"), AfterValidator(_validate_schema)]
    """A JSON Schema. Its draft is 2020-12 unless the schema names another draft. Remote references are not fetched."""


class _SchemaCheck(ScorerCheck):
    def __init__(self, config: JsonSchema) -> None:
        self._config = config
        self._validator = build_validator(config.schema_)
        # Other text, such as the name of a property, can match too. This only costs an unnecessary child process.
        self._slow = any(word in json.dumps(config.schema_) for word in SLOW_KEYWORDS)
        self._bounded = Bounded(config.schema_)

    async def __call__(self, request: ScorerRequest) -> ScoreResult:
        output = raw_output = self._config.output_of(request)
        if isinstance(raw_output, str):
            try:
                output = parse_json(raw_output)
            except ValueError as error:
                return invalid_json_result(raw_output, error, label="parse_error")
        violations = await self._problems(output)
        return _schema_result(violations)

    async def close(self) -> None:
        await self._bounded.close()

    async def _problems(self, output: JsonValue) -> Sequence[Any]:
        if self._slow or len(json.dumps(output)) > QUICK_LENGTH:
            answer = await self._bounded.ask(output)
            return answer if isinstance(answer, list) else []
        return problems(self._validator, output)


def problems(validator: "Validator", value: Any) -> list[JsonValue]:
    """Return at most `MOST_PROBLEMS` violations of the schema. Each violation has `path`, `keyword` and `said`.

    Raises `CannotScore` if the schema cannot be applied.
    """
    from referencing.exceptions import Unresolvable

    try:
        return [_problem(error, "output") for error in islice(validator.iter_errors(value), MOST_PROBLEMS)]
    except Unresolvable as error:
        raise CannotScore(
            "config_error", f"the schema has an unresolvable reference: {printable(str(error))}"
        ) from error


def _schema_result(violations: Sequence[Any]) -> ScoreResult:
    if not violations:
        return score_result(True, "the output fits the schema", label="valid")
    more = f" ({pluralise(len(violations), 'problem')})" if len(violations) > 1 else ""
    return score_result(
        False,
        f"{violations[0]['said']}{more}",
        label="invalid",
        evidence=list(violations[:20]),
        metadata={"errors": list(violations)},
    )


def _problem(error: "ValidationError | SchemaError", root: str) -> dict[str, JsonValue]:
    path = printable(shorten_path(reduce(join_path, error.absolute_path, root)))
    return {"path": path, "keyword": str(error.validator), "said": f"{path} {printable(_message(error))}"}


def _message(error: "ValidationError | SchemaError") -> str:
    """Describe a violation briefly. The library's own message repeats the whole value."""
    value: Any = error.instance
    rule: Any = error.validator_value
    match error.validator:
        case "type":
            return f"must be of type {join_names(rule)}, is {preview(value)} ({type_name(value)})"
        case "enum":
            return f"must be one of {preview(rule)}, is {preview(value)}"
        case "const":
            return f"must be {preview(rule)}, is {preview(value)}"
        case "required":
            return f"lacks {preview([name for name in rule if name not in value])}"
        case "additionalProperties" if rule is False:
            schema: Any = error.schema
            extra = [name for name in value if name not in schema.get("properties", ())]
            return f"has members that the schema does not allow: {preview(extra)}"
        case None:
            return f"is {preview(value)} where the schema allows nothing"
        case _:
            return f"is {preview(value)}, which violates {error.validator} {preview(rule)}"


JSON_SCHEMA_KINDS: tuple[AnyKind, ...] = (
    ScorerKind("json_schema", "whether the output fits a JSON Schema", JsonSchema, _SchemaCheck),
)


LONGEST_S = 2.0
"""Maximum seconds of CPU time for the check of one value in the child process."""
_CHILD = Path(__file__).with_name("bounded_child.py")
"""Program of the child process. The program is run as a file, because importing its package takes longer than most
checks."""
_LONGEST_LINE = 2**26


class Bounded:
    """Child process that checks values against one schema.

    The process is started on first use. If the process was killed, the next use starts a new process. A separate
    process is needed because a search with `re` cannot be interrupted. The process limits its own CPU time, so that
    the process ends even if its parent is gone.
    """

    def __init__(self, schema: JsonValue) -> None:
        self._first_line = _line([schema, LONGEST_S])
        self._child: Process | None = None
        self._lock = asyncio.Lock()

    async def ask(self, value: JsonValue) -> JsonValue:
        """Return the violations in `value`. Raises `CannotScore` if the time limit is exceeded."""
        async with self._lock:
            try:
                reply = await self._exchange(await self._started_child(), value)
            except BaseException:
                await self._end_child()  # A late answer must not be read as the answer to the next value.
                raise
        if "error" in reply:
            raise CannotScore(reply["type"], reply["error"])
        return cast(JsonValue, reply["answer"])

    async def close(self) -> None:
        async with self._lock:
            await self._end_child()

    async def _started_child(self) -> Process:
        if self._child is None:
            command = (sys.executable, "-P", str(_CHILD))
            try:
                self._child = await asyncio.create_subprocess_exec(
                    *command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, start_new_session=True, limit=_LONGEST_LINE
                )
            except OSError as error:
                raise CannotScore(
                    "scorer_error", f"could not start a process for the scorer: {error.strerror}"
                ) from error
            assert self._child.stdin
            self._child.stdin.write(self._first_line)
        return self._child

    async def _exchange(self, child: Process, value: JsonValue) -> dict[str, Any]:
        assert child.stdin
        assert child.stdout
        # The child process can end before it has read everything. Its exit code is then read below.
        with contextlib.suppress(ConnectionError):
            child.stdin.write(_line(value))
            await child.stdin.drain()
        line = await child.stdout.readline()
        if not line:
            raise _exit_error(await child.wait())
        reply: dict[str, Any] = json.loads(line)
        return reply

    async def _end_child(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        if child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
        if child.stdin:
            child.stdin.close()
        await child.wait()


def _line(value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"


def _exit_error(code: int) -> CannotScore:
    if code == -signal.SIGVTALRM:
        return CannotScore("timeout_error", f"checking this text takes more than {LONGEST_S:g} s of CPU time")
    return CannotScore("scorer_error", f"the checking process ended with code {code}")
