"""Transpile a checked query to Postgres or SQLite.

sqlglot does most of the work. For SQLite, this module adds JSON operators, casts, times and patterns. The generated SQL
calls SQLite's own functions and the functions defined in `store.query.process`. Only arguments that are columns are
written more than once, because repeating the arguments of nested calls would make the statement exponentially long.
"""

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.dialects.sqlite import SQLite
from sqlglot.generators.postgres import PostgresGenerator
from sqlglot.generators.sqlite import SQLiteGenerator
from sqlglot.optimizer.scope import traverse_scope

from evalscribe.store.query.check import arguments, array_keys
from evalscribe.store.query.parsing import word_set
from evalscribe.store.query.patterns import as_python

_JSON_CALLS = word_set(
    "array_agg json_agg jsonb_agg to_json to_jsonb json_build_array json_build_object jsonb_build_array "
    "jsonb_build_object json_element "
)
_LISTS = ("array_agg", "json_agg", "jsonb_agg", "string_agg")
_KEYWORDS = {"left": "text_left", "right": "text_right"}
"""Names used on SQLite for functions whose Postgres names are keywords in SQLite."""
_BUILT = {"object": "json_object", "array": "json_array"}
_TEXT_TYPES = ("TEXT", "VARCHAR", "JSON", "JSONB")
_COMPARED = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Like, exp.ILike)
# `json_extract` returns 1 and 0 for true and false.
_TEXT_OF_JSON = (
    "(CASE json_type({0}, {1}) WHEN 'true' THEN 'true' WHEN 'false' THEN 'false'"
    " ELSE CAST(json_extract({0}, {1}) AS TEXT) END)"
)


def _annotate_call(annotator: Any, node: exp.Anonymous) -> exp.Expr:
    name = node.name.lower()
    kind = exp.DType.JSONB if name in _JSON_CALLS else exp.DType.UNKNOWN
    if name in ("jsonb_exists", "starts_with"):
        kind = exp.DType.BOOLEAN
    annotator._set_type(node, exp.DType.TIMESTAMP if name == "date_trunc" else kind)
    return node


METADATA: dict[type[exp.Expr], dict[str, Any]] = {
    **Postgres.EXPRESSION_METADATA,
    **{node: {"returns": exp.DType.JSONB} for node in (exp.JSONExtract, exp.JSONBExtract)},
    **{node: {"returns": exp.DType.TEXT} for node in (exp.JSONExtractScalar, exp.JSONBExtractScalar)},
    exp.Anonymous: {"annotator": _annotate_call},
}
"""Result types of expressions, including expressions that sqlglot does not know."""


def for_postgres(tree: exp.Expr) -> str:
    """Return the statement for Postgres."""
    return tree.sql(dialect=_Postgres)


def for_sqlite(tree: exp.Expr) -> str:
    """Return the statement for SQLite. The tree is modified."""
    for node in list(tree.find_all(*_COMPARED)):
        _spread_list(node)
    for values in list(tree.find_all(exp.Values)):
        _name_values(values)
    for union in list(tree.find_all(exp.SetOperation)):
        for part in (union.this, union.expression):
            if isinstance(part, exp.Subquery):  # SQLite allows no parentheses around a part of a UNION
                part.replace(exp.select("*").from_(exp.Subquery(this=part.unnest(), alias=exp.to_identifier("q"))))
    return tree.sql(dialect=_SQLite)


def expand_row_functions(tree: exp.Expr) -> None:
    """Replace functions in FROM by `json_each`, and express their columns with the columns of `json_each`."""
    references: list[tuple[exp.Column, Any]] = []
    for scope in traverse_scope(tree):
        laterals = {
            name: source.expression
            for name, source in scope.sources.items()
            if isinstance(getattr(source, "expression", None), exp.Lateral)
        }
        references += [(column, laterals[column.table]) for column in scope.columns if column.table in laterals]
    # A column of an outer query is listed in several scopes, but must be replaced once.
    for column, lateral in {
        id(reference): (reference, lateral_source) for reference, lateral_source in references
    }.values():
        names = [identifier.name for identifier in lateral.args["alias"].args["columns"]]
        call, table = lateral.this.name, column.args["table"]

        # The table is a default argument, because the variable has a different value in the next iteration.
        def of_each(name: str, table: exp.Expr = table) -> exp.Column:
            return exp.Column(this=exp.to_identifier(name, quoted=True), table=table.copy())

        place = names.index(column.name)
        if lateral.args.get("ordinality") and place == len(names) - 1:
            new: exp.Expr = exp.Paren(this=exp.Add(this=of_each("key"), expression=exp.Literal.number(1)))
        elif place == 0 and call not in ("jsonb_array_elements", "jsonb_array_elements_text"):
            new = of_each("key")
        else:
            name = "json_element_text" if call.endswith("_text") else "json_element"
            new = exp.Anonymous(this=name, expressions=[of_each("type"), of_each("value")])
        column.replace(new)
    for lateral in list(tree.find_all(exp.Lateral)):
        call = exp.Anonymous(this="json_each", expressions=lateral.this.expressions)
        alias = exp.TableAlias(this=lateral.args["alias"].this)
        lateral.replace(exp.Table(this=call, alias=alias))


def _spread_list(node: exp.Expr) -> None:
    """Rewrite a comparison with ANY or ALL for SQLite.

    `x = ANY(…)` becomes IN. Other comparisons become one comparison for each element of an ARRAY.
    """
    quantifier = node.expression
    if not isinstance(quantifier, exp.Any | exp.All):
        return
    inner, is_all = quantifier.this.unnest(), isinstance(quantifier, exp.All)
    if type(node) is (exp.NEQ if is_all else exp.EQ):
        operands = (
            {"query": exp.Subquery(this=inner)} if isinstance(inner, exp.Query) else {"expressions": inner.expressions}
        )
        new: exp.Expr = exp.In(this=node.this, **operands)
        node.replace(exp.Paren(this=exp.Not(this=new) if is_all else new))
        return
    comparisons: list[exp.Expr] = [
        type(node)(**{**node.copy().args, "expression": element.copy()}) for element in inner.expressions
    ]
    node.replace(exp.Paren(this=exp.and_(*comparisons, copy=False) if is_all else exp.or_(*comparisons, copy=False)))


def _name_values(values: exp.Values) -> None:
    """Wrap VALUES in a SELECT that names its columns, because SQLite names them column1, column2 …"""
    alias = values.args["alias"]
    columns = [
        exp.alias_(exp.column(f"column{number}"), identifier.name, quoted=True)
        for number, identifier in enumerate(alias.args.get("columns") or [], 1)
    ]
    rows = exp.Values(expressions=values.expressions)
    values.replace(exp.Subquery(this=exp.Select(expressions=columns, from_=exp.From(this=rows)), alias=alias.this))


class _PostgresSQL(PostgresGenerator):
    def round_sql(self, expression: exp.Round) -> str:
        """Render `round` with a cast, because Postgres rounds only numeric values to a given number of digits."""
        digits = expression.args.get("decimals")
        if digits is None:
            return self.func("ROUND", expression.this)
        return self.func("ROUND", exp.cast(expression.this, "numeric"), digits)

    def converted(self, node: exp.Cast) -> str:
        """Render a cast.

        JSON's null is turned into SQL's NULL before JSON is cast, because older Postgres servers cannot cast JSON's
        null.
        """
        if isinstance(node.this.unnest(), exp.JSONExtract) and node.args["to"].this.name not in _TEXT_TYPES:
            part, kind = self.sql(node, "this"), self.sql(node, "to")
            return f"CAST(NULLIF({part}, 'null'::jsonb) AS {kind})"
        return self.cast_sql(node)

    def function_call(self, node: exp.Anonymous) -> str:
        """Render a function call.

        Aggregates that collect values in a list return JSON, so that both engines return the same result.
        """
        name = node.name.lower()
        if name not in _LISTS:
            return self.anonymous_sql(node)
        parts, distinct, order = arguments(node)
        function = "string_agg" if name == "string_agg" else "jsonb_agg"
        arguments_sql = ", ".join(map(self.sql, parts))
        order_sql = f" ORDER BY {', '.join(map(self.sql, order))}" if order else ""
        return f"{function}({'DISTINCT ' if distinct else ''}{arguments_sql}{order_sql})"

    TRANSFORMS: ClassVar = {
        **PostgresGenerator.TRANSFORMS,
        exp.Round: round_sql,
        exp.Cast: converted,
        exp.Anonymous: function_call,
    }


class _Postgres(Postgres):
    generator_class = _PostgresSQL


class _SQLiteSQL(SQLiteGenerator):
    def get(self, node: exp.Expr) -> str:
        """Render the JSON operators `->` and `#>` for SQLite."""
        document, steps = _chain(node)
        if steps is not None:
            return f"({self.sql(document)} -> {self.quoted(_path(steps))})"
        if isinstance(node, exp.JSONBExtract | exp.JSONBExtractScalar):
            listed = ", ".join(map(self.quoted, array_keys(node.expression)))
            return f"json_path({self.sql(node, 'this')}{', ' if listed else ''}{listed})"
        return f"json_get({self.sql(node, 'this')}, {self.sql(node, 'expression')})"

    def get_text(self, node: exp.Expr) -> str:
        """Render the JSON operators `->>` and `#>>` for SQLite.

        SQLite's own operators would return 1 for JSON's true.
        """
        document, steps = _chain(node)
        if steps is not None and isinstance(document, exp.Column):
            return _TEXT_OF_JSON.format(self.sql(document), self.quoted(_path(steps)))
        return f"json_text({self.get(node)})"

    def has_key(self, node: exp.Expr) -> str:
        """Render the JSON operator `?`, which tests whether a value has a key.

        For an array, the operator tests whether the key is an element of the array. SQLite's own functions do not
        search arrays in this way, so `json_has` is used for arrays.
        """
        document, steps = _chain(node.this)
        key, key_node = self.sql(node, "expression"), node.expression
        plain = (
            isinstance(document, exp.Column) and steps is not None and key_node.is_string and _is_plain(key_node.name)
        )
        if not plain or steps is None:
            return f"json_has({self.sql(node, 'this')}, {key})"
        json_sql = f"{self.sql(document)}"
        path, inner = self.quoted(_path(steps)), self.quoted(_path([*steps, key_node.name]))
        return (
            f"(CASE WHEN json_type({json_sql}, {inner}) IS NOT NULL THEN 1"
            f" WHEN json_type({json_sql}, {path}) = 'object' THEN 0 ELSE json_has({json_sql} -> {path}, {key}) END)"
        )

    def has_keys(self, node: exp.Expr) -> str:
        """Render `?|` and `?&` for SQLite. These JSON operators test whether a value has any or all of several keys."""
        listed = "".join(f", {self.quoted(key)}" for key in array_keys(node.expression))
        name = "json_has_all" if isinstance(node, exp.JSONBContainsAllTopKeys) else "json_has_any"
        return f"{name}({self.sql(node, 'this')}{listed})"

    def contains(self, node: exp.Expr) -> str:
        """Render `@>` and `<@` for SQLite. These JSON operators test whether one value contains the other."""
        parts = [self.sql(node, "this"), self.sql(node, "expression")]
        return f"json_contains({', '.join(parts if isinstance(node, exp.ArrayContainsAll) else parts[::-1])})"

    def matches(self, node: exp.Expr) -> str:
        pattern = node.expression.name
        any_case = isinstance(node, exp.RegexpILike) or pattern.startswith("(?i)")
        python = self.quoted(as_python(pattern.removeprefix("(?i)")))
        return f"matches({self.sql(node, 'this')}, {python}, {int(any_case)})"

    def like(self, node: exp.Expr) -> str:
        """Render LIKE with an ESCAPE clause.

        Without an ESCAPE clause, Postgres uses a backslash as the escape character, and SQLite has no escape character.
        """
        text, pattern = self.sql(node, "this"), self.sql(node, "expression")
        if isinstance(node, exp.ILike):
            # SQLite runs with `case_sensitive_like`, so case has to be removed here.
            text, pattern = f"lower({text})", f"lower({pattern})"
        escape = "" if isinstance(node.parent, exp.Escape) else " ESCAPE '\\'"
        return f"{text} {'NOT LIKE' if node.args.get('negate') else 'LIKE'} {pattern}{escape}"

    def converted(self, node: exp.Expr) -> str:
        inner, kind = node.this.unnest(), node.args["to"].this.name
        if isinstance(inner, exp.JSONExtract | exp.JSONBExtract) and kind not in _TEXT_TYPES:
            text = self.get_text(inner)
        else:
            text = self.sql(node, "this")
        if kind in ("JSON", "JSONB"):
            return f"json({text})"
        if kind in ("DATE", "TIMESTAMP", "TIMESTAMPTZ"):
            return f"{'date' if kind == 'DATE' else 'datetime'}({text})"
        if kind == "BOOLEAN":
            return text if node.this.is_type(exp.DType.BOOLEAN) else f"to_boolean({text})"
        if kind in ("TEXT", "VARCHAR"):
            return f"CAST({text} AS TEXT)"
        return f"CAST({text} AS {'REAL' if kind in ('DOUBLE', 'FLOAT', 'DECIMAL') else 'INTEGER'})"

    def moved(self, node: exp.Expr) -> str:
        """Render `+` and `-`. An operand can be a time or a date."""
        sign = "+" if isinstance(node, exp.Add) else "-"
        left, right = node.this, node.expression
        if isinstance(right, exp.Interval):
            unit = str(right.args["unit"]).lower().removesuffix("s")
            # SQLite cannot add weeks to a time.
            number = int(right.this.name) * (7 if unit == "week" else 1) * (1 if sign == "+" else -1)
            return f"datetime({self.sql(left)}, '{number:+} {'day' if unit == 'week' else unit}')"
        dates = [operand.is_type(exp.DType.DATE) for operand in (left, right)]
        if all(dates):
            return f"CAST(julianday({self.sql(left)}) - julianday({self.sql(right)}) AS INTEGER)"
        if any(dates):
            date, days = (left, right) if dates[0] else (right, left)
            minus = "" if sign == "+" else "-"
            return f"date({self.sql(date)}, ({minus}({self.sql(days)})) || ' days')"
        return f"{self.sql(left)} {sign} {self.sql(right)}"

    def extracted(self, node: exp.Expr) -> str:
        field, time = node.this.name.lower(), node.expression.unnest()
        if field == "epoch" and isinstance(time, exp.Sub) and not isinstance(time.expression, exp.Interval):
            # SQLite has times as text, which cannot be subtracted.
            return f"(unixepoch({self.sql(time, 'this')}) - unixepoch({self.sql(time, 'expression')}))"
        return f"date_part('{field}', {self.sql(time)})"

    def function_call(self, node: exp.Anonymous) -> str:
        name = node.name.lower()
        if name in _LISTS:
            return self.collected(node, name)
        parts = ", ".join(map(self.sql, node.expressions))
        if "_build_" in name:
            parts = ", ".join(map(self.as_json, node.expressions))
            return f"{_BUILT[name.rpartition('_')[2]]}({parts})"
        if name in ("to_json", "to_jsonb"):
            return f"json_quote({self.as_json(node.expressions[0])})"
        return f"{_KEYWORDS.get(name, name.replace('jsonb_', 'json_'))}({parts})"

    def as_json(self, node: exp.Expr) -> str:
        """Render an expression so that SQLite's functions read its value as JSON rather than as text."""
        if node.is_type(exp.DType.JSONB, exp.DType.JSON):
            return f"json({self.sql(node)})"
        return f"json(json_boolean({self.sql(node)}))" if node.is_type(exp.DType.BOOLEAN) else self.sql(node)

    def collected(self, node: exp.Anonymous, name: str) -> str:
        """Render an aggregate that collects values in a list.

        The arguments of the rendered function are the mode, a separator (only for `string_agg`), the value and the sort
        keys.
        """
        parts, distinct, order = arguments(node)
        modes = ["distinct"] if distinct else []
        modes += [
            f"{'desc' if sort_key.args.get('desc') else 'asc'}{'-first' if sort_key.args.get('nulls_first') else ''}"
            for sort_key in order
        ]
        sorted_by = "".join(f", {self.sql(sort_key, 'this')}" for sort_key in order)
        if name == "string_agg":
            return f"string_agg('{' '.join(modes)}', {self.sql(parts[1])}, {self.sql(parts[0])}{sorted_by})"
        json = parts[0].is_type(exp.DType.JSONB, exp.DType.JSON, exp.DType.BOOLEAN)
        value = self.as_json(parts[0]) if json else f"json_quote({self.sql(parts[0])})"
        return f"json_agg('{' '.join(modes)}', {value}{sorted_by})"

    def percentile(self, node: exp.Expr) -> str:
        order = node.expression.expressions[0]
        direction = "DESC" if order.args.get("desc") else "ASC"
        share = self.sql(node.this.expressions[0])
        return f"{node.this.name.lower()}({share}, {self.sql(order, 'this')}, '{direction}')"

    def quoted(self, text: str) -> str:
        return self.sql(exp.Literal.string(text))

    TRANSFORMS: ClassVar[dict[Any, Callable[..., str]]] = {
        **SQLiteGenerator.TRANSFORMS,
        **dict.fromkeys((exp.JSONExtract, exp.JSONBExtract), get),
        **dict.fromkeys((exp.JSONExtractScalar, exp.JSONBExtractScalar), get_text),
        **dict.fromkeys((exp.JSONBContainsAnyTopKeys, exp.JSONBContainsAllTopKeys), has_keys),
        **dict.fromkeys((exp.ArrayContainsAll, exp.ArrayContainedBy), contains),
        **dict.fromkeys((exp.RegexpLike, exp.RegexpILike), matches),
        **dict.fromkeys((exp.Like, exp.ILike), like),
        **dict.fromkeys((exp.Add, exp.Sub), moved),
        exp.JSONBContainsTopKey: has_key,
        exp.Cast: converted,
        exp.Extract: extracted,
        exp.Anonymous: function_call,
        exp.WithinGroup: percentile,
        exp.Pow: lambda self, node: f"power({self.sql(node, 'this')}, {self.sql(node, 'expression')})",
    }


class _SQLite(SQLite):
    generator_class = _SQLiteSQL


def _chain(node: exp.Expr) -> tuple[exp.Expr, list[str | int] | None]:
    """Return the document at the start of a chain of JSON operators, and the path to the part that the chain selects.

    The path is None if no path can express the last operator.
    """
    if isinstance(node, exp.Paren):
        return _chain(node.this)
    if isinstance(node, exp.JSONBExtract | exp.JSONBExtractScalar):
        new_steps: list[str | int] | None = list(array_keys(node.expression))
        if not all(_is_plain(str(key)) and not str(key).removeprefix("-").isdigit() for key in new_steps or []):
            return node.this, None
    elif isinstance(node, exp.JSONExtract | exp.JSONExtractScalar):
        step = _step(node.expression)
        new_steps = None if step is None else [step]
    else:
        return node, []
    if new_steps is None:
        return node.this, None
    if isinstance(node.this.unnest(), exp.JSONExtract | exp.JSONBExtract):
        # With one path for all operators, SQLite parses the document only once.
        document, outer_steps = _chain(node.this)
        if outer_steps is not None:
            return document, [*outer_steps, *new_steps]
    return node.this, new_steps


def _step(key: exp.Expr) -> str | int | None:
    if key.is_string:
        return key.name if _is_plain(key.name) else None
    number = key.this if isinstance(key, exp.Neg) else key
    if isinstance(number, exp.Literal) and number.name.isdigit() and len(number.name) < 10:
        return -int(number.name) if isinstance(key, exp.Neg) else int(number.name)
    return None


def _is_plain(key: str) -> bool:
    """Return whether a JSON path in SQLite can contain this key."""
    return bool(key) and key.isprintable() and not set(key) & {'"', "\\"}


def _path(steps: list[str | int]) -> str:
    return "$" + "".join(
        f'."{step}"' if isinstance(step, str) else f"[{step}]" if step >= 0 else f"[#{step}]" for step in steps
    )
