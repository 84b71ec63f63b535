"""What was said of a run's failures, as rows that users read in SQL: the findings of its report, labels of people."""

from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import Connection, Table, bindparam, delete, insert, select

from evalscribe.model.analysis import FindingSummary
from evalscribe.model.finding import HumanLabel
from evalscribe.store.database import Database
from evalscribe.store.failures import unstorable
from evalscribe.store.json_text import Written, written
from evalscribe.store.tables import said

_LABEL = TypeAdapter(HumanLabel)
_LABELS = select(said.labels.c.label_json).order_by(said.labels.c.run_id, said.labels.c.number)
_CLEAR = {
    table.name: delete(table).where(table.c.run_id == bindparam("run_id")) for table in (said.findings, said.labels)
}


def put_findings(connection: Connection, run_id: str, findings: Sequence[FindingSummary]) -> None:
    _replace(connection, said.findings, run_id, [_finding(one) for one in findings])


def put_labels(connection: Connection, run_id: str, given: Sequence[HumanLabel]) -> None:
    _replace(connection, said.labels, run_id, [_label(one) for one in given])


def labels(connection: Connection, database: Database) -> tuple[HumanLabel, ...]:
    """By run, in the order that they were put in. Raises `DataError` for one that cannot be read any more."""
    try:
        return tuple(_LABEL.validate_python(said) for said in connection.scalars(_LABELS))
    except (ValidationError, ValueError) as error:
        raise database.place.damaged("labels cannot be read") from error


def _replace(connection: Connection, table: Table, run_id: str, rows: list[dict[str, Any]]) -> None:
    connection.execute(_CLEAR[table.name], {"run_id": run_id})
    if rows:
        connection.execute(insert(table), [{"run_id": run_id, "number": n, **row} for n, row in enumerate(rows)])


def _finding(finding: FindingSummary) -> dict[str, Any]:
    same = ("eval_id", "step", "classification", "cause", "cause_kind", "confidence", "uncertain", "error", "reasoning")
    return {
        **{name: getattr(finding, name) for name in same},
        "path": finding.eval,
        "judge": finding.judge.id if finding.judge else None,
        "recurrence": finding.recurrence.kind if finding.recurrence else None,
        "finding_json": _json(finding),
    }


def _label(label: HumanLabel) -> dict[str, Any]:
    return {"eval": label.eval, "label": label.label, "reviewer": label.reviewer, "label_json": _json(label)}


def _json(value: FindingSummary | HumanLabel) -> Written:
    """Raises `DataError` for half a character."""
    try:
        return written(value.model_dump_json())
    except ValueError as error:
        raise unstorable() from error
