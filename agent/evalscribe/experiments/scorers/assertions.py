"""structured_assertions: conditions on input, output and expected output in a small expression language."""

import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, Field, JsonValue, field_validator

from evalscribe.experiments.scorers.definition import (
    AnyKind,
    CannotScore,
    FunctionCheck,
    ScorerCheck,
    ScorerConfig,
    ScorerKind,
    score_result,
)
from evalscribe.experiments.scorers.values import (
    ReadsExpected,
    ReadsInput,
    ReadsOutput,
    as_evidence,
    equal_values,
    render_value,
    select_member,
    type_name,
)
from evalscribe.model.score import ScoreResult, ScorerRequest
from evalscribe.text import cut, printable

TokenKind = Literal["operator", "path", "literal", "name", "end"]
_WORD = re.compile(
    r"""
    \s*(?:
      (?P<operator> && | \|\| | == | != | <= | >= | [!<>(),] )
    | (?P<path> (?:input|output|expected)(?:\.[A-Za-z0-9_-]+)* ) (?![A-Za-z0-9_.-])
    | (?P<text> "(?:[^"\\]|\\.)*" )
    | (?P<number> -?\d+(?:\.\d+)?(?:[eE][+-]?\d+)? ) (?![A-Za-z0-9_.])
    | (?P<name> [A-Za-z_][A-Za-z0-9_.-]* )
    )
    """,
    re.VERBOSE | re.ASCII,
)
_CONSTANTS: dict[str, JsonValue] = {"true": True, "false": False, "null": None}


class Token(NamedTuple):
    kind: TokenKind
    text: str
    at: int
    """Position of the token's first character, from 1."""
    value: JsonValue = None
    """Value of a literal."""


def tokens(expression: str) -> Iterator[Token]:
    """Split an expression into tokens. Raises `ValueError` if it is invalid."""
    at = 0
    while expression[at:].strip():
        match = _WORD.match(expression, at)
        if match is None:
            rest = expression[at:].lstrip()
            raise ValueError(f"cannot be parsed at character {len(expression) - len(rest) + 1}: {rest[:20]}")
        yield _token(match)
        at = match.end()
    yield Token("end", "the end", len(expression) + 1)


def _token(match: re.Match[str]) -> Token:
    group = match.lastgroup or ""
    text, at = match[group], match.start(group) + 1
    match group:
        case "operator":
            return Token("operator", text, at)
        case "path":
            return Token("path", text, at)
        case "name" if text not in _CONSTANTS:
            return Token("name", text, at)
        case "name":
            return Token("literal", text, at, _CONSTANTS[text])
    try:
        return Token("literal", text, at, json.loads(text))
    except ValueError as error:
        raise ValueError(f"has invalid JSON at character {at}: {text[:20]}") from error


Values = Callable[[str], JsonValue]
"""Function that resolves a path such as `output.items`. Raises `CannotScore` if the path does not exist."""
Expression = Callable[[Values], JsonValue]

PREDICATES: Mapping[str, Callable[[JsonValue], bool]] = {
    "is_string": lambda value: isinstance(value, str),
    "is_number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "is_boolean": lambda value: isinstance(value, bool),
    "is_null": lambda value: value is None,
    "is_array": lambda value: isinstance(value, list),
    "is_object": lambda value: isinstance(value, dict),
}
_ORDERS: Mapping[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
COMPARISONS = ("==", "!=", *_ORDERS)


def compared(sign: str, left: JsonValue, right: JsonValue) -> bool:
    """Compare two values. All values can be equal, but only numbers and texts have an order."""
    if sign in ("==", "!="):
        return equal_values(left, right) == (sign == "==")
    if not any(is_of(left) and is_of(right) for is_of in (PREDICATES["is_number"], PREDICATES["is_string"])):
        raise CannotScore(
            "input_error",
            f"{type_name(left)} and {type_name(right)} have no order: "
            f"{render_value(left)} {sign} {render_value(right)}",
        )
    return bool(_ORDERS[sign](left, right))


def condition(value: JsonValue) -> bool:
    if not isinstance(value, bool):
        raise CannotScore("input_error", f"expected true or false, not {render_value(value)}")
    return value


def size(value: JsonValue) -> int:
    """Return the number of characters of a text, items of a list, or members of an object."""
    if not isinstance(value, str | list | dict):
        raise CannotScore("input_error", f"{type_name(value)} has no size: {render_value(value)}")
    return len(value)


def unique(value: JsonValue) -> bool:
    items = listed("unique", value)
    return len({_hashable(item) for item in items}) == len(items)


def listed(function: str, value: JsonValue) -> list[JsonValue]:
    if not isinstance(value, list):
        raise CannotScore("input_error", f"{function} needs a list, not {type_name(value)}: {render_value(value)}")
    return value


FUNCTIONS: Mapping[str, Callable[[JsonValue], JsonValue]] = {"size": size, "unique": unique, **PREDICATES}
QUANTIFIERS: Mapping[str, Callable[[list[bool]], bool]] = {"all": all, "any": any}


def _hashable(value: JsonValue) -> object:
    """Return a hashable key that is equal for equal JSON values: 1 equals 1.0, but not true."""
    if isinstance(value, dict):
        return "object", frozenset((name, _hashable(item)) for name, item in value.items())
    if isinstance(value, list):
        return "list", tuple(map(_hashable, value))
    return type_name(value), value


# Two CEL packages were tested with the 32 conditions and 11 errors of test_assertions.py. Stored expressions would
# change with either:
# - common-expression-language 0.10 (Rust) agrees with 20 conditions, with 29 if our functions are registered. It cannot
#   parse list positions and hyphens in paths: `output.items.0`, `output.order-id`, `has(output.items.7)`. It orders
#   booleans (`output.ok > false` is true) and takes a number for an answer, where we report an error.
# - cel-python 0.5 agrees with 18 conditions. It has the same limits, cannot compare 3 with 3.0, and calls true equal to
#   1.
# Both also accept what is refused here when the scorer is made, such as arithmetic and `output[0]`.


LONGEST = 4096
"""Bytes."""
MOST_OPERATORS = 64
DEEPEST = 32
_OPERATORS = ("&&", "||", "!", *COMPARISONS)


def parse(expression: str) -> Expression:
    """Parse an assertion. Raises `ValueError` with the position if it is invalid."""
    if len(expression.encode("utf-8", "surrogatepass")) > LONGEST:
        raise ValueError(f"is longer than {LONGEST} bytes")
    parser = _Parser([*tokens(expression)])
    made = parser.condition()
    if parser.next.kind != "end":
        raise parser.unexpected("an operator or the end")
    return made


class _Parser:
    def __init__(self, words: list[Token]) -> None:
        self._words = words
        self._at = 0
        self._depth = 0
        if sum(word.kind == "operator" and word.text in _OPERATORS for word in words) > MOST_OPERATORS:
            raise ValueError(f"has more than {MOST_OPERATORS} operators")

    @property
    def next(self) -> Token:
        return self._words[self._at]

    def unexpected(self, wanted: str) -> ValueError:
        return ValueError(f"has {self.next.text[:20]} at character {self.next.at} instead of {wanted}")

    def condition(self) -> Expression:
        left = self._and()
        while self._took("||"):
            left = _either(left, self._and())
        return left

    def _and(self) -> Expression:
        left = self._not()
        while self._took("&&"):
            left = _both(left, self._not())
        return left

    def _not(self) -> Expression:
        if not self._took("!"):
            return self._comparison()
        self._deeper()
        inner = self._not()
        self._depth -= 1
        return lambda values: not condition(inner(values))

    def _comparison(self) -> Expression:
        left = self._value()
        if self.next.kind != "operator" or self.next.text not in COMPARISONS:
            return left
        sign = self._take().text
        right = self._value()
        return lambda values: compared(sign, left(values), right(values))

    def _value(self) -> Expression:
        if self._took("("):
            return self._closed(self.condition)
        match self.next.kind:
            case "literal":
                literal = self._take().value
                return lambda _: literal
            case "path":
                path = self._take().text
                return lambda values: values(path)
            case "name":
                return self._call()
        raise self.unexpected("a value")

    def _call(self) -> Expression:
        name = self.next.text
        if name not in (*FUNCTIONS, *QUANTIFIERS, "has"):
            there = ", ".join((*FUNCTIONS, *QUANTIFIERS, "has"))
            place = f"{name[:40]} at character {self.next.at}"
            raise ValueError(f"has {place}: paths begin with input, output or expected; functions are {there}")
        self._take()
        self._need("(")
        if name in FUNCTIONS:
            inner = self._closed(self.condition)
            return lambda values: FUNCTIONS[name](inner(values))
        return self._closed(self._path_there if name == "has" else lambda: self._quantified(name))

    def _quantified(self, name: str) -> Expression:
        items = self._value()
        self._need(",")
        predicate = PREDICATES.get(self.next.text)
        if predicate is None:
            raise self.unexpected(f"one of {', '.join(PREDICATES)}")
        self._take()
        return lambda values: QUANTIFIERS[name]([predicate(item) for item in listed(name, items(values))])

    def _path_there(self) -> Expression:
        if self.next.kind != "path":
            raise self.unexpected("a path")
        path = self._take().text
        return lambda values: _there(values, path)

    def _closed(self, inner: Callable[[], Expression]) -> Expression:
        """Parse the content of parentheses; the opening one is already consumed."""
        self._deeper()
        made = inner()
        self._need(")")
        self._depth -= 1
        return made

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > DEEPEST:
            raise ValueError(f"is nested more than {DEEPEST} levels deep")

    def _take(self) -> Token:
        self._at += 1
        return self._words[self._at - 1]

    def _took(self, operator: str) -> bool:
        """Consume the given token if it is next; return whether it was consumed."""
        if self.next.kind != "operator" or self.next.text != operator:
            return False
        self._at += 1
        return True

    def _need(self, operator: str) -> None:
        if not self._took(operator):
            raise self.unexpected(operator)


def _either(left: Expression, right: Expression) -> Expression:
    return lambda values: condition(left(values)) or condition(right(values))


def _both(left: Expression, right: Expression) -> Expression:
    return lambda values: condition(left(values)) and condition(right(values))


def _there(values: Values, path: str) -> bool:
    try:
        values(path)
    except CannotScore:
        return False
    return True


MOST = 64
LONGEST_SAID = 1000
LARGEST = 2**20
"""Maximum bytes of JSON that assertions may read."""


def _parsed(expression: str) -> str:
    parse(expression)
    return expression


class Assertion(ScorerConfig):
    name: Annotated[str, Field(min_length=1, max_length=200)]
    """Its name in scores."""
    expr: Annotated[str, AfterValidator(_parsed)]
    """A condition such as `size(output.items) > 0 && output.status == "done"`."""


class StructuredAssertions(ReadsOutput, ReadsExpected, ReadsInput):
    assertions: Annotated[tuple[Assertion, ...], Field(min_length=1, max_length=MOST)]
    """The assertions: `[{"name", "expr"}]`."""
    score_threshold: float = Field(default=1.0, gt=0, le=1)
    """Minimum share of assertions that must hold."""

    @field_validator("assertions")
    @classmethod
    def _differently_named(cls, assertions: tuple[Assertion, ...]) -> tuple[Assertion, ...]:
        names = [assertion.name for assertion in assertions]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"has {twice!r} twice: names must be unique")
        return assertions


def _check(config: StructuredAssertions) -> ScorerCheck:
    parsed = [parse(assertion.expr) for assertion in config.assertions]
    return FunctionCheck(lambda request: _judged(config, parsed, request))


class AssertionOutcome(NamedTuple):
    assertion: Assertion
    holds: bool
    read: Mapping[str, JsonValue]
    """Values that the assertion read, by path."""

    def __str__(self) -> str:
        values = ", ".join(f"{path} is {render_value(value)}" for path, value in self.read.items())
        return printable(f"{self.assertion.name}: {self.assertion.expr}") + (f" ({values})" if values else "")

    def kept(self) -> JsonValue:
        read = {path: as_evidence(value) for path, value in self.read.items()}
        return {"name": self.assertion.name, "holds": self.holds, "read": read}


def _judged(config: StructuredAssertions, parsed: Sequence[Expression], request: ScorerRequest) -> ScoreResult:
    values = _values(config, request)
    outcomes = [_outcome(one, expression, values) for one, expression in zip(config.assertions, parsed, strict=True)]
    failed = [outcome for outcome in outcomes if not outcome.holds]
    share = (len(outcomes) - len(failed)) / len(outcomes)
    passed = share >= config.score_threshold
    return score_result(
        passed,
        cut(f"does not hold: {'; '.join(map(str, failed))}", LONGEST_SAID) if failed else "every assertion holds",
        label="match" if passed else "mismatch",
        value=share,
        evidence=[outcome.kept() for outcome in failed],
        metadata={"assertions": {outcome.assertion.name: outcome.holds for outcome in outcomes}},
    )


def _outcome(assertion: Assertion, expression: Expression, values: Values) -> AssertionOutcome:
    """Evaluate an assertion. Raises `CannotScore`, naming the assertion, if it cannot be decided."""
    read: dict[str, JsonValue] = {}

    def noted(path: str) -> JsonValue:
        read[path] = value = values(path)
        return value

    try:
        return AssertionOutcome(assertion, condition(expression(noted)), read)
    except CannotScore as error:
        raise CannotScore(error.error_type, f"assertion {printable(assertion.name)}: {error.reason}") from error


def _values(config: StructuredAssertions, request: ScorerRequest) -> Values:
    """Return a function that resolves paths; it looks up each root (`output` …) once, on first use."""
    found: dict[str, JsonValue] = {}
    roots = {"output": config.output_of, "expected": config.expected_of, "input": config.input_of}

    def value(path: str) -> JsonValue:
        root, *steps = path.split(".")
        if root not in found:
            found[root] = _bounded(root, roots[root](request))
        return select_member(root, found[root], steps)

    return value


def _bounded(root: str, value: JsonValue) -> JsonValue:
    if len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")) > LARGEST:
        raise CannotScore("input_error", f"the {root} is larger than 1 MiB")
    return value


ASSERTION_KINDS: tuple[AnyKind, ...] = (
    ScorerKind("structured_assertions", "whether conditions on the values hold", StructuredAssertions, _check),
)
