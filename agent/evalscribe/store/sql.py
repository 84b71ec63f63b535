"""Runs with their evidence, verdicts and reports, over SQLAlchemy Core."""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pydantic import RootModel, TypeAdapter
from sqlalchemy import Connection, Table, bindparam, delete, insert, select

from evalscribe.evidence import Evidence, Unreadable
from evalscribe.finding import Unclassified, Verdict
from evalscribe.given_label import GivenLabel
from evalscribe.patch import Proposal
from evalscribe.report_file import StoredReport
from evalscribe.run import Run
from evalscribe.sighting import Sighting
from evalscribe.store import tables
from evalscribe.store.database import Database, open_database, pack
from evalscribe.store.failures import explained
from evalscribe.store.lock import run_lock
from evalscribe.store.statements import upsert

T = TypeVar("T")

_BY_KEY = (tables.runs, tables.evidence, tables.verdicts, tables.reports, tables.sightings, tables.proposals)
_PUT = {table.name: upsert(table) for table in _BY_KEY}
_PUT_UNCLASSIFIED = upsert(tables.verdicts, unless=tables.verdicts.c.kind == Verdict.__name__)
_CLEAR_LABELS = delete(tables.labels).where(tables.labels.c.run_id == bindparam("run_id"))
_RUN = TypeAdapter(Run)
_EVIDENCE = TypeAdapter[Evidence | Unreadable](Evidence | Unreadable)
_LABEL = TypeAdapter(GivenLabel)
_PROPOSAL = TypeAdapter(Proposal)
_VERDICT = TypeAdapter[Verdict | Unclassified](Verdict | Unclassified)


class _Sightings(RootModel[tuple[Sighting, ...]]):
    """All of a run."""


_SIGHTINGS = TypeAdapter(_Sightings)


def open_store(folder: Path) -> "SqlStore":
    """The store in `folder`, made when it is missing. Raises as `open_database` does."""
    return SqlStore(open_database(folder))


class SqlStore:
    """An `evalscribe.ports.Store`; usable by many processes at once."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put_run(self, run: Run) -> None:
        self._put(tables.runs, run_id=run.id, body=pack(run))

    def get_run(self, run_id: str) -> Run | None:
        return self._get(tables.runs, _RUN, run_id=run_id)

    def run_ids(self, prefix: str = "") -> tuple[str, ...]:
        with self._database.transaction() as connection:
            found = connection.scalars(select(tables.runs.c.run_id).order_by(tables.runs.c.run_id))
            return tuple(run_id for run_id in found if run_id.startswith(prefix))

    def put_evidence(self, run_id: str, evidence: Evidence | Unreadable) -> None:
        digest = evidence.digest if isinstance(evidence, Evidence) else None
        self._put(tables.evidence, run_id=run_id, eval_id=evidence.eval.id, digest=digest, body=pack(evidence))

    def get_evidence(self, run_id: str, eval_id: str) -> Evidence | Unreadable | None:
        return self._get(tables.evidence, _EVIDENCE, run_id=run_id, eval_id=eval_id)

    def put_verdict(self, key: str, verdict: Verdict | Unclassified) -> None:
        """A verdict that was paid for is replaced by another one only, never by a reason why there is none."""
        put = _PUT[tables.verdicts.name] if isinstance(verdict, Verdict) else _PUT_UNCLASSIFIED
        self._database.execute(put, {"key": key, "kind": type(verdict).__name__, "body": pack(verdict)})

    def get_verdict(self, key: str) -> Verdict | Unclassified | None:
        return self._get(tables.verdicts, _VERDICT, key=key)

    def put_report(self, run_id: str, report: StoredReport) -> None:
        self._put(tables.reports, run_id=run_id, path=report.path, body=zlib.compress(report.text.encode()))

    def get_report(self, run_id: str) -> StoredReport | None:
        row = self._database.row(tables.reports, run_id=run_id)
        return StoredReport(path=row["path"], text=self._database.unzip(row["body"]).decode()) if row else None

    def put_sightings(self, run_id: str, sightings: Sequence[Sighting]) -> None:
        self._put(tables.sightings, run_id=run_id, body=pack(_Sightings(tuple(sightings))))

    def sightings(self, run_id: str) -> tuple[Sighting, ...]:
        found = self._get(tables.sightings, _SIGHTINGS, run_id=run_id)
        return found.root if found else ()

    def put_labels(self, labels: Mapping[str, Sequence[GivenLabel]]) -> None:
        with self._database.transaction() as connection:
            for run_id, given in labels.items():
                _replace_labels(connection, run_id, given)

    def labels(self) -> tuple[GivenLabel, ...]:
        table = tables.labels
        with self._database.transaction() as connection:
            bodies = tuple(connection.scalars(select(table.c.body).order_by(table.c.run_id, table.c.number)))
        return tuple(self._database.unpacked(body, _LABEL, "labels") for body in bodies)

    def put_proposal(self, key: str, proposal: Proposal) -> None:
        self._put(tables.proposals, key=key, body=pack(proposal))

    def proposal(self, key: str) -> Proposal | None:
        return self._get(tables.proposals, _PROPOSAL, key=key)

    def lock(self, run_id: str) -> AbstractContextManager[None]:
        return self._locked(run_id)

    def close(self) -> None:
        self._database.close()

    @property
    def path(self) -> Path:
        return self._database.path

    @contextmanager
    def _locked(self, run_id: str) -> Iterator[None]:
        with ExitStack() as held:
            with explained(self.path):
                held.enter_context(run_lock(self._database.folder, run_id))
            yield

    def _put(self, table: Table, **values: Any) -> None:
        self._database.execute(_PUT[table.name], values)

    def _get(self, table: Table, shape: TypeAdapter[T], **key: str) -> T | None:
        row = self._database.row(table, **key)
        return self._database.unpacked(row["body"], shape, f"{table.name} {' '.join(key.values())}") if row else None


def _replace_labels(connection: Connection, run_id: str, given: Sequence[GivenLabel]) -> None:
    connection.execute(_CLEAR_LABELS, {"run_id": run_id})
    rows = [{"run_id": run_id, "number": number, "body": pack(label)} for number, label in enumerate(given)]
    if rows:
        connection.execute(insert(tables.labels), rows)
