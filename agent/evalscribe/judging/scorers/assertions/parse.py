"""From the text of an assertion to what evaluates it.

condition   and ("||" and)*        and   not ("&&" not)*        not   "!" not | comparison
comparison  value (("==" | "!=" | "<" | "<=" | ">" | ">=") value)?
value       path | literal | "(" condition ")" | function "(" value ")"
            | ("all" | "any") "(" value "," predicate ")" | "has" "(" path ")"
"""

# Two CEL packages were held against the 32 conditions and 11 errors of test_assertions.py. Stored expressions would
# change with either:
# - common-expression-language 0.10 (Rust) agrees with 20 conditions, with 29 if our functions are registered. It cannot
#   parse list positions and hyphens in paths: `output.items.0`, `output.order-id`, `has(output.items.7)`. It orders
#   booleans (`output.ok > false` is true) and takes a number for an answer, where we report an error.
# - cel-python 0.5 agrees with 18 conditions. It has the same limits, cannot compare 3 with 3.0, and calls true equal to
#   1.
# Both also accept what is refused here when the scorer is made, such as arithmetic and `output[0]`.

from collections.abc import Callable

from evalscribe.judging.scorers.assertions.tokens import Token, tokens
from evalscribe.judging.scorers.assertions.values import (
    COMPARISONS,
    FUNCTIONS,
    PREDICATES,
    QUANTIFIERS,
    Expression,
    Values,
    compared,
    condition,
    listed,
)
from evalscribe.judging.scorers.result import CannotScore

LONGEST = 4096
"""Bytes."""
MOST_OPERATORS = 64
DEEPEST = 32
_OPERATORS = ("&&", "||", "!", *COMPARISONS)


def parse(expression: str) -> Expression:
    """Raises `ValueError` with the place for what is no assertion."""
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
        return ValueError(f"has {self.next.text[:20]} at character {self.next.at} in the place of {wanted}")

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
            raise ValueError(f"has {place}: paths begin with input, output or expected, and functions are {there}")
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
        """What is in parentheses, the first of which is taken already."""
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
        """Whether this was next; then it is taken."""
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
