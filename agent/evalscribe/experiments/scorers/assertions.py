"""The scorer structured_assertions. It checks conditions on input, output and expected output, in a small language."""

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
# A path or number must not end within a word: `output.a.` and `01x` are errors, not a token followed by more text.
# A name can have dots, so that an unknown path such as `result.a` is reported whole.
_TOKEN = re.compile(
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
    position: int
    """Position of the token's first character in the expression, counted from 1."""
    value: JsonValue = None
    """Value of the token if it is a literal."""


def tokenize(expression: str) -> Iterator[Token]:
    """Split an expression into tokens. Raises `ValueError` if the expression is invalid."""
    position = 0
    while expression[position:].strip():
        match = _TOKEN.match(expression, position)
        if match is None:
            remaining = expression[position:].lstrip()
            raise ValueError(f"cannot be parsed at character {len(expression) - len(remaining) + 1}: {remaining[:20]}")
        yield _token(match)
        position = match.end()
    yield Token("end", "the end", len(expression) + 1)


def _token(match: re.Match[str]) -> Token:
    group = match.lastgroup or ""
    text, position = match[group], match.start(group) + 1
    match group:
        case "operator":
            return Token("operator", text, position)
        case "path":
            return Token("path", text, position)
        case "name" if text not in _CONSTANTS:
            return Token("name", text, position)
        case "name":
            return Token("literal", text, position, _CONSTANTS[text])
    try:
        return Token("literal", text, position, json.loads(text))
    except ValueError as error:
        raise ValueError(f"has invalid JSON at character {position}: {text[:20]}") from error


Values = Callable[[str], JsonValue]
"""Function that returns the value at a path such as `output.items`. Raises `CannotScore` if the path does not exist."""
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


def compare_values(sign: str, left: JsonValue, right: JsonValue) -> bool:
    """Compare two values. Any two values can be tested for equality; only two numbers or two texts have an order."""
    if sign in ("==", "!="):
        return equal_values(left, right) == (sign == "==")
    if not any(has_type(left) and has_type(right) for has_type in (PREDICATES["is_number"], PREDICATES["is_string"])):
        raise CannotScore(
            "input_error",
            f"{type_name(left)} and {type_name(right)} have no order: "
            f"{render_value(left)} {sign} {render_value(right)}",
        )
    return bool(_ORDERS[sign](left, right))


def require_boolean(value: JsonValue) -> bool:
    if not isinstance(value, bool):
        raise CannotScore("input_error", f"expected true or false, not {render_value(value)}")
    return value


def size(value: JsonValue) -> int:
    """Return the length of a text in characters, of a list in items, or of an object in members."""
    if not isinstance(value, str | list | dict):
        raise CannotScore("input_error", f"{type_name(value)} has no size: {render_value(value)}")
    return len(value)


def unique(value: JsonValue) -> bool:
    items = require_list("unique", value)
    return len({_hashable(item) for item in items}) == len(items)


def require_list(function: str, value: JsonValue) -> list[JsonValue]:
    if not isinstance(value, list):
        raise CannotScore("input_error", f"{function} needs a list, not {type_name(value)}: {render_value(value)}")
    return value


FUNCTIONS: Mapping[str, Callable[[JsonValue], JsonValue]] = {"size": size, "unique": unique, **PREDICATES}
QUANTIFIERS: Mapping[str, Callable[[list[bool]], bool]] = {"all": all, "any": any}


def _hashable(value: JsonValue) -> object:
    """Return a hashable key that equal JSON values share. The values 1 and 1.0 are equal; 1 and true are not."""
    if isinstance(value, dict):
        return "object", frozenset((name, _hashable(item)) for name, item in value.items())
    if isinstance(value, list):
        return "list", tuple(map(_hashable, value))
    return type_name(value), value


# Two packages for the Common Expression Language (CEL) were tested with the 32 conditions and 11 errors of
# test_assertions.py. With either package, some stored expressions would give a different result:
# - common-expression-language 0.10 (Rust) agrees on 20 conditions, or on 29 if the functions of this module are
#   registered. It cannot parse list positions and hyphens in paths: `output.items.0`, `output.order-id`,
#   `has(output.items.7)`. It orders booleans (`output.ok > false` is true) and accepts a number as the result of a
#   condition; this module reports an error in both cases.
# - cel-python 0.5 agrees on 18 conditions. It has the same limits. It also cannot compare 3 with 3.0, and treats true
#   and 1 as equal.
# Both packages also accept expressions that this module refuses when the scorer is created, such as arithmetic and
# `output[0]`.


LONGEST = 4096
"""Maximum size of an expression, in bytes."""
# Each operator and each parenthesis adds a level of recursion when the expression is evaluated.
MOST_OPERATORS = 64
DEEPEST_NESTING = 32
_OPERATORS = ("&&", "||", "!", *COMPARISONS)


def parse(expression: str) -> Expression:
    """Parse an assertion. If the assertion is invalid, raises `ValueError` with the position."""
    if len(expression.encode("utf-8", "surrogatepass")) > LONGEST:
        raise ValueError(f"is longer than {LONGEST} bytes")
    parser = _Parser([*tokenize(expression)])
    condition = parser.condition()
    if parser.next.kind != "end":
        raise parser.syntax_error("an operator or the end")
    return condition


class _Parser:
    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._position = 0
        self._depth = 0
        if sum(token.kind == "operator" and token.text in _OPERATORS for token in tokens) > MOST_OPERATORS:
            raise ValueError(f"has more than {MOST_OPERATORS} operators")

    @property
    def next(self) -> Token:
        return self._tokens[self._position]

    def syntax_error(self, expected: str) -> ValueError:
        token = self.next
        return ValueError(f"is invalid at character {token.position}: expected {expected}, but found {token.text[:20]}")

    def condition(self) -> Expression:
        left = self._and()
        while self._accept("||"):
            left = _or_expression(left, self._and())
        return left

    def _and(self) -> Expression:
        left = self._not()
        while self._accept("&&"):
            left = _and_expression(left, self._not())
        return left

    def _not(self) -> Expression:
        if not self._accept("!"):
            return self._comparison()
        self._increase_depth()
        operand = self._not()
        self._depth -= 1
        return lambda values: not require_boolean(operand(values))

    def _comparison(self) -> Expression:
        left = self._value()
        if self.next.kind != "operator" or self.next.text not in COMPARISONS:
            return left
        sign = self._advance().text
        right = self._value()
        return lambda values: compare_values(sign, left(values), right(values))

    def _value(self) -> Expression:
        if self._accept("("):
            return self._parenthesised(self.condition)
        match self.next.kind:
            case "literal":
                literal = self._advance().value
                return lambda _: literal
            case "path":
                path = self._advance().text
                return lambda values: values(path)
            case "name":
                return self._call()
        raise self.syntax_error("a value")

    def _call(self) -> Expression:
        name = self.next.text
        if name not in (*FUNCTIONS, *QUANTIFIERS, "has"):
            names = ", ".join((*FUNCTIONS, *QUANTIFIERS, "has"))
            raise ValueError(
                f"is invalid at character {self.next.position}: {name[:40]} is neither a path nor a function; "
                f"paths begin with input, output or expected; functions are {names}"
            )
        self._advance()
        self._expect("(")
        if name in FUNCTIONS:
            argument = self._parenthesised(self.condition)
            return lambda values: FUNCTIONS[name](argument(values))
        return self._parenthesised(self._path_check if name == "has" else lambda: self._quantified(name))

    def _quantified(self, name: str) -> Expression:
        items = self._value()
        self._expect(",")
        predicate = PREDICATES.get(self.next.text)
        if predicate is None:
            raise self.syntax_error(f"one of {', '.join(PREDICATES)}")
        self._advance()
        return lambda values: QUANTIFIERS[name]([predicate(item) for item in require_list(name, items(values))])

    def _path_check(self) -> Expression:
        if self.next.kind != "path":
            raise self.syntax_error("a path")
        path = self._advance().text
        return lambda values: _path_exists(values, path)

    def _parenthesised(self, parse_content: Callable[[], Expression]) -> Expression:
        """Parse the content of parentheses. The opening parenthesis has already been consumed."""
        self._increase_depth()
        content = parse_content()
        self._expect(")")
        self._depth -= 1
        return content

    def _increase_depth(self) -> None:
        self._depth += 1
        if self._depth > DEEPEST_NESTING:
            raise ValueError(f"is nested more than {DEEPEST_NESTING} levels deep")

    def _advance(self) -> Token:
        self._position += 1
        return self._tokens[self._position - 1]

    def _accept(self, symbol: str) -> bool:
        """Consume the next token if it is `symbol`. Returns whether the token was consumed."""
        if self.next.kind != "operator" or self.next.text != symbol:
            return False
        self._position += 1
        return True

    def _expect(self, symbol: str) -> None:
        if not self._accept(symbol):
            raise self.syntax_error(symbol)


def _or_expression(left: Expression, right: Expression) -> Expression:
    return lambda values: require_boolean(left(values)) or require_boolean(right(values))


def _and_expression(left: Expression, right: Expression) -> Expression:
    return lambda values: require_boolean(left(values)) and require_boolean(right(values))


def _path_exists(values: Values, path: str) -> bool:
    try:
        values(path)
    except CannotScore:
        return False
    return True


MOST_ASSERTIONS = 64
LONGEST_EXPLANATION = 1000
LARGEST_VALUE = 2**20
"""Maximum size of an input, output or expected output that assertions can read, in bytes of JSON."""


def _validate_expression(expression: str) -> str:
    parse(expression)
    return expression


class Assertion(ScorerConfig):
    name: Annotated[str, Field(min_length=1, max_length=200)]
    """Name of the assertion in scores."""
    expr: Annotated[str, AfterValidator(_validate_expression)]
    """A condition such as `size(output.items) > 0 && output.status == "done"`."""


class StructuredAssertions(ReadsOutput, ReadsExpected, ReadsInput):
    assertions: Annotated[tuple[Assertion, ...], Field(min_length=1, max_length=MOST_ASSERTIONS)]
    """The assertions: `[{"name", "expr"}]`."""
    score_threshold: float = Field(default=1.0, gt=0, le=1)
    """Minimum share of assertions that must hold."""

    @field_validator("assertions")
    @classmethod
    def _require_unique_names(cls, assertions: tuple[Assertion, ...]) -> tuple[Assertion, ...]:
        names = [assertion.name for assertion in assertions]
        if duplicate := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"has {duplicate!r} twice: names must be unique")
        return assertions


def _check(config: StructuredAssertions) -> ScorerCheck:
    parsed = [parse(assertion.expr) for assertion in config.assertions]
    return FunctionCheck(lambda request: _score(config, parsed, request))


class AssertionOutcome(NamedTuple):
    assertion: Assertion
    holds: bool
    read_values: Mapping[str, JsonValue]
    """The values that the assertion read, by path."""

    def __str__(self) -> str:
        values = ", ".join(f"{path} is {render_value(value)}" for path, value in self.read_values.items())
        return printable(f"{self.assertion.name}: {self.assertion.expr}") + (f" ({values})" if values else "")

    def to_evidence(self) -> JsonValue:
        read_values = {path: as_evidence(value) for path, value in self.read_values.items()}
        return {"name": self.assertion.name, "holds": self.holds, "read": read_values}


def _score(config: StructuredAssertions, parsed: Sequence[Expression], request: ScorerRequest) -> ScoreResult:
    values = _values(config, request)
    outcomes = [
        _outcome(assertion, expression, values) for assertion, expression in zip(config.assertions, parsed, strict=True)
    ]
    failed = [outcome for outcome in outcomes if not outcome.holds]
    share = (len(outcomes) - len(failed)) / len(outcomes)
    passed = share >= config.score_threshold
    return score_result(
        passed,
        cut(f"does not hold: {'; '.join(map(str, failed))}", LONGEST_EXPLANATION)
        if failed
        else "every assertion holds",
        label="match" if passed else "mismatch",
        value=share,
        evidence=[outcome.to_evidence() for outcome in failed],
        metadata={"assertions": {outcome.assertion.name: outcome.holds for outcome in outcomes}},
    )


def _outcome(assertion: Assertion, expression: Expression, values: Values) -> AssertionOutcome:
    """Evaluate an assertion. If the assertion cannot be evaluated, raises `CannotScore` with its name."""
    read_values: dict[str, JsonValue] = {}

    def read_value(path: str) -> JsonValue:
        read_values[path] = value = values(path)
        return value

    try:
        return AssertionOutcome(assertion, require_boolean(expression(read_value)), read_values)
    except CannotScore as error:
        raise CannotScore(error.error_type, f"assertion {printable(assertion.name)}: {error.reason}") from error


def _values(config: StructuredAssertions, request: ScorerRequest) -> Values:
    """Return a function that looks up the value at a path.

    The value of each root (such as `output`) is prepared once, on first use.
    """
    root_values: dict[str, JsonValue] = {}
    readers = {"output": config.output_of, "expected": config.expected_of, "input": config.input_of}

    def resolve(path: str) -> JsonValue:
        root, *steps = path.split(".")
        if root not in root_values:
            root_values[root] = _bounded(root, readers[root](request))
        return select_member(root, root_values[root], steps)

    return resolve


def _bounded(root: str, value: JsonValue) -> JsonValue:
    if len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")) > LARGEST_VALUE:
        raise CannotScore("input_error", f"the {root} is larger than 1 MiB")
    return value


ASSERTION_KINDS: tuple[AnyKind, ...] = (
    ScorerKind("structured_assertions", "whether conditions on the values hold", StructuredAssertions, _check),
)
