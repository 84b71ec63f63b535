"""Parts of JSON values. On SQLite a chain of steps becomes one path, so that a document is read once."""

from sqlglot import exp

from evalscribe.query.casts import fit, known, to, way
from evalscribe.query.problem import only, refusal
from evalscribe.query.scope import Scope
from evalscribe.query.writing import Steps, Template, Term, Writing, loose_of

_SCALAR = (
    "(CASE json_type({0}, {1}) WHEN 'text' THEN json_extract({0}, {1}) WHEN 'integer' THEN {0} -> {1}"
    " WHEN 'true' THEN 'true' WHEN 'false' THEN 'false' WHEN 'null' THEN NULL ELSE pg_json_text({0} -> {1}) END)"
)
_HAS = (
    "(CASE WHEN json_type({0}, {2}) IS NOT NULL THEN 1 WHEN json_type({0}, {1}) = 'object' THEN 0"
    " ELSE pg_json_has({0} -> {1}, {3}) END)"
)
# An index into what is no array gives nothing; Postgres takes a lone scalar for an array of one.
_AT: Template = ("pg_json_at({0}, {1})", "(CASE WHEN jsonb_typeof({0}) = 'array' THEN {0} -> ({1})::integer END)")
_GET: Template = ("pg_json_get({0}, {1})", "({0} -> {1})")


def get(node: exp.Expr, scope: Scope) -> Term:
    """`->`"""
    only(node, "this", "expression", "only_json_types")
    document = _json(node.this, scope)
    key = node.expression
    if isinstance(key, exp.Literal) and key.is_string:
        return _step(document, key.name, scope.writing)
    index = _whole(key)
    if index is not None:
        return _step(document, index, scope.writing)
    asked = scope.term(key)
    if asked.kind == "bigint":
        return scope.writing.term("jsonb", _AT, document, asked)
    if known(asked, scope.writing).kind != "text":
        raise refusal(key, f"-> takes a key or an index, not {asked.kind}")
    return scope.writing.term("jsonb", _GET, document, known(asked, scope.writing))


def subscript(node: exp.Expr, scope: Scope) -> Term:
    """`['key']`"""
    only(node, "this", "expressions")
    key = node.expressions[0] if len(node.expressions) == 1 else None
    if not isinstance(key, exp.Literal) or not key.is_string:
        raise refusal(node, "only JSON['key'] is read so: write -> with an index, or jsonb_array_elements")
    return _step(_json(node.this, scope), key.name, scope.writing)


def get_text(node: exp.Expr, scope: Scope) -> Term:
    """`->>`"""
    return text_of(get(node, scope), scope.writing)


def at_path(node: exp.Expr, scope: Scope) -> Term:
    """`#>`"""
    only(node, "this", "expression")
    document = _json(node.this, scope)
    steps = _words(node.expression)
    if all(_plain(step) and not _numeral(step) for step in steps):
        for step in steps:
            document = _step(document, step, scope.writing)
        return document
    path = ("pg_json_path({0}{places})", "({0} #> ARRAY[{bare}]::text[])")
    places = [scope.writing.bound(step) for step in steps]
    more = "".join(f", {place}" for place in places)
    return scope.writing.term("jsonb", path, document, places=more, bare=", ".join(places))


def at_path_text(node: exp.Expr, scope: Scope) -> Term:
    """`#>>`"""
    return text_of(at_path(node, scope), scope.writing)


def text_of(part: Term, writing: Writing) -> Term:
    """A string without its quotes, NULL for null."""
    if not writing.sqlite:
        return writing.term("text", "({0} #>> '{{}}')", part)
    if part.document is None:
        return writing.term("text", "pg_json_scalar({0})", part)
    document, steps = part.document
    text = writing.spelled(_SCALAR, document, writing.bound(way(steps)))
    return Term("text", text, part.loose, scalar=part.document)


def has_key(node: exp.Expr, scope: Scope) -> Term:
    """`?`"""
    only(node, "this", "expression")
    document, key = _json(node.this, scope), fit("text", scope.term(node.expression), scope.writing, node)
    plain = node.expression.name if isinstance(node.expression, exp.Literal) else None
    if scope.writing.sqlite and document.document and plain is not None and _plain(plain):
        of, steps = document.document
        paths = [scope.writing.bound(way(one)) for one in (steps, (*steps, plain))]
        return Term("boolean", scope.writing.spelled(_HAS, of, *paths, key.text), loose_of(document, key))
    return scope.writing.term("boolean", ("pg_json_has({0}, {1})", "({0} ? {1})"), document, key)


def has_any(node: exp.Expr, scope: Scope) -> Term:
    """`?|`"""
    return _among(node, scope, ("pg_json_has_any({0}{places})", "({0} ?| ARRAY[{bare}]::text[])"))


def has_all(node: exp.Expr, scope: Scope) -> Term:
    """`?&`"""
    return _among(node, scope, ("pg_json_has_all({0}{places})", "({0} ?& ARRAY[{bare}]::text[])"))


def contains(node: exp.Expr, scope: Scope) -> Term:
    """`@>`"""
    return _containing(node, scope, node.this, node.expression)


def contained(node: exp.Expr, scope: Scope) -> Term:
    """`<@`"""
    return _containing(node, scope, node.expression, node.this)


def _containing(node: exp.Expr, scope: Scope, outer: exp.Expr, inner: exp.Expr) -> Term:
    only(node, "this", "expression")
    return scope.writing.term(
        "boolean", ("pg_json_contains({0}, {1})", "({0} @> {1})"), _json(outer, scope), _json(inner, scope)
    )


def _among(node: exp.Expr, scope: Scope, template: Template) -> Term:
    only(node, "this", "expression")
    places = [scope.writing.bound(word) for word in _words(node.expression)]
    more = "".join(f", {place}" for place in places)
    return scope.writing.term("boolean", template, _json(node.this, scope), places=more, bare=", ".join(places))


def _json(node: exp.Expr, scope: Scope) -> Term:
    term = scope.term(node)
    if term.kind == "unknown":
        return to("jsonb", term, scope.writing, node)
    if term.kind != "jsonb":
        raise refusal(node, f"JSON is wanted here and this is {term.kind}")
    return term


def _step(document: Term, step: str | int, writing: Writing) -> Term:
    if not writing.sqlite:
        place = writing.bound(step) if isinstance(step, str) else str(step)
        return writing.term("jsonb", _GET if isinstance(step, str) else _AT, document, Term("text", place))
    if document.document is None or (isinstance(step, str) and not _plain(step)):
        place = writing.bound(step) if isinstance(step, str) else str(step)
        return writing.term("jsonb", _GET if isinstance(step, str) else _AT, document, Term("text", place))
    of, steps = document.document
    path: Steps = (*steps, step)
    text = writing.spelled("({0} -> {1})", of, writing.bound(way(path)))
    return Term("jsonb", text, document.loose, document=(of, path))


def _plain(key: str) -> bool:
    """Whether SQLite's paths can spell it."""
    return bool(key) and key.isprintable() and not set(key) & {'"', "\\"}


def _numeral(step: str) -> bool:
    return step.removeprefix("-").isdigit()


def _whole(node: exp.Expr) -> int | None:
    sign = -1 if isinstance(node, exp.Neg) else 1
    inner = node.this if isinstance(node, exp.Neg) else node
    if isinstance(inner, exp.Literal) and not inner.is_string and inner.name.isdigit() and len(inner.name) < 10:
        return sign * int(inner.name)
    return None


def _words(node: exp.Expr) -> list[str]:
    """Of `ARRAY['a', 'b']` or `'{a,b}'`."""
    if isinstance(node, exp.Array) and all(isinstance(one, exp.Literal) for one in node.expressions):
        return [one.name for one in node.expressions]
    if isinstance(node, exp.Literal) and node.is_string and node.name[:1] + node.name[-1:] == "{}":
        words = node.name[1:-1].split(",") if node.name != "{}" else []
        if not any(set(word) & set('"\\{}') or word != word.strip() or not word for word in words):
            return words
    raise refusal(node, "write the keys as ARRAY['a', 'b']")
