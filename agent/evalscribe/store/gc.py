"""Delete runs, evidence and texts that nothing refers to."""

from functools import reduce
from operator import add
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    LargeBinary,
    Select,
    String,
    Table,
    and_,
    bindparam,
    cast,
    delete,
    exists,
    func,
    or_,
    select,
)

from evalscribe.model.record import SweptRows
from evalscribe.store.database import Database
from evalscribe.store.tables import (
    collection_runs,
    documents,
    draft_items,
    evals,
    evidence,
    findings,
    judge_results,
    labels,
    reports,
    run_items,
    runs,
    scores,
    sightings,
    steps,
    texts,
    transcripts,
    version_items,
)

AT_ONCE = 500
"""Rows deleted in one transaction."""
ROUND = 50_000
"""Rows whose keys are in memory at once."""

_Condition = ColumnElement[bool]
_What = tuple[str, Table, _Condition, tuple[str, ...]]
"""Name, table and condition of unneeded rows, with the columns that take up the space."""


def sweep(database: Database, *, dry_run: bool) -> tuple[SweptRows, ...]:
    """Delete what is not needed, kind by kind, unless this is a dry run. Returns the counts."""
    return tuple(_swept(database, what, dry_run=dry_run) for what in _unneeded(dry_run=dry_run))


def _unneeded(*, dry_run: bool) -> tuple[_What, ...]:
    """Return the kinds in an order in which one makes the next unneeded. A dry run sees all rows throughout."""
    kept = select(runs.c.run_id).where(~_UNUSED) if dry_run else select(runs.c.run_id)

    def gone(table: Table) -> _Condition:
        return table.c.run_id.not_in(kept)

    def unlisted(table: Table) -> _Condition:
        listed = exists().where(evals.c.run_id == table.c.run_id, evals.c.eval_id == table.c.eval_id)
        return or_(gone(table), ~listed)

    # After documents are deleted, every remaining one refers to its text, including texts just written.
    refers = (documents.c.digest == texts.c.digest, *([~unlisted(documents)] if dry_run else []))
    referred = exists().where(*refers)
    return (
        ("runs", runs, _UNUSED, ("body",)),
        ("sightings", sightings, gone(sightings), ("body",)),
        ("evals", evals, gone(evals), ("metadata_json", "reason")),
        ("steps", steps, gone(steps), ("error",)),
        ("transcripts", transcripts, gone(transcripts), ("messages", "metadata_json")),
        ("evidence", evidence, unlisted(evidence), ("body",)),
        ("documents", documents, unlisted(documents), ("path",)),
        ("texts", texts, and_(~referred, ~_OF_EXPERIMENTS), ("body",)),
    )


def _of_run(table: Table) -> _Condition:
    return exists().where(table.c.run_id == runs.c.run_id)


_OF_EXPERIMENTS = or_(
    *(exists().where(table.c.digest == texts.c.digest) for table in (draft_items, version_items)),
    *(exists().where(run_items.c[name] == texts.c.digest) for name in ("output", "transcript", "state", "log")),
    *(exists().where(scores.c[name] == texts.c.digest) for name in ("input", "output", "evidence")),
)
"""Texts of datasets and trials, which are kept whether or not they are archived."""
_JUDGED = exists().where(evals.c.run_id == runs.c.run_id, judge_results.c.agent_run_id == evals.c.eval_id)
_UNUSED = and_(
    runs.c.recorded > 0,
    *(~_of_run(table) for table in (collection_runs, reports, findings, labels, evidence)),
    ~_JUDGED,
)
"""Imported runs that no collection has and that nothing refers to."""


def _swept(database: Database, what: _What, *, dry_run: bool) -> SweptRows:
    kind, table, unneeded, columns = what
    with database.transaction() as connection:
        rows, size = connection.execute(_counted(table, unneeded, columns)).one()
    while not dry_run and _forget(database, table, unneeded) == ROUND:
        pass
    return SweptRows(kind=kind, rows=rows, bytes=int(size))


def _counted(table: Table, unneeded: _Condition, columns: tuple[str, ...]) -> Select[Any, Any]:
    sizes = (func.coalesce(func.length(_held(table.c[name])), 0) for name in columns)
    size = func.sum(reduce(add, sizes))
    counted: Select[Any, Any] = select(func.count(), func.coalesce(size, 0))
    return counted.select_from(table).where(unneeded)


def _held(column: Column[Any]) -> ColumnElement[Any]:
    return column if isinstance(column.type, LargeBinary) else cast(column, String)


def _forget(database: Database, table: Table, unneeded: _Condition) -> int:
    """Delete the unneeded rows of one round and return their number."""
    keys = list(table.primary_key)
    with database.transaction() as connection:
        found = connection.execute(select(*keys).where(unneeded).limit(ROUND)).mappings().all()
    again = delete(table).where(*(key == bindparam(key.name) for key in keys), unneeded)
    for start in range(0, len(found), AT_ONCE):
        with database.writing() as connection:
            connection.execute(again, [dict(row) for row in found[start : start + AT_ONCE]])
    return len(found)
