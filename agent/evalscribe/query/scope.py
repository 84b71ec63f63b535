"""What names mean where they stand."""

from dataclasses import dataclass, field, replace

from sqlglot import exp

from evalscribe.query.kinds import Kind
from evalscribe.query.problem import nearest, refusal
from evalscribe.query.writing import Term, Writing


@dataclass(frozen=True)
class Held:
    """A column: what the user calls it, its kind, and what it is written as."""

    name: str
    kind: Kind
    text: str
    size: int = 0
    """How long it is when it is written out."""


@dataclass(frozen=True)
class Relation:
    """A query as it is written, and its columns."""

    text: str
    columns: tuple[Held, ...]
    before: tuple[str, ...] = ()
    """What belongs after its WITH."""
    single: bool = False
    """Whether it never has more than one row."""

    @property
    def whole(self) -> str:
        return f"WITH {', '.join(self.before)} {self.text}" if self.before else self.text


@dataclass(frozen=True)
class Source:
    """What FROM names."""

    alias: str
    columns: tuple[Held, ...]
    scalar: bool = False
    """Rows of a function of one column: its alias stands for the value too."""


@dataclass
class Scope:
    """Of one SELECT."""

    writing: Writing
    parent: "Scope | None" = None
    queries: dict[str, Relation] = field(default_factory=dict)
    """Of WITH, those around it included; `text` is the name that each is written as."""
    sources: list[Source] = field(default_factory=list)
    merged: dict[str, Held] = field(default_factory=dict)
    """Of USING: columns that two sources share."""
    windows: dict[str, exp.Expr] = field(default_factory=dict)
    groups: set[str] = field(default_factory=set)
    aggregates: int = 0
    inside: bool = False
    """Whether we stand in an aggregate's own argument."""
    refused: str | None = "WHERE"
    """Where aggregates make no sense; None where they do."""
    used: list[Term] = field(default_factory=list)
    """Columns that queries inside use of this one, where groups matter."""

    def term(self, node: exp.Expr) -> Term:
        handler = self.writing.handlers.get(type(node))
        if handler is None:
            raise refusal(node, f"{_called(node)} is not supported")
        term = handler(node, self)
        return replace(term, loose=None) if term.loose and term.text in self.groups else term

    def column(self, node: exp.Expr, name: str, table: str | None) -> Term:
        """The nearest of that name, from here outwards."""
        term = self._found(node, name, table)
        if term is None and table is None:
            sources = (source for scope in self.around() for source in scope.sources)
            value = next((source for source in sources if source.scalar and source.alias == name), None)
            term = self._found(node, value.columns[0].name, name) if value else None
        if term is None:
            raise refusal(node, self._unknown(name, table))
        return term

    def _found(self, node: exp.Expr, name: str, table: str | None) -> Term | None:
        held = self._own(node, name, table)
        if held is not None:
            return Term(held.kind, held.text, loose=name, document=(held.text, ()) if held.kind == "jsonb" else None)
        term = self.parent._found(node, name, table) if self.parent else None
        if term is None or self.parent is None:
            return None
        if self.parent.refused is None and not self.parent.inside:
            self.parent.used.append(term)
        return replace(term, loose=None)

    def _own(self, node: exp.Expr, name: str, table: str | None) -> Held | None:
        if table is None and name in self.merged:
            return self.merged[name]
        among = [one for one in self.sources if table in (None, one.alias)]
        found = [held for source in among for held in source.columns if held.name == name]
        if len(found) > 1:
            raise refusal(node, f"column {name} is ambiguous: write which table's it is")
        if not found and table is not None and among:
            raise refusal(node, f"there is no column {name} in {table}{nearest(name, _names(among))}")
        return found[0] if found else None

    def _unknown(self, name: str, table: str | None) -> str:
        sources = [source for scope in self.around() for source in scope.sources]
        if table is not None:
            return f"nothing in FROM is called {table}{nearest(table, [source.alias for source in sources])}"
        return f"there is no column {name}{nearest(name, _names(sources))}"

    def around(self) -> "list[Scope]":
        return [self, *(self.parent.around() if self.parent else [])]


def _names(sources: list[Source]) -> list[str]:
    return list(dict.fromkeys(held.name for source in sources for held in source.columns))


def _called(node: exp.Expr) -> str:
    if isinstance(node, exp.Anonymous):
        return f"function {node.name}"
    return f"{node.key.upper()} ({node.sql('postgres')[:60]})" if not isinstance(node, exp.Command) else "this"


def folded(identifier: exp.Expr) -> str:
    """A name as Postgres reads it: in small letters, unless it is quoted."""
    name = identifier.name
    return name if identifier.args.get("quoted") else name.lower()
