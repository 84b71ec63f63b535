"""A table that users read: its columns, and where the store has them."""

from evalscribe.ids import Frozen
from evalscribe.query.kinds import Dialect, Kind


class Column(Frozen):
    name: str
    kind: Kind
    about: str
    source: str | tuple[str, str]
    """What it is in the store; on SQLite and on Postgres where they differ."""


class Table(Frozen):
    name: str
    about: str
    columns: tuple[Column, ...]
    source: str | tuple[str, str]
    """What follows FROM."""

    @property
    def written(self) -> str:
        """Its name in what we write: never the name of a table of the store."""
        return f"all_{self.name}"

    def scoped(self, dialect: Dialect) -> str:
        """Its rows of one collection."""
        parts = [f"{_source(one, dialect)} AS {one.name}" for one in self.columns]
        return f"SELECT {', '.join(parts)} FROM {_chosen(self.source, dialect)}"


_TYPES: dict[Kind, str] = {"text": "text", "bigint": "bigint", "double precision": "double precision"}


def _chosen(source: str | tuple[str, str], dialect: Dialect) -> str:
    return source if isinstance(source, str) else source[0 if dialect == "sqlite" else 1]


def _source(column: Column, dialect: Dialect) -> str:
    text = _chosen(column.source, dialect)
    kind = _TYPES.get(column.kind)
    return f"({text})::{kind}" if kind and dialect == "postgres" else text


def of(table: str, *columns: tuple[str, Kind, str]) -> tuple[Column, ...]:
    return tuple(Column(name=name, kind=kind, about=about, source=f"{table}.{name}") for name, kind, about in columns)


def renamed(name: str, kind: Kind, about: str, source: str | tuple[str, str]) -> Column:
    return Column(name=name, kind=kind, about=about, source=source)
