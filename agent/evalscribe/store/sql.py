"""The store over SQLAlchemy Core. Every operation is one short transaction of its own."""

import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError
from sqlalchemy import URL, Connection, Engine, Table, create_engine, event
from sqlalchemy.dialects.sqlite import Insert
from sqlalchemy.engine.interfaces import DBAPIConnection

from evalscribe.chat import Usage
from evalscribe.errors import AccessError
from evalscribe.evidence import Evidence, Unreadable
from evalscribe.finding import Unclassified, Verdict
from evalscribe.ports import StoredReport
from evalscribe.run import Run
from evalscribe.store import tables
from evalscribe.store.failures import damaged, explained
from evalscribe.store.lock import run_lock
from evalscribe.store.schema import ensure
from evalscribe.store.statements import adding, by_key, upsert

T = TypeVar("T")

FILE = "store.db"
BUSY_S = 10
"""How long an operation waits for another process that writes."""

_PUT = {table.name: upsert(table) for table in tables.metadata.tables.values()}
_GET = {table.name: by_key(table) for table in tables.metadata.tables.values()}
_PUT_UNCLASSIFIED = upsert(tables.verdicts, unless=tables.verdicts.c.kind == Verdict.__name__)
_ADD_SPEND = adding(tables.spend)
_RUN = TypeAdapter(Run)
_EVIDENCE = TypeAdapter[Evidence | Unreadable](Evidence | Unreadable)
_VERDICT = TypeAdapter[Verdict | Unclassified](Verdict | Unclassified)


def open_store(folder: Path) -> "SqlStore":
    """The store in `folder`, which is made, private and out of git, when it is missing.

    Raises `AccessError` where nothing can be written or a symbolic link leads elsewhere, `DataError` for a database
    that is damaged, another program's, or newer than this evalscribe.
    """
    path = folder / FILE
    with explained(path):
        _make(folder)
        engine = _engine(path)
        try:
            ensure(engine, path)
        except BaseException:
            engine.dispose()
            raise
    return SqlStore(engine, folder)


class SqlStore:
    """An `evalscribe.ports.Store`; usable by many processes at once."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self._engine = engine
        self._folder = folder

    def put_run(self, run: Run) -> None:
        self._put(tables.runs, run_id=run.id, body=_pack(run))

    def get_run(self, run_id: str) -> Run | None:
        return self._get(tables.runs, _RUN, run_id=run_id)

    def put_evidence(self, run_id: str, evidence: Evidence | Unreadable) -> None:
        digest = evidence.digest if isinstance(evidence, Evidence) else None
        self._put(tables.evidence, run_id=run_id, eval_id=evidence.eval.id, digest=digest, body=_pack(evidence))

    def get_evidence(self, run_id: str, eval_id: str) -> Evidence | Unreadable | None:
        return self._get(tables.evidence, _EVIDENCE, run_id=run_id, eval_id=eval_id)

    def put_verdict(self, key: str, verdict: Verdict | Unclassified) -> None:
        """A verdict that was paid for is replaced by another one only, never by a reason why there is none."""
        kind = type(verdict).__name__
        values = {"key": key, "kind": kind, "body": _pack(verdict)}
        self._execute(_PUT[tables.verdicts.name] if isinstance(verdict, Verdict) else _PUT_UNCLASSIFIED, values)

    def get_verdict(self, key: str) -> Verdict | Unclassified | None:
        return self._get(tables.verdicts, _VERDICT, key=key)

    def add_spend(self, run_id: str, usage: Usage) -> None:
        self._execute(_ADD_SPEND, {"run_id": run_id, **usage.model_dump()})

    def spend(self, run_id: str) -> Usage:
        row = self._row(tables.spend, run_id=run_id)
        return Usage(**{name: row[name] for name in Usage.model_fields}) if row else Usage()

    def put_report(self, run_id: str, report: StoredReport) -> None:
        self._put(tables.reports, run_id=run_id, path=report.path, body=zlib.compress(report.text.encode()))

    def get_report(self, run_id: str) -> StoredReport | None:
        row = self._row(tables.reports, run_id=run_id)
        return StoredReport(path=row["path"], text=self._unzip(row["body"]).decode()) if row else None

    def lock(self, run_id: str) -> AbstractContextManager[None]:
        return self._locked(run_id)

    def close(self) -> None:
        self._engine.dispose()

    @property
    def path(self) -> Path:
        return self._folder / FILE

    @contextmanager
    def _locked(self, run_id: str) -> Iterator[None]:
        with ExitStack() as held:
            with explained(self.path):
                held.enter_context(run_lock(self._folder, run_id))
            yield

    def _put(self, table: Table, **values: Any) -> None:
        self._execute(_PUT[table.name], values)

    def _get(self, table: Table, shape: TypeAdapter[T], **key: str) -> T | None:
        row = self._row(table, **key)
        if row is None:
            return None
        try:
            return shape.validate_json(self._unzip(row["body"]))
        except ValidationError as error:
            raise damaged(self.path, f"{table.name} {' '.join(key.values())} cannot be read") from error

    def _row(self, table: Table, **key: str) -> Any:
        with self._transaction() as connection:
            return connection.execute(_GET[table.name], key).mappings().one_or_none()

    def _execute(self, statement: Insert, values: dict[str, Any]) -> None:
        with self._transaction() as connection:
            connection.execute(statement, values)

    def _unzip(self, body: bytes) -> bytes:
        try:
            return zlib.decompress(body)
        except zlib.error as error:
            raise damaged(self.path, str(error)) from error

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        with explained(self.path), self._engine.begin() as connection:
            yield connection


def _make(folder: Path) -> None:
    _refuse_link(folder)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in folder.iterdir():
        _refuse_link(path)
    if folder.stat().st_mode & 0o077:
        folder.chmod(0o700)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n")


def _refuse_link(path: Path) -> None:
    """Whoever made the folder that we run in may have planted a link to what is not the store's to write."""
    if path.is_symlink():
        raise AccessError(f"{path} is a symbolic link, which may lead anywhere: the store is not used.\nRemove it.")


def _engine(path: Path) -> Engine:
    engine = create_engine(URL.create("sqlite", database=str(path)), connect_args={"timeout": BUSY_S})
    event.listen(engine, "connect", _tune)
    return engine


def _tune(connection: DBAPIConnection, _record: object) -> None:
    """In WAL mode NORMAL never damages the database; a power cut may cost the last moment, a kill costs nothing."""
    cursor = connection.cursor()
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.close()


def _pack(value: BaseModel) -> bytes:
    return zlib.compress(value.model_dump_json().encode())
