"""What is being written: terms of a known kind in the engine's spelling, and the literals they stand for."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from evalscribe.query.kinds import Dialect, Kind
from evalscribe.query.problem import Refused

if TYPE_CHECKING:
    from evalscribe.query.scope import Relation, Scope

LONGEST = 400_000
"""Characters of a statement that we write."""
_COLUMN = re.compile(r"\bt\d+\.\w+")

Template = str | tuple[str, str]
"""`{0}` for the first term; for both engines, or for SQLite and for Postgres."""
Steps = tuple[str | int, ...]
"""Keys and indexes from a JSON document to a part of it."""


@dataclass(frozen=True)
class Term:
    kind: Kind
    text: str
    loose: str | None = None
    """A column in it that is neither grouped nor aggregated."""
    document: tuple[str, Steps] | None = None
    """Of JSON: the document that it is a part of, and the way there."""
    scalar: tuple[str, Steps] | None = None
    """Of the text of a JSON value: where that is."""
    literal: str | None = None
    """What stood quoted there."""
    varies: bool = True
    """Whether it may differ from row to row."""


Handler = Callable[[exp.Expr, "Scope"], Term]
Inner = Callable[[exp.Expr, "Scope"], "Relation"]


@dataclass
class Writing:
    """Everything that the parts of one statement share."""

    dialect: Dialect
    handlers: Mapping[type[exp.Expr], Handler]
    inner: Inner
    """Writes a query inside a query."""
    values: dict[str, str | float] = field(default_factory=dict)
    tables: dict[str, str] = field(default_factory=dict)
    """Documented tables that are used, with what they are written as."""
    sizes: dict[str, int] = field(default_factory=dict)
    """Of columns of inner queries: how long they are once engines have put in what they stand for."""
    sources: int = 0
    """Everything that stands in a FROM."""
    _names: dict[tuple[type, str | float], str] = field(default_factory=dict)
    _count: int = 0

    @property
    def sqlite(self) -> bool:
        return self.dialect == "sqlite"

    def fresh(self, prefix: str) -> str:
        """A name that nothing else has."""
        self._count += 1
        return f"{prefix}{self._count}"

    def bound(self, value: str | float) -> str:
        """Where this value belongs: the same place for the same value, so that equal terms are equal texts."""
        key = (type(value), repr(value))
        if key not in self._names:
            self._names[key] = name = f"v{len(self._names) + 1}"
            self.values[name] = value
        placed = f":{self._names[key]}"
        if self.sqlite:
            return placed
        return f"{placed}::{'text' if isinstance(value, str) else 'double precision'}"

    def spelled(self, template: Template, *texts: str, **more: str) -> str:
        chosen = template if isinstance(template, str) else template[0 if self.sqlite else 1]
        text = chosen.format(*texts, **more)
        self.expanded(text)
        return text

    def expanded(self, text: str) -> int:
        """How long this becomes. Engines write queries in FROM out, and ever longer terms keep them from ending."""
        size = len(text)
        if self.sizes:
            size += sum(self.sizes.get(name, 0) for name in _COLUMN.findall(text))
        if size > LONGEST:
            raise Refused("it is too long when written out: nest less", None)
        return size

    def term(self, kind: Kind, template: Template, *terms: Term, **more: str) -> Term:
        text = self.spelled(template, *(term.text for term in terms), **more)
        return Term(kind, text, loose_of(*terms), varies=any(term.varies for term in terms) or not terms)


def loose_of(*terms: Term) -> str | None:
    return next((term.loose for term in terms if term.loose), None)


def firm(term: Term) -> Term:
    """As it is inside an aggregate."""
    return replace(term, loose=None, varies=True)
