"""FROM: documented tables, queries, rows of JSON values, and how they are joined."""

from dataclasses import dataclass

from sqlglot import exp

from evalscribe.query.casts import alike
from evalscribe.query.kinds import Kind
from evalscribe.query.operators import truth
from evalscribe.query.problem import nearest, only, refusal
from evalscribe.query.scope import Held, Relation, Scope, Source, folded
from evalscribe.query.tables import by_name
from evalscribe.query.writing import Term


@dataclass(frozen=True)
class Rows:
    """A function that makes rows of a JSON value."""

    of: str
    """`array` or `object`."""
    columns: tuple[tuple[str, Kind], ...]


FUNCTIONS = {
    "jsonb_array_elements": Rows("array", (("value", "jsonb"),)),
    "jsonb_array_elements_text": Rows("array", (("value", "text"),)),
    "jsonb_each": Rows("object", (("key", "text"), ("value", "jsonb"))),
    "jsonb_each_text": Rows("object", (("key", "text"), ("value", "text"))),
    "jsonb_object_keys": Rows("object", (("key", "text"),)),
}
MOST_JOINED = 60
"""In one FROM: SQLite joins no more."""
MOST_SOURCES = 100
"""Tables, queries and functions in all: what engines take to plan many is not within a query's own time."""
_JOINS = ("", "INNER", "LEFT", "RIGHT", "FULL", "CROSS")


def from_clause(node: exp.Select, scope: Scope) -> str:
    """What stands after FROM; the scope learns what it names."""
    first = node.args.get("from_")
    if first is None:
        return ""
    text = _source(first.this, scope)
    for join in node.args.get("joins") or []:
        text += _join(join, scope)
    return f" FROM {text}"


def _source(node: exp.Expr, scope: Scope) -> str:
    joins = node.args.get("joins")
    if joins:
        raise refusal(node, "joins inside parentheses are not understood: write them one after the other")
    if isinstance(node, exp.Subquery):
        return _query(node, scope)
    if isinstance(node, exp.Lateral):
        only(node, "this", "alias", "ordinality")
        if not isinstance(node.this, exp.Anonymous):
            raise refusal(
                node, "LATERAL queries are not offered: SQLite has none; write jsonb_array_elements(…) or a WITH"
            )
        return _function(node, node.this, scope, counted=bool(node.args.get("ordinality")))
    if isinstance(node, exp.Values):
        return _values(node, scope)
    if not isinstance(node, exp.Table):
        raise refusal(node, "only tables, queries and jsonb functions stand in FROM")
    if isinstance(node.this, exp.Anonymous):
        only(node, "this", "alias", "ordinality")
        return _function(node, node.this, scope, counted=bool(node.args.get("ordinality")))
    return _table(node, scope)


def _table(node: exp.Expr, scope: Scope) -> str:
    only(node, "this", "alias", "db", "catalog")
    if node.args.get("db") is not None or not isinstance(node.this, exp.Identifier):
        raise refusal(node, f"tables have one name, without a schema; there is: {', '.join(by_name())}")
    name, written = folded(node.this), scope.writing.fresh("t")
    query = scope.queries.get(name)
    if query is not None:
        _sized(written, query, scope)
        _add(node, scope, name, written, [(held.name, held.kind, held.text) for held in query.columns])
        return f"{query.text} AS {written}"
    table = by_name().get(name)
    if table is None:
        raise refusal(node, f"there is no table {name}{nearest(name, [*by_name(), *scope.queries])}")
    scope.writing.tables[table.name] = table.written
    _add(node, scope, name, written, [(one.name, one.kind, one.name) for one in table.columns])
    return f"{table.written} AS {written}"


def _query(node: exp.Subquery, scope: Scope) -> str:
    only(node, "this", "alias")
    if node.args.get("alias") is None:
        # Postgres before 16 wants a name as well.
        raise refusal(node, "give the query in FROM a name: (SELECT …) AS q")
    relation = scope.writing.inner(node.this.unnest(), Scope(scope.writing, None, queries=scope.queries))
    written = scope.writing.fresh("t")
    _sized(written, relation, scope)
    _add(node, scope, "", written, [(held.name, held.kind, held.text) for held in relation.columns])
    return f"({relation.whole}) AS {written}"


def _values(node: exp.Values, scope: Scope) -> str:
    """`(VALUES (1, 'a'), (2, 'b')) AS t(n, name)`; both engines call its columns alike."""
    only(node, "expressions", "alias")
    if node.args.get("alias") is None:
        raise refusal(node, "give VALUES a name, and its columns: (VALUES (…)) AS t(a, b)")
    rows = [[scope.term(part) for part in one.expressions] for one in node.expressions]
    if not rows[0] or any(len(row) != len(rows[0]) for row in rows):
        raise refusal(node, "all rows of VALUES have as many values")
    columns = [alike(list(column), scope.writing, node) for column in zip(*rows, strict=True)]
    texts = ["(" + ", ".join(term.text for term in row) + ")" for row in zip(*columns, strict=True)]
    written = scope.writing.fresh("t")
    named: list[tuple[str, Kind, str]] = [
        (f"column{number}", terms[0].kind, f"column{number}") for number, terms in enumerate(columns, 1)
    ]
    _add(node, scope, "", written, named)
    return f"(VALUES {', '.join(texts)}) AS {written}"


def _sized(written: str, relation: Relation, scope: Scope) -> None:
    scope.writing.sizes |= {f"{written}.{held.text}": held.size for held in relation.columns}


def _add(
    node: exp.Expr,
    scope: Scope,
    name: str,
    written: str,
    columns: list[tuple[str, Kind, str]],
    *,
    scalar: bool = False,
) -> None:
    """Under its alias, and with the columns' new names where it has them."""
    alias = node.args.get("alias")
    if alias is not None:
        only(alias, "this", "columns")
        name = folded(alias.this) if alias.this is not None else name
        given = [folded(one) for one in alias.args.get("columns") or []]
        if len(given) > len(columns):
            raise refusal(node, f"{name} has {len(columns)} columns, not {len(given)}")
        columns = [(new, *column[1:]) for new, column in zip(given, columns, strict=False)] + columns[len(given) :]
    scope.writing.sources += 1
    if len(scope.sources) >= MOST_JOINED or scope.writing.sources > MOST_SOURCES:
        raise refusal(node, f"at most {MOST_JOINED} are joined, and {MOST_SOURCES} named in all")
    if any(source.alias == name for source in scope.sources):
        raise refusal(node, f"{name} is named twice in FROM: give one of them an alias")
    held = tuple(Held(column, kind, f"{written}.{text}" if written else text) for column, kind, text in columns)
    scope.sources.append(Source(name, held, scalar))


def _function(node: exp.Expr, call: exp.Anonymous, scope: Scope, *, counted: bool) -> str:
    name = call.name.lower()
    rows = FUNCTIONS.get(name.replace("json_", "jsonb_", 1) if name.startswith("json_") else name)
    if rows is None:
        raise refusal(call, f"function {name} makes no rows here{nearest(name, list(FUNCTIONS))}")
    if len(call.expressions) != 1:
        raise refusal(call, f"{name} takes 1 argument")
    value = scope.term(call.expressions[0])
    if value.kind != "jsonb":
        raise refusal(call, f"{name} takes JSON, not {value.kind}")
    written = scope.writing.fresh("t")
    if scope.writing.sqlite:
        text, columns = _each(written, rows, value, scope)
    else:
        text, columns = _unnested(written, rows, name.replace("json_", "jsonb_", 1), value, scope)
    _named(node, scope, name, columns if counted else columns[:-1])
    return text


def _named(node: exp.Expr, scope: Scope, name: str, columns: list[tuple[str, Kind, str]]) -> None:
    """A function of one column gives it its alias, as in Postgres."""
    alias = node.args.get("alias")
    given = (alias.args.get("columns") or []) if alias is not None else []
    if alias is not None and alias.this is not None and not given and len(columns) == 1 and columns[0][0] != "value":
        columns = [(folded(alias.this), *columns[0][1:])]
    _add(node, scope, name, "", columns, scalar=len(columns) == 1)


def _each(written: str, rows: Rows, value: Term, scope: Scope) -> tuple[str, list[tuple[str, Kind, str]]]:
    texts = {
        "key": f"{written}.key",
        "jsonb": f"pg_each_json({written}.type, {written}.value, {written}.json, {written}.key)",
        "text": f"pg_each_text({written}.type, {written}.value, {written}.json, {written}.key)",
    }
    found = [(name, kind, texts["key" if name == "key" else kind]) for name, kind in rows.columns]
    ordinality: tuple[str, Kind, str] = ("ordinality", "bigint", f"({written}.key + 1)")
    return scope.writing.spelled(f"json_each(pg_{rows.of}({{0}})) AS {written}", value.text), [*found, ordinality]


def _unnested(
    written: str, rows: Rows, name: str, value: Term, scope: Scope
) -> tuple[str, list[tuple[str, Kind, str]]]:
    names = [column for column, _ in rows.columns]
    listed = ", ".join([*names, "ordinality"])
    text = scope.writing.spelled(f"LATERAL {name}({{0}}) WITH ORDINALITY AS {written}({listed})", value.text)
    found: list[tuple[str, Kind, str]] = [(column, kind, f"{written}.{column}") for column, kind in rows.columns]
    return text, [*found, ("ordinality", "bigint", f"{written}.ordinality")]


def _join(node: exp.Expr, scope: Scope) -> str:
    only(node, "this", "side", "kind", "on", "using", "method")
    words = [str(node.args.get(name) or "").upper() for name in ("side", "kind")]
    word = next((one for one in words if one and one != "OUTER"), "")
    if word not in _JOINS or node.args.get("method"):
        raise refusal(node, f"{node.args.get('method') or word} JOIN is not understood: write JOIN … ON")
    before = len(scope.sources)
    text = _source(node.this, scope)
    on, using = node.args.get("on"), node.args.get("using")
    comma = not any(words) and on is None and not using
    if isinstance(node.this.this, exp.Anonymous) and word in ("RIGHT", "FULL"):
        raise refusal(node, f"rows of a JSON value are joined with CROSS JOIN, LEFT JOIN or a comma, not {word}")
    if word == "CROSS" or comma:
        return f" CROSS JOIN {text}"
    if using:
        return f" {word} JOIN {text} ON {_using(node, using, scope, before, word)}"
    if on is None:
        raise refusal(node, "JOIN needs ON or USING")
    scope.refused = "ON"
    condition = truth(on, scope, "ON")
    scope.refused = "WHERE"
    return f" {word} JOIN {text} ON {condition.text}"


def _using(node: exp.Expr, names: list[exp.Expr], scope: Scope, before: int, word: str) -> str:
    conditions = []
    for one in names:
        name = folded(one if isinstance(one, exp.Identifier) else one.this)
        left = Scope(scope.writing, None, sources=scope.sources[:before], merged=scope.merged).column(one, name, None)
        right = Scope(scope.writing, None, sources=scope.sources[before:]).column(one, name, None)
        first, second = alike([left, right], scope.writing, node)
        conditions.append(f"({first.text} = {second.text})")
        kept = {"RIGHT": second.text, "FULL": f"coalesce({first.text}, {second.text})"}.get(word, first.text)
        scope.merged = {**scope.merged, name: Held(name, first.kind, kept)}
    return " AND ".join(conditions)
