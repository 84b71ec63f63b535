"""What Postgres calls a column that nobody named."""

from sqlglot import exp

from evalscribe.query.scope import folded

UNNAMED = "?column?"
_TYPES = {
    "INT": "int4",
    "BIGINT": "int8",
    "SMALLINT": "int2",
    "DOUBLE": "float8",
    "FLOAT": "float4",
    "DECIMAL": "numeric",
    "BOOLEAN": "bool",
}
_NAMES: dict[type[exp.Expr], str] = {
    exp.Exists: "exists",
    exp.Extract: "extract",
    exp.Substring: "substring",
    exp.StrPosition: "position",
}
_THROUGH = (exp.Cast, exp.Window, exp.Filter, exp.WithinGroup, exp.Paren)


def name_of(node: exp.Expr) -> str:
    return _own(node) or _otherwise(node)


def _own(node: exp.Expr) -> str | None:
    """A name that a cast or a CASE around it does not change."""
    if isinstance(node, exp.Column):
        return folded(node.this)
    if isinstance(node, exp.Anonymous):
        return node.name.lower()
    if isinstance(node, exp.Trim):
        return {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position")).upper(), "btrim")
    if isinstance(node, _THROUGH):
        return _own(node.this)
    if isinstance(node, exp.Case):
        return _own(node.args["default"]) if node.args.get("default") is not None else None
    if isinstance(node, exp.Subquery):
        return _first(node.this)
    return _NAMES.get(type(node))


def _first(query: exp.Expr) -> str | None:
    shown = query.selects[0] if isinstance(query, exp.Query) and query.selects else None
    if isinstance(shown, exp.Alias):
        return folded(shown.args["alias"])
    return name_of(shown) if shown is not None and not shown.is_star else None


def _otherwise(node: exp.Expr) -> str:
    if isinstance(node, exp.Paren):
        return _otherwise(node.this)
    if isinstance(node, exp.Cast):
        name = str(node.args["to"].this.name)
        return _TYPES.get(name, name.lower())
    return "case" if isinstance(node, exp.Case) else UNNAMED
