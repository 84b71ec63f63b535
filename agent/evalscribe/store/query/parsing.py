"""Parse a query: a single SELECT in Postgres syntax. Errors state the position of the problem.

sqlglot interprets only the functions that are allowed.
"""

from difflib import get_close_matches
from typing import ClassVar

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import ParseError, TokenError
from sqlglot.parsers.postgres import PostgresParser
from sqlglot.tokenizer_core import Token, TokenType

from evalscribe.errors import UsageError

MOST_NAMED = 5


class QueryError(Exception):
    """Raised for a query that is refused.

    `offset` is the position of the problem in the query; None if it is unknown.
    """

    def __init__(self, message: str, offset: int | None) -> None:
        super().__init__(message)
        self.offset = offset

    def as_usage_error(self, sql: str, first_line: int = 1) -> UsageError:
        """Return the error with line and column. `first_line` is the number of the query's first line."""
        if self.offset is None:
            return UsageError(f"this query cannot be run: {self}")
        line, column = place(sql, self.offset)
        return UsageError(f"line {line - 1 + first_line}, column {column}: {self}")


def query_error(node: exp.Expr | None, message: str) -> QueryError:
    """Return the error to raise for a part of the query that is refused."""
    return QueryError(message, offset_of(node))


def offset_of(node: exp.Expr | None) -> int | None:
    """Return the offset of a part of the query.

    If the parser recorded no position for the part, the offset is that of an enclosing part.
    """
    while node is not None:
        starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
        if starts:
            return int(min(starts))
        node = node.parent
    return None


def place(sql: str, offset: int) -> tuple[int, int]:
    """Return the line and the column of an offset, both counted from 1."""
    before = sql[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1


def nearest(name: str, available: list[str]) -> str:
    """Return a suggestion to append to an error message.

    The suggestion lists similar names, or all names if there are only a few.
    """
    matches = get_close_matches(name.lower(), available, MOST_NAMED, 0.6)
    if matches:
        return f"; did you mean {' or '.join(matches[:2])}?"
    return f"; available: {', '.join(available)}" if 0 < len(available) <= 20 else ""


LONGEST = 50_000
"""Maximum number of characters in a query."""
_ARROWS = (TokenType.ARROW, TokenType.DARROW)


def word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_WITH_KEYWORDS = ("CAST", "EXTRACT", "POSITION", "SUBSTRING", "TRIM")
"""Functions whose calls have keywords between their arguments."""
TYPED_FUNCTIONS = word_set(
    "ABS AVG BOOL_AND BOOL_OR BTRIM CHARACTER_LENGTH CHAR_LENGTH COALESCE COUNT CUME_DIST DENSE_RANK "
    "FIRST_VALUE LAG LAST_VALUE LEAD LENGTH LOWER LTRIM MAX MIN NTH_VALUE NTILE NULLIF PERCENT_RANK RANK "
    "REPLACE ROUND ROW_NUMBER RTRIM STRPOS SUBSTR SUBSTRING SUM UPPER "
)
"""Functions whose types sqlglot knows, and which it transpiles.

A call of any other function stays `Anonymous`. Such a call is allowed only if the function is in `check.FUNCTIONS`.
"""


def _extract(_parser: object, this: exp.Expr, to: exp.Expr) -> exp.Expr:
    return exp.JSONExtract(this=this, expression=to)


def _extract_text(_parser: object, this: exp.Expr, to: exp.Expr) -> exp.Expr:
    return exp.JSONExtractScalar(this=this, expression=to)


class Syntax(Postgres):
    # Engines resolve aliases in GROUP BY themselves. Expanding the aliases here could make a query exponentially long.
    DISABLES_ALIAS_REF_EXPANSION = True

    class Parser(PostgresParser):
        FUNCTIONS: ClassVar = {
            **{name: PostgresParser.FUNCTIONS[name] for name in TYPED_FUNCTIONS},
            "EVERY": exp.LogicalAnd.from_arg_list,
        }
        FUNCTION_PARSERS: ClassVar = {name: PostgresParser.FUNCTION_PARSERS[name] for name in _WITH_KEYWORDS}
        # In `f(a -> 'key')`, the arrow extracts a JSON value and does not define a lambda.
        LAMBDAS: ClassVar = {}
        COLUMN_OPERATORS: ClassVar = {
            **PostgresParser.COLUMN_OPERATORS,
            TokenType.ARROW: _extract,
            TokenType.DARROW: _extract_text,
        }

        def _parse_column_reference(self) -> exp.Expr | None:
            """Read `a -> -1 ->> 'b'` with the index -1, not as the negation of `1 ->> 'b'`."""
            if self._prev.token_type in _ARROWS and self._match_pair(TokenType.DASH, TokenType.NUMBER, advance=False):
                self._match(TokenType.DASH)
                return self.expression(exp.Neg(this=self._parse_primary()))
            return super()._parse_column_reference()

        def _warn_unsupported(self) -> None:
            """Log nothing, because a statement that is not a SELECT is refused with our own message."""

        def _parse_as_command(self, start: Token) -> exp.Command:
            self.raise_error(f"only SELECT is allowed, not {start.text.upper()}", start)
            raise AssertionError


def parse_query(sql: str) -> exp.Query:
    """Parse a text that consists of exactly one SELECT. Raises `QueryError` for any other text."""
    if len(sql) > LONGEST:
        raise QueryError(f"it has {len(sql):,} characters; the maximum is {LONGEST:,}", None)
    if "\x00" in sql:
        raise QueryError("the query contains a NUL character", sql.index("\x00"))
    statements = [statement for statement in _read(sql) if statement is not None]
    if len(statements) != 1:
        raise QueryError("give one SELECT" if not statements else "give one SELECT, not several statements", None)
    return _select(statements[0])


def _read(sql: str) -> list[exp.Expr | None]:
    try:
        tokens = Syntax().tokenize(sql)
        _no_junk(sql, tokens)
        return list(Syntax().parser().parse(tokens, sql))
    except TokenError as error:
        raise QueryError(f"a quotation or comment is not closed ({_short(error)})", None) from None
    except ParseError as error:
        details = error.errors[0] if error.errors else {}
        offset = _offset(sql, details.get("line"), details.get("col"), details.get("highlight") or "")
        raise QueryError(_readable_message(str(details.get("description") or "it is not SQL")), offset) from None
    except RecursionError:
        raise QueryError("it is nested too deeply", None) from None


def _no_junk(sql: str, tokens: list[Token]) -> None:
    """Refuse numbers such as `1_000`, which sqlglot would read as `1 AS _000`."""
    for token in tokens:
        after = sql[token.end + 1 : token.end + 2]
        if token.token_type == TokenType.NUMBER and (after == "_" or after.isalnum()):
            raise QueryError("this is not a number", token.start)


def _readable_message(message: str) -> str:
    if message.startswith("only"):
        return message
    if "<class" in message:
        return "this cannot be parsed: something is missing here"
    return "this cannot be parsed: " + message.split(" but got <Token")[0].rstrip(".")


def _short(error: Exception) -> str:
    return str(error).splitlines()[0][:100]


def _offset(sql: str, line: int | None, column: int | None, highlight: str) -> int | None:
    """Return the offset at which a token starts.

    `line`, `column` and `highlight` come from the parser, which reports the line and column at which the token ends.
    """
    if line is None or column is None:
        return None
    lines = sql.split("\n")
    before = sum(len(line_text) + 1 for line_text in lines[: line - 1])
    return max(0, min(len(sql), before + column - max(1, len(highlight))))


def _select(statement: exp.Expr) -> exp.Query:
    if isinstance(statement, exp.Subquery) and not any(
        value for name, value in statement.args.items() if name != "this"
    ):
        return _select(statement.this)
    if not isinstance(statement, exp.Select | exp.SetOperation):
        raise query_error(statement, f"only SELECT is allowed, not {_word(statement)}")
    for place in statement.find_all(exp.Placeholder, exp.Parameter):
        raise query_error(
            place, "parameters are not supported: write values in the query; extract JSON with -> and ->>"
        )
    return statement


def _word(statement: exp.Expr) -> str:
    return str(statement.this).upper() if isinstance(statement, exp.Command) else statement.key.upper()
