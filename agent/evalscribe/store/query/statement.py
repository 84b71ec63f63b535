"""Turn a user's query into a statement for one engine, and convert the values that it returns.

The steps are: parse, check, qualify, limit, transpile.
"""

import json
from decimal import Decimal
from math import isfinite
from typing import Any

from pydantic import JsonValue
from sqlglot import exp
from sqlglot.errors import OptimizeError
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import Scope, traverse_scope
from sqlglot.schema import MappingSchema

from evalscribe.ids import Frozen
from evalscribe.store.query.check import MOST_COLUMNS, ROW_FUNCTIONS, check, row_function
from evalscribe.store.query.engines import METADATA, expand_row_functions, for_postgres, for_sqlite
from evalscribe.store.query.parsing import QueryError, Syntax, nearest, parse_query, query_error
from evalscribe.store.query.tables import Dialect, by_name

LONGEST = 400_000
"""Maximum number of characters in a statement after the columns of its inner queries have been written out.

A query planner writes out these columns too. For a longer statement, the planner of Postgres can allocate much memory
before a time limit interrupts the planner.
"""
_TIMES = (exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.DATE)
_FUNCTION_NAMES: dict[type[exp.Expr], str] = {
    exp.LogicalAnd: "bool_and",
    exp.LogicalOr: "bool_or",
    exp.StrPosition: "position",
}
_TYPE_NAMES = {
    "INT": "int4",
    "BIGINT": "int8",
    "SMALLINT": "int2",
    "DOUBLE": "float8",
    "FLOAT": "float4",
    "DECIMAL": "numeric",
    "BOOLEAN": "bool",
}


class ResultColumn(Frozen):
    """A column of a query's result."""

    name: str
    kind: str
    """Name of the type in sqlglot, such as `JSONB` or `BOOLEAN`; `UNKNOWN` if the type cannot be determined."""


class Statement(Frozen):
    """A checked query in the dialect of one engine. The statement has a parameter `collection_id`."""

    text: str
    columns: tuple[ResultColumn, ...]


def check_query(sql: str, dialect: Dialect, *, first_line: int = 1) -> Statement:
    """Check a user's query, and return the statement that an engine can run.

    Args:
        first_line: Number of the query's first line in error messages: 0 if the first line is not the user's.

    Raises:
        UsageError: The text is not a single SELECT over the documented tables. The message states line and column.
    """
    try:
        return _statement(sql, dialect)
    except QueryError as refused:
        raise refused.as_usage_error(sql, first_line) from None
    except RecursionError:
        raise QueryError("it is nested too deeply", None).as_usage_error(sql) from None


def _statement(sql: str, dialect: Dialect) -> Statement:
    tree = parse_query(sql)
    check(tree)
    _check_tables(tree)
    for bracket in list(tree.find_all(exp.Bracket)):
        bracket.replace(exp.JSONExtract(this=bracket.this, expression=bracket.expressions[0]))
    for select in list(tree.find_all(exp.Select)):
        _name_columns(select)
        _normalise_row_functions(select)
    # Before `qualify`, which expands `*`.
    _Widths(tree)
    schema = MappingSchema(
        {name: {column.name: column.kind for column in table.columns} for name, table in by_name().items()}
    )
    try:
        # Columns are checked by `_check_columns`, whose messages have a line, a column and similar names.
        tree = qualify(tree, dialect=Syntax, schema=schema, validate_qualify_columns=False)
    except OptimizeError as error:
        _check_columns(tree)
        raise QueryError(str(error).splitlines()[0], None) from None
    _check_columns(tree)
    _check_size(tree)
    if dialect == "sqlite":
        expand_row_functions(tree)
    tree = annotate_types(tree, schema=schema, expression_metadata=METADATA)
    _check_types(tree)
    columns = tuple(ResultColumn(name=column.alias_or_name, kind=_kind(column)) for column in tree.selects)
    used = _rename_tables(tree)
    text = for_sqlite(tree) if dialect == "sqlite" else for_postgres(tree)
    if len(text) > LONGEST:
        raise QueryError("it is too long with inner queries expanded: nest fewer queries", None)
    return Statement(text=_with_tables(text, used, dialect), columns=columns)


def _with_tables(text: str, used: list[str], dialect: Dialect) -> str:
    """Put a WITH before the query to define the documented tables. Only this WITH contains parameters."""
    # By default, Postgres would first store all rows of a table that is used twice, and apply the conditions of the
    # query afterwards.
    scoped = [f"{by_name()[name].written} AS NOT MATERIALIZED ({by_name()[name].scoped(dialect)})" for name in used]
    tables = f"WITH {', '.join(scoped)} " if scoped else ""
    if scoped and text.startswith("WITH "):
        tables, text = tables[:-1] + ", ", text.removeprefix("WITH ")
    if dialect == "postgres":
        # psycopg interprets every % in a statement with parameters, even in literals.
        tables, text = tables.replace(":collection_id", "%(collection_id)s"), text.replace("%", "%%")
    return f"{tables}{text}"


def _check_tables(tree: exp.Query) -> None:
    queries = [fold_name(with_query.args["alias"].this) for with_query in tree.find_all(exp.CTE)]
    for with_query in tree.find_all(exp.CTE):
        # The query would hide the documented table of the same name.
        if with_query.alias.lower() in by_name():
            raise query_error(with_query, f"{with_query.alias} is already a table: give the query another name")
    for table in tree.find_all(exp.Table):
        if not isinstance(table.this, exp.Identifier):
            continue
        name = fold_name(table.this)
        if name not in by_name() and name not in queries:
            raise query_error(table, f"table {name} does not exist{nearest(name, [*by_name(), *queries])}")


def fold_name(identifier: exp.Expr) -> str:
    """Return a name as Postgres reads it: in lower case, unless it is quoted."""
    return identifier.name if identifier.args.get("quoted") else identifier.name.lower()


def _name_columns(select: exp.Select) -> None:
    """Give each column without an alias the name that Postgres would give it."""
    columns = []
    for expression in select.expressions:
        plain = isinstance(expression, exp.Alias | exp.Column) or expression.is_star
        columns.append(
            expression
            if plain
            else exp.alias_(expression, _name(expression) or _fallback(expression), quoted=True, copy=False)
        )
    select.set("expressions", columns)


def _name(node: exp.Expr) -> str | None:
    """Return the name that Postgres gives an expression; None if it has only a default name.

    A cast has the name of the expression inside it, and a CASE has the name of its ELSE value.
    """
    if isinstance(node, exp.Column):
        return fold_name(node.this)
    if isinstance(node, exp.Anonymous):
        return node.name.lower()
    if isinstance(node, exp.Trim):
        return {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position")).upper(), "btrim")
    if isinstance(node, exp.Cast | exp.Window | exp.Filter | exp.WithinGroup | exp.Paren):
        return _name(node.this)
    if isinstance(node, exp.Case):
        return _name(node.args["default"]) if node.args.get("default") is not None else None
    if isinstance(node, exp.Subquery):
        selected = node.this.selects[0] if isinstance(node.this, exp.Query) and node.this.selects else None
        if isinstance(selected, exp.Alias):
            return fold_name(selected.args["alias"])
        return None if selected is None or selected.is_star else _name(selected) or _fallback(selected)
    if isinstance(node, exp.Func) and not isinstance(node, exp.Binary):
        return _FUNCTION_NAMES.get(type(node)) or node.sql_name().lower()
    return None


def _fallback(node: exp.Expr) -> str:
    if isinstance(node, exp.Paren):
        return _fallback(node.this)
    if isinstance(node, exp.Cast):
        name = str(node.args["to"].this.name)
        return _TYPE_NAMES.get(name, name.lower())
    return "case" if isinstance(node, exp.Case) else "?column?"


def _normalise_row_functions(select: exp.Select) -> None:
    """Rewrite functions in FROM as LATERAL with named columns, so that sqlglot's `qualify` can handle them."""
    for values in [source for source in _sources(select) if isinstance(source, exp.Values)]:
        column_names = values.args["alias"].args.get("columns") or []
        width = len(values.expressions[0].expressions)
        more_columns = [exp.to_identifier(f"column{number}") for number in range(len(column_names) + 1, width + 1)]
        values.args["alias"].set("columns", [*column_names, *more_columns])
    for table in [source for source in _sources(select) if isinstance(source.this, exp.Anonymous)]:
        name, alias = row_function(table.this.name), table.args.get("alias")
        alias_name = alias.this if alias is not None and alias.this is not None else exp.to_identifier(name)
        column_names = list(alias.args.get("columns") or []) if alias is not None else []
        columns = [exp.to_identifier(column_name) for column_name in ROW_FUNCTIONS[name]]
        if table.args.get("ordinality"):
            columns.append(exp.to_identifier("ordinality"))
        if len(column_names) > len(columns):
            raise query_error(table, f"{alias_name.name} has {len(columns)} columns, not {len(column_names)}")
        if len(columns) == 1 and not column_names and alias is not None and name == "jsonb_object_keys":
            column_names = [alias_name.copy()]
        columns[: len(column_names)] = column_names
        if table.this.expressions[0].is_string:
            raise query_error(table.this, f"{name} takes JSON, not text")
        call = exp.Anonymous(this=name, expressions=table.this.expressions)
        table_alias = exp.TableAlias(this=alias_name, columns=columns)
        table.replace(exp.Lateral(this=call, alias=table_alias, ordinality=table.args.get("ordinality")))
        if len(columns) == 1:
            _replace_rows(select, alias_name, columns[0])


def _replace_rows(select: exp.Select, alias_name: exp.Identifier, column: exp.Identifier) -> None:
    """Replace the alias of a one-column function with the function's column, where the query uses the alias as a value.

    Nothing is replaced if a table has a column with the alias's name, because the name then refers to that column.
    """
    name = fold_name(alias_name)
    tables = [by_name()[fold_name(source.this)] for source in _sources(select) if source.name.lower() in by_name()]
    if name == fold_name(column) or any(
        table_column.name == name for table in tables for table_column in table.columns
    ):
        return
    for reference in list(select.find_all(exp.Column)):
        if not reference.args.get("table") and not reference.is_star and fold_name(reference.this) == name:
            reference.set("table", alias_name.copy())
            reference.set("this", column.copy())
            if isinstance(reference.parent, exp.Select) and reference.arg_key == "expressions":
                reference.replace(exp.alias_(reference.copy(), name, quoted=True))


def _sources(select: exp.Select) -> list[Any]:
    first = select.args.get("from_")
    return [first.this, *(join.this for join in select.args.get("joins") or [])] if first is not None else []


class _Widths:
    """Counts the columns of queries before `*` is expanded, because expanding it could take exponential memory."""

    def __init__(self, tree: exp.Expr) -> None:
        self._widths: dict[int, int] = {}
        self._queries: dict[str, list[exp.Expr]] = {}
        for with_query in tree.find_all(exp.CTE):
            self._queries.setdefault(fold_name(with_query.args["alias"].this), []).append(with_query.this)
        for query in tree.find_all(exp.Select, exp.SetOperation, exp.Subquery):
            self._width(query)

    def _width(self, query: exp.Expr) -> int:
        if id(query) not in self._widths:
            self._widths[id(query)] = 1  # ends the recursion for a query that reads itself, which is refused later
            self._widths[id(query)] = width = self._count(query)
            if width > MOST_COLUMNS:
                raise query_error(query, f"SELECT can return at most {MOST_COLUMNS:,} columns")
        return self._widths[id(query)]

    def _count(self, query: exp.Expr) -> int:
        if isinstance(query, exp.SetOperation):
            return max(self._width(query.this), self._width(query.expression))
        if isinstance(query, exp.Subquery):
            return self._width(query.this)
        if not isinstance(query, exp.Select):
            raise query_error(query, "only SELECT is allowed")
        sources = {source.alias_or_name.lower() or str(number): source for number, source in enumerate(_sources(query))}
        widths = {name: self._source_width(source) for name, source in sources.items()}
        total = 0
        for expression in query.expressions:
            star = (
                sum(widths.values())
                if isinstance(expression, exp.Star)
                else widths.get(getattr(expression, "table", "").lower(), 1)
            )
            total += star if expression.is_star else 1
        return total

    def _source_width(self, source: exp.Expr) -> int:
        if isinstance(source, exp.Subquery):
            return self._width(source)
        if isinstance(source, exp.Table):
            name = fold_name(source.this)
            widths = [self._width(query) for query in self._queries.get(name, ())]
            return max([*widths, len(by_name()[name].columns) if name in by_name() else 1])
        return len(source.args["alias"].args["columns"])


def _check_columns(tree: exp.Expr) -> None:
    for row in tree.find_all(exp.TableColumn):
        raise query_error(row, f"column {row.name} does not exist")
    for scope in traverse_scope(tree):
        columns_by_table = {name: _columns(source) for name, source in scope.sources.items()}
        aliases = {selected.alias_or_name for selected in getattr(scope.expression, "selects", ())}
        for column in scope.columns:
            name, table = column.name, column.table
            if table and table in columns_by_table:
                columns = columns_by_table[table]
                if columns is not None and name not in columns:
                    raise query_error(column, f"column {name} does not exist in {table}{nearest(name, columns)}")
            elif table:
                if scope.is_root or not scope.is_correlated_subquery:
                    raise query_error(column, f"FROM has no table {table}{nearest(table, list(columns_by_table))}")
            elif name not in aliases or not isinstance(
                column.find_ancestor(exp.Group, exp.Order, exp.Select), exp.Group | exp.Order
            ):
                tables_with_name = [
                    table_name for table_name, columns in columns_by_table.items() if columns and name in columns
                ]
                if len(tables_with_name) > 1:
                    raise query_error(column, f"column {name} is ambiguous: write its table's name")
                names = list(
                    dict.fromkeys(column_name for columns in columns_by_table.values() for column_name in columns or ())
                )
                raise query_error(column, f"column {name} does not exist{nearest(name, names)}")


def _columns(source: Any) -> list[str] | None:
    if isinstance(source, exp.Table):
        table = by_name().get(source.name)
        return [column.name for column in table.columns] if table else None
    expression = source.expression
    if isinstance(expression, exp.UDTF):
        return [identifier.name for identifier in expression.args["alias"].args.get("columns") or []] or None
    return list(expression.named_selects)


def _check_types(tree: exp.Expr) -> None:
    for node in tree.find_all(exp.Add, exp.Sub, exp.RegexpLike, exp.RegexpILike):
        if isinstance(node, exp.RegexpLike | exp.RegexpILike):
            if node.this.is_type(*exp.DataType.NUMERIC_TYPES, exp.DType.BOOLEAN, exp.DType.JSONB):
                raise query_error(
                    node, f"a pattern needs text, but this is {_type_name(node.this)}: write CAST(… AS TEXT)"
                )
            continue
        left, right = node.this, node.expression
        temporal = [operand for operand in (left, right) if operand.is_type(*_TIMES)]
        if not temporal or isinstance(right, exp.Interval) or isinstance(node.find_ancestor(exp.Extract), exp.Extract):
            continue
        dates = all(
            operand.is_type(exp.DType.DATE) or operand.is_type(*exp.DataType.INTEGER_TYPES) for operand in (left, right)
        )
        if not dates or (len(temporal) == 2 and isinstance(node, exp.Add)):
            raise query_error(
                node,
                f"{_type_name(left)} and {_type_name(right)} cannot be combined here: write extract(epoch from a - b), "
                "which returns seconds, or add an interval to a time: created_at::timestamp + interval '7 days'",
            )


def _type_name(node: exp.Expr) -> str:
    name = _kind(node).lower()
    return "bigint" if name == "int" else name


def _kind(node: exp.Expr) -> str:
    return str(node.type.this.name) if node.type is not None and isinstance(node.type.this, exp.DType) else "UNKNOWN"


def _check_size(tree: exp.Expr) -> None:
    """Raise `QueryError` if the query would be too long after the columns of inner queries are written out."""
    sizes: dict[int, dict[str, int]] = {}
    for scope in traverse_scope(tree):
        column_sizes = sizes[id(scope.expression)] = {}
        if not isinstance(scope.expression, exp.Query):
            continue
        for select in scope.expression.selects:
            column_sizes[select.alias_or_name] = _limited_size(_sizes(select, scope, sizes))
        for name in ("where", "group", "having", "order", "joins"):
            part = scope.expression.args.get(name)
            for clause in part if isinstance(part, list) else [part] if part is not None else []:
                _limited_size(_sizes(clause, scope, sizes))


def _sizes(node: exp.Expr, scope: Scope, sizes: dict[int, dict[str, int]]) -> int:
    size = 0
    for part in node.walk():
        size += 8
        if isinstance(part, exp.Column):
            source = scope.sources.get(part.table)
            size += sizes.get(id(source.expression), {}).get(part.name, 0) if isinstance(source, Scope) else 0
        elif isinstance(part, exp.Literal):
            size += len(part.name)
    return size


def _limited_size(size: int) -> int:
    if size > LONGEST:
        raise QueryError("it is too long with inner queries expanded: nest fewer queries", None)
    return size


def _rename_tables(tree: exp.Expr) -> list[str]:
    """Rename the tables, and the queries in WITH. Return the names of the documented tables that the query uses.

    The new names are generated. Without them, a name that the user chose could hide a table of the store.
    """
    used, queries = set[str](), dict[int, str]()
    renamed = list[tuple[exp.Table, str]]()
    for scope in traverse_scope(tree):
        for table, source in scope.selected_sources.values():
            if not isinstance(table, exp.Table) or isinstance(table.this, exp.Anonymous):
                continue
            if isinstance(source, Scope):
                name = queries.setdefault(id(source.expression), f"w{len(queries) + 1}")
            elif source.name in by_name() and not source.db:
                used.add(source.name)
                name = by_name()[source.name].written
            else:
                raise query_error(table, f"table {table.name} does not exist{nearest(table.name, list(by_name()))}")
            renamed.append((table, name))
    for table, name in renamed:
        table.set("this", exp.to_identifier(name, quoted=True))
    done = {id(table) for table, _ in renamed}
    for table in tree.find_all(exp.Table):
        if id(table) not in done and not isinstance(table.this, exp.Anonymous):
            raise query_error(table, f"table {table.name} does not exist{nearest(table.name, list(by_name()))}")
    for query in tree.find_all(exp.CTE):
        name = queries.setdefault(id(query.this), f"w{len(queries) + 1}")
        query.args["alias"].set("this", exp.to_identifier(name, quoted=True))
    return sorted(used)


def convert_value(column: ResultColumn, cell: JsonValue) -> JsonValue:
    """Convert one cell of a query's result. SQLite returns booleans as numbers, and JSON as text."""
    if cell is None:
        return None
    if column.kind == "BOOLEAN":
        return bool(cell)
    return json_value(cell) if column.kind == "JSONB" and isinstance(cell, str) else cell


def json_value(text: str) -> JsonValue:
    """Parse JSON that an engine returned. A truncated value is no longer valid JSON and is returned as text."""
    try:
        value: JsonValue = json.loads(text, parse_float=_number, parse_constant=str, object_pairs_hook=_in_order)
    except (ValueError, RecursionError):
        return text
    return value


def _number(text: str) -> JsonValue:
    """Parse a number that has a decimal point or an exponent.

    `1e3` becomes an integer, as in Postgres. A number that is too large for a float is returned as text.
    """
    exponent = Decimal(text).as_tuple().exponent
    # Without the limit, `1e999999999` would become a number of a billion digits.
    is_whole = isinstance(exponent, int) and 0 <= exponent < 400
    if is_whole:
        return int(Decimal(text))
    # `+ 0.0` turns -0.0 into 0.0, because the numbers of jsonb have no negative zero.
    return number + 0.0 if isfinite(number := float(text)) else text


def _in_order(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # Postgres returns the keys of jsonb in an order of its own.
    return dict(sorted(pairs))
