"""Allow-list of syntax, functions and types for queries, and limits on the size of queries.

Everything that is not on the list is refused.
"""

from collections.abc import Callable, Iterator
from typing import Any

from sqlglot import exp

from evalscribe.store.query.parsing import TYPED_FUNCTIONS, nearest, query_error, word_set
from evalscribe.store.query.patterns import UnsupportedPattern, as_python

MOST_COLUMNS = 1_600
"""Maximum number of columns that both engines can return."""
MOST_JOINED = 60
"""Maximum number of tables, queries and functions in one FROM. SQLite cannot join more."""
MOST_SOURCES = 100
"""Maximum number of tables, functions and VALUES lists in the whole query.

Planning a larger query takes a long time, and the query's time limit cannot interrupt the planner.
"""
MOST_GROUPS = 100
"""Maximum number of expressions in GROUP BY.

sqlglot replaces a column number in GROUP BY with a copy of that column's expression, which makes the statement longer.
"""
DEEPEST = 300
"""Maximum depth of nested expressions."""
MOST_ROWS = 10**9
FIELDS = ("epoch", "year", "month", "day", "hour", "minute", "second", "dow", "isodow", "doy", "quarter", "week")
UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
INTERVALS = ("second", "minute", "hour", "day", "week", "month", "year")

_NUMERIC = {
    "ceil": 1,
    "ceiling": 1,
    "exp": 1,
    "floor": 1,
    "ln": 1,
    "mod": 2,
    "pow": 2,
    "power": 2,
    "sign": 1,
    "sqrt": 1,
    "trunc": 1,
}
_TEXTS = {"left": 2, "reverse": 1, "right": 2, "split_part": 3, "starts_with": 2, "date_part": 2, "date_trunc": 2}
_JSON = {name: 1 for function in ("array_length", "typeof") for name in (f"json_{function}", f"jsonb_{function}")}
_JSON |= {"to_json": 1, "to_jsonb": 1, "jsonb_exists": 2}
_SPREAD = ("stddev", "stddev_pop", "stddev_samp", "var_pop", "var_samp", "variance")
_LISTS = {"array_agg": 1, "json_agg": 1, "jsonb_agg": 1, "string_agg": 2}
_PERCENTILES = ("percentile_cont", "percentile_disc")
FUNCTIONS: dict[str, int | None] = {
    **_NUMERIC,
    **_TEXTS,
    **_JSON,
    **_LISTS,
    **dict.fromkeys((*_SPREAD, *_PERCENTILES), 1),
    **dict.fromkeys(("concat", "greatest", "least"), None),
    **dict.fromkeys(("json_build_array", "json_build_object", "jsonb_build_array", "jsonb_build_object"), None),
}
"""Allowed functions that sqlglot does not interpret, with the number of arguments of each. None allows any number."""
AGGREGATES = frozenset((*_SPREAD, *_LISTS, *_PERCENTILES))
ROW_FUNCTIONS: dict[str, tuple[str, ...]] = {
    "jsonb_array_elements": ("value",),
    "jsonb_array_elements_text": ("value",),
    "jsonb_each": ("key", "value"),
    "jsonb_each_text": ("key", "value"),
    "jsonb_object_keys": ("key",),
}
"""Functions allowed in FROM, with the names of the columns that they return."""
TYPES = word_set("INT BIGINT SMALLINT DOUBLE FLOAT DECIMAL TEXT VARCHAR BOOLEAN JSON JSONB TIMESTAMP TIMESTAMPTZ DATE ")
REASONS = {
    "now": "its result would change from one moment to the next; give the time as a literal",
    "random": "its result would change from one moment to the next",
    "generate_series": "rows come only from the documented tables",
    "repeat": "it can produce text of any length",
    "lpad": "it can produce text of any length",
    "rpad": "it can produce text of any length",
    "unnest": "use jsonb_array_elements",
    "to_char": "use the value as it is and format it where you display it",
    **dict.fromkeys(
        ("regexp_replace", "regexp_matches", "regexp_match", "regexp_count", "regexp_like"),
        "patterns can be used only with ~",
    ),
    **{
        name: f"it returns rows and belongs in FROM: FROM …, {name}(…) AS item"
        for function in ROW_FUNCTIONS
        for name in (function, function.replace("jsonb", "json"))
    },
}
_QUERIES = (exp.Select, exp.Subquery, exp.Union, exp.Except, exp.Intersect, exp.With, exp.CTE, exp.From, exp.Join)
_CLAUSES = (exp.Where, exp.Group, exp.Having, exp.Order, exp.Ordered, exp.Limit, exp.Offset, exp.Fetch, exp.Distinct)
_NAMES = (
    exp.Table,
    exp.TableAlias,
    exp.Lateral,
    exp.Values,
    exp.Tuple,
    exp.Identifier,
    exp.Column,
    exp.Star,
    exp.Alias,
)
_VALUES = (exp.Literal, exp.Null, exp.Boolean, exp.Paren, exp.Case, exp.If, exp.Exists, exp.Cast, exp.DataType)
_OPERATORS = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Pow, exp.Neg, exp.And, exp.Or, exp.Not, exp.DPipe)
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Is, exp.Between)
_MATCHES = (exp.In, exp.Like, exp.ILike, exp.Escape, exp.RegexpLike, exp.RegexpILike, exp.Any, exp.All, exp.Array)
_OF_JSON = (exp.JSONExtract, exp.JSONExtractScalar, exp.JSONBExtract, exp.JSONBExtractScalar, exp.JSONBContainsTopKey)
_OF_JSON_TOO = (exp.JSONBContainsAnyTopKeys, exp.JSONBContainsAllTopKeys, exp.ArrayContainsAll, exp.ArrayContainedBy)
_CALLS = (exp.Anonymous, exp.Substring, exp.StrPosition, exp.Trim, exp.Extract, exp.Interval, exp.Var, exp.Bracket)
_OVER = (exp.Window, exp.WindowSpec, exp.Filter, exp.WithinGroup, exp.DataTypeParam, exp.LimitOptions)
_AGGREGATED = (exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max, exp.LogicalAnd, exp.LogicalOr)
_RANKED = (
    *(exp.RowNumber, exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist, exp.Ntile),
    *(exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue, exp.NthValue),
)
_TYPED = (exp.Abs, exp.Coalesce, exp.Length, exp.Lower, exp.Upper, exp.Nullif, exp.Replace, exp.Round)
ALLOWED = frozenset(
    (
        *(*_QUERIES, *_CLAUSES, *_NAMES, *_VALUES, *_OPERATORS, *_COMPARISONS, *_MATCHES, *_OF_JSON, *_OF_JSON_TOO),
        *(*_CALLS, *_OVER, *_AGGREGATED, *_RANKED, *_TYPED),
    )
)
PLAIN_ARGUMENTS = word_set(
    "this quoted is_string side kind desc nulls_first distinct start end start_side end_side ordinality "
    "position negate direction unit typed safe big_int only_json_types _type materialized over nested "
    "null_handling rows coalesce "
)
"""Arguments of syntax nodes that can have flags or words as values.

A query is refused if any other argument has a flag or a word as its value.
"""


def functions() -> tuple[str, ...]:
    """Return the names of all functions that a query can call."""
    names = {*FUNCTIONS, *(name.lower() for name in TYPED_FUNCTIONS)}
    return tuple(sorted(names | {"every", "extract", "position", "trim"}))


def check(tree: exp.Query) -> None:
    """Check that every part of a query is allowed. Raises `QueryError` for the first part that is not allowed."""
    sources = 0
    for node, depth in _walk(tree):
        if depth > DEEPEST:
            raise query_error(None, "it is nested too deeply")
        if type(node) not in ALLOWED:
            raise query_error(node, _unsupported(node))
        # A clause can also be a flag or a word in an allowed node, so checking the types of nodes is not enough.
        for name, value in node.args.items():
            if value and name not in PLAIN_ARGUMENTS and not _is_tree(value):
                word = value if isinstance(value, str) else name.strip("_").replace("_", " ")
                raise query_error(node, f"{str(word).upper()} is not supported here")
        rule = _RULES.get(type(node))
        if rule is not None:
            rule(node)
        sources += isinstance(node, exp.Table | exp.Lateral | exp.Values)
        if sources > MOST_SOURCES:
            raise query_error(
                node, f"at most {MOST_JOINED} tables can be joined, and {MOST_SOURCES} used in the whole query"
            )


def _walk(tree: exp.Expr) -> Iterator[tuple[exp.Expr, int]]:
    """Yield nodes with their depth, without recursion.

    A long chain of operators counts as deep, because the engines limit its length.
    """
    # A recursive walk would reach Python's own limit before the depth of the query is checked.
    waiting = [(tree, 0)]
    while waiting:
        node, depth = waiting.pop()
        yield node, depth
        waiting += [(child, depth + 1) for child in reversed(list(node.iter_expressions()))]


def _is_tree(value: object) -> bool:
    return isinstance(value, exp.Expr) or (
        isinstance(value, list) and all(isinstance(node, exp.Expr) for node in value)
    )


def _unsupported(node: exp.Expr) -> str:
    if isinstance(node, exp.Command):
        return "this is not supported"
    text = node.sql("postgres")[:60]
    if isinstance(node, exp.CurrentDate | exp.CurrentTime | exp.CurrentTimestamp | exp.Localtime | exp.Localtimestamp):
        return f"{text.lower()} is not available: {REASONS['now']}"
    return f"{node.key.upper()} ({text}) is not supported"


def _select(node: exp.Select) -> None:
    if not node.expressions:
        raise query_error(node, "SELECT needs at least one column")
    if len(node.expressions) > MOST_COLUMNS:
        raise query_error(node, f"SELECT can return at most {MOST_COLUMNS:,} columns")
    names = []
    for source in _sources(node):
        names.append(source.alias_or_name or (source.this.name if isinstance(source.this, exp.Anonymous) else ""))
    if len(names) > MOST_JOINED:
        raise query_error(
            node, f"at most {MOST_JOINED} tables can be joined, and {MOST_SOURCES} used in the whole query"
        )
    duplicate = next((name for name in names if names.count(name) > 1), None)
    if duplicate:
        raise query_error(node, f"{duplicate} occurs twice in FROM: give one occurrence an alias")
    for window in node.args.get("windows") or []:
        if window.args.get("alias") is not None:
            raise query_error(window, "a named window must be defined in full and cannot refer to another window")


def _sources(node: exp.Select) -> list[exp.Expr]:
    first = node.args.get("from_")
    return [first.this, *(join.this for join in node.args.get("joins") or [])] if first is not None else []


def _table(node: exp.Table) -> None:
    if node.args.get("joins"):
        raise query_error(node, "joins inside parentheses are not supported: write the joins one after the other")
    if isinstance(node.this, exp.Anonymous):
        _row_function(node.this)
    elif node.args.get("db") is not None or not isinstance(node.this, exp.Identifier):
        raise query_error(node, "write the table's name without a schema")


def _lateral(node: exp.Lateral) -> None:
    if not isinstance(node.this, exp.Anonymous):
        raise query_error(
            node, "LATERAL queries are not available, because SQLite has none; write jsonb_array_elements(…) or a WITH"
        )
    _row_function(node.this)


def row_function(name: str) -> str:
    """Return the name of a function in FROM in lower case, with the prefix `json_` replaced by `jsonb_`."""
    name = name.lower()
    return name.replace("json_", "jsonb_", 1) if name.startswith("json_") else name


def _row_function(call: exp.Anonymous) -> None:
    name = row_function(call.name)
    if name not in ROW_FUNCTIONS:
        raise query_error(call, f"function {name} does not return rows{nearest(name, list(ROW_FUNCTIONS))}")
    if len(call.expressions) != 1:
        raise query_error(call, f"{name} takes 1 argument")


def _join(node: exp.Join) -> None:
    side, kind = (str(node.args.get(name) or "").upper() for name in ("side", "kind"))
    if side not in ("", "LEFT", "RIGHT", "FULL") or kind not in ("", "INNER", "OUTER", "CROSS"):
        raise query_error(node, f"{side or kind} JOIN is not supported: write JOIN … ON")
    if isinstance(node.this.this, exp.Anonymous) and side in ("RIGHT", "FULL"):
        raise query_error(node, f"join rows of a JSON value with CROSS JOIN, LEFT JOIN or a comma, not {side}")
    bare = node.args.get("on") is None and not node.args.get("using")
    if bare and (side or kind == "INNER"):
        raise query_error(node, "JOIN needs ON or USING")


def _values(node: exp.Values) -> None:
    alias = node.args.get("alias")
    if alias is None:
        raise query_error(node, "give VALUES an alias with column names: (VALUES (…)) AS t(a, b)")
    widths = {len(row.expressions) for row in node.expressions}
    if len(widths) > 1:
        raise query_error(node, "all rows of VALUES must have the same number of values")
    if len(alias.args.get("columns") or []) > max(widths):
        raise query_error(node, f"{alias.name} has {max(widths)} columns, not {len(alias.args['columns'])}")


def _tuple(node: exp.Tuple) -> None:
    if not isinstance(node.parent, exp.Values | exp.Distinct):
        raise query_error(node, "row values (a, b) are not available")


def _subquery(node: exp.Subquery) -> None:
    if not isinstance(node.this, exp.Select | exp.SetOperation | exp.Subquery):
        raise query_error(node, "FROM allows only tables, queries and jsonb functions")
    if isinstance(node.parent, exp.From | exp.Join) and node.args.get("alias") is None:
        # Postgres before version 16 requires a name for a query in FROM.
        raise query_error(node, "give the query in FROM a name: (SELECT …) AS q")


def _set(node: exp.SetOperation) -> None:
    if not node.args.get("distinct", True) and not isinstance(node, exp.Union):
        raise query_error(node, f"{node.key.upper()} ALL is not available, because SQLite has none")
    for part in (node.this, node.expression):
        # Postgres evaluates INTERSECT before UNION and EXCEPT. SQLite evaluates all three from left to right.
        if isinstance(part, exp.SetOperation) and type(part) is not type(node):
            raise query_error(node, "put one of UNION, EXCEPT and INTERSECT in parentheses")


def _with(node: exp.With) -> None:
    if node.args.get("recursive"):
        raise query_error(node, "WITH RECURSIVE is not available: it could run forever")


def _group(node: exp.Group) -> None:
    # SQLite has no ROLLUP, CUBE and GROUPING SETS.
    if any(value for name, value in node.args.items() if name != "expressions"):
        raise query_error(node, "GROUP BY takes a list of expressions")
    if len(node.expressions) > MOST_GROUPS:
        raise query_error(node, f"GROUP BY takes at most {MOST_GROUPS} expressions")


def _count(node: exp.Expr) -> None:
    options = node.args.get("limit_options")
    if options is not None and any(value for name, value in options.args.items() if name != "rows"):
        raise query_error(node, "WITH TIES is not supported")
    value = node.args.get("expression") or node.args.get("count")
    if isinstance(value, exp.Null) or (isinstance(value, exp.Column) and value.name.upper() == "ALL"):
        # LIMIT ALL and LIMIT NULL mean no limit. sqlglot reads ALL as the name of a column.
        node.pop()
        return
    digits = value.name if isinstance(value, exp.Literal) and not value.is_string else ""
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 9 and int(digits) <= MOST_ROWS):
        raise query_error(node, f"LIMIT and OFFSET must be a whole number of at most {MOST_ROWS:,}")


def _star(node: exp.Star) -> None:
    if any(node.args.values()):
        raise query_error(node, "* must stand alone")
    if not isinstance(node.parent, exp.Select | exp.Count | exp.Column):
        raise query_error(node, "* is allowed only in the list of SELECT and in count(*)")


def _literal(node: exp.Literal) -> None:
    if node.is_string:
        return
    try:
        number = float(node.name)
    except ValueError:
        raise query_error(node, "this is not a number") from None
    # SQLite would read a larger whole number as a float.
    if number == float("inf") or (node.name.isdigit() and int(node.name) >= 2**63):
        raise query_error(node, "this number is too large")


def _cast(node: exp.Cast) -> None:
    type_node = node.args["to"]
    name = (
        type_node.this.name
        if isinstance(type_node, exp.DataType) and hasattr(type_node.this, "name")
        else str(type_node)
    )
    if name not in TYPES or type_node.args.get("nested"):
        raise query_error(
            node,
            f"type {type_node.sql('postgres')} is not available; types: text, integer, double precision, "
            "numeric, boolean, jsonb, timestamp, date",
        )
    if not all(
        parameter.name.isascii() and parameter.name.isdigit() and len(parameter.name) < 5
        for parameter in type_node.expressions
    ):
        raise query_error(node, f"{type_node.sql('postgres')}: leave out the length or precision")


def _call(node: exp.Anonymous) -> None:
    name = node.name.lower()
    if isinstance(node.parent, exp.Table | exp.Lateral):
        return
    if name == "all" and isinstance(node.parent, (*_COMPARISONS, *_MATCHES)) and len(node.expressions) == 1:
        node.replace(exp.All(this=node.expressions[0]))
        return
    if name not in FUNCTIONS:
        if name in REASONS:
            raise query_error(node, f"function {name} is not available: {REASONS[name]}")
        raise query_error(node, f"function {name} does not exist{nearest(name, list(functions()))}")
    count, argument_count = FUNCTIONS[name], len(arguments(node)[0])
    if argument_count != (count or argument_count) or not argument_count:
        expected = f"{count} argument{'' if count == 1 else 's'}" if count else "at least 1 argument"
        raise query_error(node, f"{name} takes {expected}, not {argument_count}")
    if name in ("jsonb_build_object", "json_build_object") and len(node.expressions) % 2:
        raise query_error(node, f"{name} takes alternating names and values")
    if name in ("date_trunc", "date_part"):
        unit, units = node.expressions[0], UNITS if name == "date_trunc" else FIELDS
        if not (isinstance(unit, exp.Literal) and unit.is_string and unit.name.lower() in units):
            raise query_error(node, f"give one of: {', '.join(units)}")
    if name in _PERCENTILES and not isinstance(node.parent, exp.WithinGroup):
        raise query_error(node, f"{name} needs WITHIN GROUP (ORDER BY …)")
    if name == "string_agg" and not arguments(node)[0][1].is_string:
        raise query_error(node, "the separator must be a literal")


def arguments(node: exp.Anonymous) -> tuple[list[exp.Expr], bool, list[exp.Expr]]:
    """Return an aggregate's arguments, whether it has DISTINCT, and the keys of its ORDER BY."""
    parts, order = list(node.expressions), []
    if parts and isinstance(parts[-1], exp.Order):
        order = list(parts[-1].expressions)
        parts[-1] = parts[-1].this
    distinct = bool(parts) and isinstance(parts[0], exp.Distinct)
    return [*parts[0].expressions, *parts[1:]] if distinct else parts, distinct, order


def _within_group(node: exp.WithinGroup) -> None:
    call = node.this
    fits = isinstance(call, exp.Anonymous) and call.name.lower() in _PERCENTILES and len(call.expressions) == 1
    if not fits or len(node.expression.expressions) != 1:
        raise query_error(
            node, "WITHIN GROUP works only with percentile_cont and percentile_disc, ordered by one value"
        )
    share = call.expressions[0]
    if not (isinstance(share, exp.Literal) and not share.is_string and 0 <= float(share.name) <= 1):
        raise query_error(node, "the fraction must be a literal between 0 and 1")


def _filter(node: exp.Filter) -> None:
    call = node.this.this if isinstance(node.this, exp.WithinGroup) else node.this
    if not isinstance(call, _AGGREGATED) and not (isinstance(call, exp.Anonymous) and call.name.lower() in AGGREGATES):
        raise query_error(node, "FILTER must follow an aggregate")


def _extract(node: exp.Extract) -> None:
    if node.this.name.lower() not in FIELDS:
        raise query_error(node, f"extract takes one of: {', '.join(FIELDS)}")


def _substring(node: exp.Substring) -> None:
    start = node.args.get("start")
    if start is None or start.is_string:
        raise query_error(node, "substring takes FROM and FOR with numbers; patterns can be used only with ~")


def _interval(node: exp.Interval) -> None:
    if not (isinstance(node.parent, exp.Add | exp.Sub) and node.parent.expression is node):
        raise query_error(
            node,
            "an interval can only be added to or subtracted from a time: created_at::timestamp + interval '7 days';"
            " its unit can be years, months, weeks, days, hours, minutes or seconds",
        )
    unit = str(node.args.get("unit") or "").lower().removesuffix("s")
    number = node.this.name.lstrip("+-") if isinstance(node.this, exp.Literal) else ""
    if not (number.isascii() and number.isdigit() and len(number) < 7) or unit not in INTERVALS:
        raise query_error(
            node, "write an interval as one whole number and one unit: '7 days', '3 months', '90 minutes'"
        )


def _bracket(node: exp.Bracket) -> None:
    key = node.expressions[0] if len(node.expressions) == 1 else None
    if key is None or not key.is_string:
        raise query_error(
            node,
            "the only subscript allowed is JSON['key']; for an array element write JSON -> 0, or use"
            " jsonb_array_elements",
        )


def _array(node: exp.Array) -> None:
    if not isinstance(node.parent, (exp.Any, exp.All, exp.Anonymous, exp.Paren, *_OF_JSON, *_OF_JSON_TOO)):
        raise query_error(node, "arrays are allowed only with ANY and ALL and after JSON operators")


def _quantified(node: exp.Expr) -> None:
    inner = node.this.unnest()
    if isinstance(inner, exp.Query):
        compared = exp.NEQ if isinstance(node, exp.All) else exp.EQ
        if type(node.parent) is not compared:
            raise query_error(
                node,
                "with a query, only = ANY and <> ALL are supported; otherwise compare with the min or max of the query",
            )
    elif not (isinstance(inner, exp.Array) and inner.expressions):
        raise query_error(node, "ANY and ALL need ARRAY['a', 'b'] or a query; otherwise write IN (…)")


def _member(node: exp.In) -> None:
    if not node.expressions and node.args.get("query") is None:
        raise query_error(node, "IN needs at least one value")


def _pattern(node: exp.Expr) -> None:
    # The pattern is translated to Python's syntax before the query runs.
    if not node.expression.is_string:
        raise query_error(node.expression, "a pattern must be a literal")
    try:
        as_python(node.expression.name.removeprefix("(?i)"))
    except UnsupportedPattern as wrong:
        raise query_error(node.expression, f"in this pattern {wrong}") from None


def _escape(node: exp.Escape) -> None:
    sign = node.expression.name if node.expression.is_string else ""
    if not isinstance(node.this, exp.Like | exp.ILike) or len(sign) != 1 or sign.isalnum() or sign in "%_'":
        raise query_error(node, "ESCAPE needs one character that is not a letter, digit or wildcard")


def array_keys(node: exp.Expr) -> list[str]:
    """Return the keys that a query lists as `ARRAY['a', 'b']` or `'{a,b}'`."""
    if isinstance(node, exp.Array) and all(isinstance(key, exp.Literal) for key in node.expressions):
        return [key.name for key in node.expressions]
    if node.is_string and node.name[:1] + node.name[-1:] == "{}":
        words = node.name[1:-1].split(",") if node.name != "{}" else []
        if not any(set(word) & set('"\\{}') or word != word.strip() or not word for word in words):
            return words
    raise query_error(node, "write the keys as ARRAY['a', 'b']")


def _keyed(node: exp.Expr) -> None:
    array_keys(node.expression)


def _window(node: exp.Window) -> None:
    call = node.this.this if isinstance(node.this, exp.Filter) else node.this
    if isinstance(node.parent, exp.Select) and node.arg_key == "windows":
        return
    if not isinstance(call, (*_AGGREGATED, *_RANKED)):
        raise query_error(node, f"{call.name or call.key} cannot be used with a window")


def _frame(node: exp.WindowSpec) -> None:
    for name in ("start", "end"):
        value = node.args.get(name)
        word = value.name if isinstance(value, exp.Literal) and not value.is_string else str(value or "").upper()
        if not (word in ("", "CURRENT ROW", "UNBOUNDED") or (word.isascii() and word.isdigit() and len(word) < 12)):
            raise query_error(node, "the bounds of a frame must be whole numbers, UNBOUNDED or CURRENT ROW")


_RULES: dict[type[exp.Expr], Callable[[Any], None]] = {
    **dict.fromkeys((exp.Union, exp.Except, exp.Intersect), _set),
    **dict.fromkeys((exp.Limit, exp.Offset, exp.Fetch), _count),
    **dict.fromkeys((exp.Any, exp.All), _quantified),
    **dict.fromkeys((exp.RegexpLike, exp.RegexpILike), _pattern),
    **dict.fromkeys(
        (exp.JSONBExtract, exp.JSONBExtractScalar, exp.JSONBContainsAnyTopKeys, exp.JSONBContainsAllTopKeys), _keyed
    ),
    exp.Select: _select,
    exp.Table: _table,
    exp.Lateral: _lateral,
    exp.Join: _join,
    exp.Values: _values,
    exp.Tuple: _tuple,
    exp.Subquery: _subquery,
    exp.With: _with,
    exp.Group: _group,
    exp.Star: _star,
    exp.Literal: _literal,
    exp.Cast: _cast,
    exp.Anonymous: _call,
    exp.WithinGroup: _within_group,
    exp.Filter: _filter,
    exp.Extract: _extract,
    exp.Substring: _substring,
    exp.Interval: _interval,
    exp.Bracket: _bracket,
    exp.Array: _array,
    exp.In: _member,
    exp.Escape: _escape,
    exp.Window: _window,
    exp.WindowSpec: _frame,
}
