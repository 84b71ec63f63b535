"""Runs as rows: what their source told of them, and evals as rows of their own."""

from collections.abc import Iterable
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import Connection, Delete, Row, Table, bindparam, case, delete, exists, func, or_, select, update

from evalscribe.ids import Frozen
from evalscribe.model.run import Eval, Run
from evalscribe.store.database import Database, pack
from evalscribe.store.json_text import Written
from evalscribe.store.statements import by_key, matching, unless_there, upsert
from evalscribe.store.tables.runs import documents, evals, runs, steps, transcripts

FAILED = ("failed", "error")
"""What counts as failed in a run whose evals were imported."""

_RUN = TypeAdapter(Run)
_PUT = upsert(runs)
_ROW = by_key(runs)
_OF_RUN = evals.c.run_id == bindparam("run_id")
_LISTED = delete(evals).where(_OF_RUN, evals.c.digest.is_(None))
_LIST = unless_there(evals)
_FAILURES = (
    matching(evals, "run_id")
    .where(or_(evals.c.digest.is_(None), evals.c.status.in_(FAILED)))
    .order_by(evals.c.number, evals.c.eval_id)
)
_PATHS = select(evals.c.path).where(_OF_RUN).order_by(evals.c.number, evals.c.eval_id)
_COUNTED = select(
    func.coalesce(func.sum(case((evals.c.status == "passed", 1), else_=0)), 0),
    func.coalesce(func.sum(case((evals.c.status.in_(FAILED), 1), else_=0)), 0),
    func.count(),
).where(_OF_RUN, evals.c.digest.is_not(None))
_COUNT = update(runs).where(runs.c.run_id == bindparam("id"))


def _left_of(table: Table) -> Delete:
    its_eval = exists().where(
        evals.c.run_id == table.c.run_id, evals.c.eval_id == table.c.eval_id, evals.c.digest.is_not(None)
    )
    return delete(table).where(table.c.run_id == bindparam("run_id"), ~its_eval)


_LEFT_OVER = (_left_of(steps), _left_of(transcripts), _left_of(documents).where(documents.c.number >= 0))


class Counts(Frozen):
    """Evals of a run by how they ended, as `Run` counts them; as a difference they may be negative."""

    passed: int = 0
    failed: int = 0
    total: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            passed=self.passed + other.passed, failed=self.failed + other.failed, total=self.total + other.total
        )


def of_status(status: str, n: int = 1) -> Counts:
    """What `n` evals with this status count for."""
    return Counts(passed=n * (status == "passed"), failed=n * (status in FAILED), total=n)


def put(connection: Connection, database: Database, run: Run) -> None:
    """The run as its source tells of it, in place of what was told before; imported evals stay."""
    before = connection.execute(_ROW, {"run_id": run.id}).one_or_none()
    recorded = before.recorded if before else _come_back(connection, run.id)
    told = run.model_copy(update={"failures": (), "evals": None if _complete(recorded, run) else run.evals})
    connection.execute(_PUT, _values(told, recorded))
    if recorded:
        settle(connection, database, run.id)


def _come_back(connection: Connection, run_id: str) -> int:
    """How many evals of a run that was not there are: it may come back while it is being forgotten.

    What is left of evals that are gone already goes, for these may come back as well.
    """
    for statement in _LEFT_OVER:
        connection.execute(statement, {"run_id": run_id})
    return int(connection.execute(_COUNTED, {"run_id": run_id}).one()[2])


def put_failures(connection: Connection, run: Run) -> None:
    """The failures that a run lists, in place of those it listed before; what was imported stays as it is."""
    connection.execute(_LISTED, {"run_id": run.id})
    if rows := [{**of_eval(run.id, eval), "number": number} for number, eval in enumerate(run.failures)]:
        connection.execute(_LIST, rows)


def get(connection: Connection, database: Database, run_id: str) -> Run | None:
    row = connection.execute(_ROW, {"run_id": run_id}).one_or_none()
    if row is None:
        return None
    run = without_failures(database, row)
    more: dict[str, Any] = {"failures": evals_in(connection.execute(_FAILURES, {"run_id": run_id}).all())}
    if _complete(row.recorded, told(database, row)):
        more["evals"] = tuple(connection.scalars(_PATHS, {"run_id": run_id}))
    return run.model_copy(update=more)


def without_failures(database: Database, row: Row[Any]) -> Run:
    return told(database, row).model_copy(update={"passed": row.passed, "failed": row.failed, "total": row.total})


def told(database: Database, row: Row[Any]) -> Run:
    """The run as its source tells of it. Raises `DataError` for a damaged row."""
    return database.unpacked(row.body, _RUN, f"runs {row.run_id}")


def gained(connection: Connection, database: Database, run_id: str, recorded: int, change: Counts) -> None:
    """So many more evals of a run were imported, and its counts differ by so much from what they were."""
    row = connection.execute(_ROW, {"run_id": run_id}).one()
    counted = _complete(row.recorded, told(database, row))
    now = Counts(passed=row.passed, failed=row.failed, total=row.total)
    _count(connection, run_id, row.recorded + recorded, now + change if counted else now)
    if not counted:
        settle(connection, database, run_id)


def settle(connection: Connection, database: Database, run_id: str) -> None:
    """Count a run: from its imported evals where they are all that its source counts, else as the source does."""
    row = connection.execute(_ROW, {"run_id": run_id}).one()
    said = told(database, row)
    counts = Counts(passed=said.passed, failed=said.failed, total=said.total)
    if _complete(row.recorded, said):
        passed, failed, total = connection.execute(_COUNTED, {"run_id": run_id}).one()
        counts = Counts(passed=passed, failed=failed, total=total)
    _count(connection, run_id, row.recorded, counts)


def evals_in(rows: Iterable[Row[Any]]) -> tuple[Eval, ...]:
    return tuple(eval_in(row) for row in rows)


def eval_in(row: Row[Any]) -> Eval:
    return Eval.model_construct(
        id=row.eval_id,
        category=row.category,
        name=row.name,
        trial=row.trial,
        trials=row.trials,
        status=row.status,
        failed_step=row.failed_step,
        reason=row.reason,
        url=row.url,
    )


def of_eval(run_id: str, eval: Eval) -> dict[str, Any]:
    """The row of an eval of which nothing more is known; its number is missing."""
    return {
        "run_id": run_id,
        "eval_id": eval.id,
        "category": eval.category,
        "name": eval.name,
        "trial": eval.trial,
        "trials": eval.trials,
        "path": eval.path,
        "status": eval.status,
        "failed_step": eval.failed_step,
        "reason": eval.reason,
        "url": eval.url,
        "task_digest": None,
        "grader_digest": None,
        "metadata_json": Written("{}"),
        "missing": Written("[]"),
        "digest": None,
    }


def _complete(recorded: int, told: Run) -> bool:
    return 0 < recorded >= told.total


def _count(connection: Connection, run_id: str, recorded: int, counts: Counts) -> None:
    connection.execute(_COUNT, {"id": run_id, "recorded": recorded, **counts.model_dump()})


def _values(run: Run, recorded: int) -> dict[str, Any]:
    same = ("provider", "model", "experiment", "status", "passed", "failed", "total", "url")
    return {"run_id": run.id, **{name: getattr(run, name) for name in same}, "recorded": recorded, "body": pack(run)}
