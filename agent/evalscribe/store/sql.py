"""Runs with their evidence, verdicts and reports, over SQLAlchemy Core."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar

from pydantic import RootModel, TypeAdapter
from sqlalchemy import Table, bindparam, delete, select

from evalscribe.model.analysis import FindingSummary
from evalscribe.model.evidence import Evidence, FailureFingerprint, UnreadableEvidence
from evalscribe.model.finding import HumanLabel, Unclassified, Verdict
from evalscribe.model.repository import Patch, Proposal, StoredReport
from evalscribe.model.run import Run
from evalscribe.store import evidence_rows, run_rows, said_rows
from evalscribe.store.database import Database, open_database, pack
from evalscribe.store.statements import upsert
from evalscribe.store.tables import experiments, runs, said

T = TypeVar("T")

_BY_KEY = (said.verdicts, said.reports, said.sightings, said.proposals)
_PUT = {table.name: upsert(table) for table in _BY_KEY}
_KINDS = {Verdict: "Verdict", Unclassified: "Unclassified"}
"""Stores hold these words. They stay, whatever the classes are called."""
_PUT_UNCLASSIFIED = upsert(said.verdicts, unless=said.verdicts.c.kind == _KINDS[Verdict])
_NAMED = (
    select(runs.runs.c.run_id)
    .join(experiments.experiment_runs, experiments.experiment_runs.c.id == runs.runs.c.run_id)
    .where(experiments.experiment_runs.c.name == bindparam("name"))
    .order_by(experiments.experiment_runs.c.number.desc())
    .limit(1)
)
_PUT_APPROVAL = upsert(said.approvals)
_DROP_APPROVAL = delete(said.approvals).where(
    said.approvals.c.run_id == bindparam("run_id"),
    said.approvals.c.recommendation == bindparam("recommendation"),
)
_TAKE_APPROVAL = _DROP_APPROVAL.where(said.approvals.c.patch == bindparam("patch"))
_PROPOSAL = TypeAdapter(Proposal)
_VERDICT = TypeAdapter[Verdict | Unclassified](Verdict | Unclassified)


class _Sightings(RootModel[tuple[FailureFingerprint, ...]]):
    """All of a run."""


_SIGHTINGS = TypeAdapter(_Sightings)


def open_store(place: Path | str) -> "SqlStore":
    """The store in a folder or on a server. Raises as `open_database` does."""
    return SqlStore(open_database(place))


class SqlStore:
    """An `evalscribe.model.storage.Store`; usable by many processes at once."""

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
            found = connection.scalars(select(runs.runs.c.run_id).order_by(runs.runs.c.run_id))
            begin = tuple(run_id for run_id in found if run_id.startswith(prefix))
            return begin or tuple(connection.scalars(_NAMED, {"name": prefix}))

    def put_evidence(self, run_id: str, evidence: Evidence | UnreadableEvidence) -> None:
        with self._database.writing() as connection:
            evidence_rows.put(connection, run_id, evidence)

    def get_evidence(self, run_id: str, eval_id: str) -> Evidence | UnreadableEvidence | None:
        with self._database.reading() as connection:
            return evidence_rows.get(connection, self._database, run_id, eval_id)

    def put_verdict(self, key: str, verdict: Verdict | Unclassified) -> None:
        """A verdict that was paid for is replaced by another one only, never by a reason why there is none."""
        put = _PUT[said.verdicts.name] if isinstance(verdict, Verdict) else _PUT_UNCLASSIFIED
        self._database.execute(put, {"key": key, "kind": _KINDS[type(verdict)], "body": pack(verdict)})

    def get_verdict(self, key: str) -> Verdict | Unclassified | None:
        return self._get(said.verdicts, _VERDICT, key=key)

    def put_report(self, run_id: str, report: StoredReport) -> None:
        self._put(said.reports, run_id=run_id, path=report.path, text=report.text)

    def get_report(self, run_id: str) -> StoredReport | None:
        row = self._database.row(said.reports, run_id=run_id)
        return StoredReport(path=row["path"], text=row["text"]) if row else None

    def put_findings(self, run_id: str, findings: Sequence[FindingSummary]) -> None:
        with self._database.writing() as connection:
            said_rows.put_findings(connection, run_id, findings)

    def put_sightings(self, run_id: str, sightings: Sequence[FailureFingerprint]) -> None:
        self._put(said.sightings, run_id=run_id, body=pack(_Sightings(tuple(sightings))))

    def sightings(self, run_id: str) -> tuple[FailureFingerprint, ...]:
        found = self._get(said.sightings, _SIGHTINGS, run_id=run_id)
        return found.root if found else ()

    def put_labels(self, labels: Mapping[str, Sequence[HumanLabel]]) -> None:
        with self._database.writing() as connection:
            for run_id, given in labels.items():
                said_rows.put_labels(connection, run_id, given)

    def labels(self) -> tuple[HumanLabel, ...]:
        with self._database.transaction() as connection:
            return said_rows.labels(connection, self._database)

    def put_proposal(self, key: str, proposal: Proposal) -> None:
        self._put(said.proposals, key=key, body=pack(proposal))

    def proposal(self, key: str) -> Proposal | None:
        return self._get(said.proposals, _PROPOSAL, key=key)

    def request_approval(self, patch: Patch) -> bool:
        subject = {"run_id": patch.run, "recommendation": patch.recommendation}
        with self._database.writing() as connection:
            before = connection.scalar(select(said.approvals.c.patch).filter_by(**subject))
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
