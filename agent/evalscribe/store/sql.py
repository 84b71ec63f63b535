"""Runs with their evidence, verdicts and reports, over SQLAlchemy Core."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar

from pydantic import RootModel, TypeAdapter
from sqlalchemy import Table, bindparam, delete, select

from evalscribe.analysis import FindingSummary
from evalscribe.evidence import Evidence, Unreadable
from evalscribe.finding import Unclassified, Verdict
from evalscribe.given_label import GivenLabel
from evalscribe.patch import Patch, Proposal
from evalscribe.report_file import StoredReport
from evalscribe.run import Run
from evalscribe.sighting import Sighting
from evalscribe.store import evidence_rows, run_rows, said_rows, tables
from evalscribe.store.database import Database, open_database, pack
from evalscribe.store.statements import upsert

T = TypeVar("T")

_BY_KEY = (tables.verdicts, tables.reports, tables.sightings, tables.proposals)
_PUT = {table.name: upsert(table) for table in _BY_KEY}
_KINDS = {Verdict: "Verdict", Unclassified: "Unclassified"}
"""Stores hold these words. They stay, whatever the classes are called."""
_PUT_UNCLASSIFIED = upsert(tables.verdicts, unless=tables.verdicts.c.kind == _KINDS[Verdict])
_NAMED = (
    select(tables.runs.c.run_id)
    .join(tables.experiment_runs, tables.experiment_runs.c.id == tables.runs.c.run_id)
    .where(tables.experiment_runs.c.name == bindparam("name"))
    .order_by(tables.experiment_runs.c.number.desc())
    .limit(1)
)
_PUT_APPROVAL = upsert(tables.approvals)
_DROP_APPROVAL = delete(tables.approvals).where(
    tables.approvals.c.run_id == bindparam("run_id"),
    tables.approvals.c.recommendation == bindparam("recommendation"),
)
_TAKE_APPROVAL = _DROP_APPROVAL.where(tables.approvals.c.patch == bindparam("patch"))
_PROPOSAL = TypeAdapter(Proposal)
_VERDICT = TypeAdapter[Verdict | Unclassified](Verdict | Unclassified)


class _Sightings(RootModel[tuple[Sighting, ...]]):
    """All of a run."""


_SIGHTINGS = TypeAdapter(_Sightings)


def open_store(place: Path | str) -> "SqlStore":
    """The store in a folder or on a server. Raises as `open_database` does."""
    return SqlStore(open_database(place))


class SqlStore:
    """An `evalscribe.ports.Store`; usable by many processes at once."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put_run(self, run: Run) -> None:
        with self._database.writing() as connection:
            run_rows.put(connection, self._database, run)
            run_rows.put_failures(connection, run)

    def get_run(self, run_id: str) -> Run | None:
        with self._database.reading() as connection:
            return run_rows.get(connection, self._database, run_id)

    def run_ids(self, prefix: str = "") -> tuple[str, ...]:
        with self._database.transaction() as connection:
            found = connection.scalars(select(tables.runs.c.run_id).order_by(tables.runs.c.run_id))
            begin = tuple(run_id for run_id in found if run_id.startswith(prefix))
            return begin or tuple(connection.scalars(_NAMED, {"name": prefix}))

    def put_evidence(self, run_id: str, evidence: Evidence | Unreadable) -> None:
        with self._database.writing() as connection:
            evidence_rows.put(connection, run_id, evidence)

    def get_evidence(self, run_id: str, eval_id: str) -> Evidence | Unreadable | None:
        with self._database.reading() as connection:
            return evidence_rows.get(connection, self._database, run_id, eval_id)

    def put_verdict(self, key: str, verdict: Verdict | Unclassified) -> None:
        """A verdict that was paid for is replaced by another one only, never by a reason why there is none."""
        put = _PUT[tables.verdicts.name] if isinstance(verdict, Verdict) else _PUT_UNCLASSIFIED
        self._database.execute(put, {"key": key, "kind": _KINDS[type(verdict)], "body": pack(verdict)})

    def get_verdict(self, key: str) -> Verdict | Unclassified | None:
        return self._get(tables.verdicts, _VERDICT, key=key)

    def put_report(self, run_id: str, report: StoredReport) -> None:
        self._put(tables.reports, run_id=run_id, path=report.path, text=report.text)

    def get_report(self, run_id: str) -> StoredReport | None:
        row = self._database.row(tables.reports, run_id=run_id)
        return StoredReport(path=row["path"], text=row["text"]) if row else None

    def put_findings(self, run_id: str, findings: Sequence[FindingSummary]) -> None:
        with self._database.writing() as connection:
            said_rows.put_findings(connection, run_id, findings)

    def put_sightings(self, run_id: str, sightings: Sequence[Sighting]) -> None:
        self._put(tables.sightings, run_id=run_id, body=pack(_Sightings(tuple(sightings))))

    def sightings(self, run_id: str) -> tuple[Sighting, ...]:
        found = self._get(tables.sightings, _SIGHTINGS, run_id=run_id)
        return found.root if found else ()

    def put_labels(self, labels: Mapping[str, Sequence[GivenLabel]]) -> None:
        with self._database.writing() as connection:
            for run_id, given in labels.items():
                said_rows.put_labels(connection, run_id, given)

    def labels(self) -> tuple[GivenLabel, ...]:
        with self._database.transaction() as connection:
            return said_rows.labels(connection, self._database)

    def put_proposal(self, key: str, proposal: Proposal) -> None:
        self._put(tables.proposals, key=key, body=pack(proposal))

    def proposal(self, key: str) -> Proposal | None:
        return self._get(tables.proposals, _PROPOSAL, key=key)

    def request_approval(self, patch: Patch) -> bool:
        subject = {"run_id": patch.run, "recommendation": patch.recommendation}
        with self._database.writing() as connection:
            before = connection.scalar(select(tables.approvals.c.patch).filter_by(**subject))
            connection.execute(_PUT_APPROVAL, {**subject, "patch": patch.digest})
        return before not in (None, patch.digest)

    def take_approval(self, patch: Patch) -> bool:
        values = {"run_id": patch.run, "recommendation": patch.recommendation, "patch": patch.digest}
        with self._database.writing() as connection:
            return bool(connection.execute(_TAKE_APPROVAL, values).rowcount)

    def drop_approval(self, patch: Patch) -> None:
        self._database.execute(_DROP_APPROVAL, {"run_id": patch.run, "recommendation": patch.recommendation})

    def lock(self, run_id: str) -> AbstractContextManager[None]:
        return self._database.run_lock(run_id)

    def close(self) -> None:
        self._database.close()

    def _put(self, table: Table, **values: Any) -> None:
        self._database.execute(_PUT[table.name], values)

    def _get(self, table: Table, shape: TypeAdapter[T], **key: str) -> T | None:
        row = self._database.row(table, **key)
        return self._database.unpacked(row["body"], shape, f"{table.name} {' '.join(key.values())}") if row else None
