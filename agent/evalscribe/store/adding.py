"""Records on their way into the archive: what is there already is left alone, the rest is written in one go."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, Row, Select, bindparam, delete, func, select

from evalscribe.errors import DataError
from evalscribe.model.record import Record
from evalscribe.model.run import Run
from evalscribe.model.storage import AddedCounts
from evalscribe.store import documents, record_rows, run_rows
from evalscribe.store.database import Database
from evalscribe.store.record_rows import Key, RecordRows
from evalscribe.store.run_rows import Counts, of_status
from evalscribe.store.shelf import require
from evalscribe.store.statements import unless_there
from evalscribe.store.tables.runs import collection_runs, evals, evidence, runs

_STATE: Select[Any] = select(evals.c.eval_id, evals.c.digest, evals.c.status, evals.c.number).where(
    evals.c.run_id == bindparam("run_id"), evals.c.eval_id.in_(bindparam("ids", expanding=True))
)
_LAST = select(func.max(evals.c.number)).where(evals.c.run_id == bindparam("run_id"))
_THERE = select(runs.c.run_id).where(runs.c.run_id.in_(bindparam("ids", expanding=True)))
_JOIN = unless_there(collection_runs)
_LAST_JOINED = select(func.max(collection_runs.c.number)).where(
    collection_runs.c.collection_id == bindparam("collection_id")
)
_FORGET_EVIDENCE = delete(evidence).where(
    evidence.c.run_id == bindparam("run_id"), evidence.c.eval_id == bindparam("eval_id")
)


class Addition:
    """One batch of runs and records, and what becomes of it."""

    def __init__(self, database: Database, collection_id: str, runs: Sequence[Run], records: Sequence[Record]) -> None:
        self._database = database
        self._collection_id = collection_id
        self._runs = runs
        self._records = {(rows := RecordRows(record)).key: rows for record in records}

    def made(self) -> AddedCounts:
        """All of it or nothing. Raises as `Archive.add` does."""
        with self._database.writing() as connection:
            require(connection, self._collection_id)
            self._put_runs(connection)
            self._require_runs(connection)
            there = self._states(connection)
            self._put(connection, [rows for key, rows in self._records.items() if not self._same(key, there)], there)
        return self._added(there)

    def _put_runs(self, connection: Connection) -> None:
        joining = {"collection_id": self._collection_id}
        last = connection.scalar(_LAST_JOINED, joining)
        for number, run in enumerate(self._runs, 0 if last is None else last + 1):
            run_rows.put(connection, self._database, run)
            connection.execute(_JOIN, {**joining, "run_id": run.id, "number": number})

    def _require_runs(self, connection: Connection) -> None:
        wanted = {run_id for run_id, _ in self._records}
        known = set(connection.scalars(_THERE, {"ids": sorted(wanted)}))
        if missing := sorted(wanted - known):
            raise DataError(f"a record of run {missing[0]!r} came without its run")

    def _put(self, connection: Connection, fresh: Sequence[RecordRows], there: dict[Key, Row[Any]]) -> None:
        written = [rows.key for rows in fresh]
        replaced = [key for key in written if key in there and there[key].digest is not None]
        record_rows.forget(connection, replaced)
        self._forget_evidence(connection, replaced)
        record_rows.put(connection, fresh, self._numbers(connection, written, there))
        for run_id, (recorded, change) in self._changes(written, there).items():
            run_rows.gained(connection, self._database, run_id, recorded, change)

    def _forget_evidence(self, connection: Connection, replaced: Sequence[Key]) -> None:
        """What was gathered from a record that is another one now."""
        if replaced:
            connection.execute(
                _FORGET_EVIDENCE, [{"run_id": run_id, "eval_id": eval_id} for run_id, eval_id in replaced]
            )
            documents.clear(connection, replaced, recorded=False)

    def _numbers(self, connection: Connection, written: Iterable[Key], there: dict[Key, Row[Any]]) -> dict[Key, int]:
        """A record that was there keeps its place; the others come after all, in the order of their file."""
        numbers: dict[Key, int] = {}
        following: dict[str, int] = {}
        for key in written:
            if key in there and there[key].digest is not None:
                numbers[key] = there[key].number
                continue
            if key[0] not in following:
                last = connection.scalar(_LAST, {"run_id": key[0]})
                following[key[0]] = 0 if last is None else last + 1
            numbers[key] = following[key[0]]
            following[key[0]] += 1
        return numbers

    def _changes(self, written: Iterable[Key], there: dict[Key, Row[Any]]) -> dict[str, tuple[int, Counts]]:
        """Per run how many more records it has, and by how much its counts differ."""
        more: dict[str, Counter[str]] = defaultdict(Counter)
        recorded: Counter[str] = Counter()
        for key in written:
            more[key[0]][self._records[key].status] += 1
            if key in there and there[key].digest is not None:
                more[key[0]][there[key].status] -= 1
            else:
                recorded[key[0]] += 1
        return {
            run_id: (recorded[run_id], sum((of_status(status, n) for status, n in by_status.items()), Counts()))
            for run_id, by_status in more.items()
        }

    def _states(self, connection: Connection) -> dict[Key, Row[Any]]:
        """What is known of those of the evals that are there. Asked while nobody else writes or forgets."""
        wanted: dict[str, list[str]] = defaultdict(list)
        for run_id, eval_id in self._records:
            wanted[run_id].append(eval_id)
        there: dict[Key, Row[Any]] = {}
        for run_id, ids in wanted.items():
            rows: Sequence[Row[Any]] = connection.execute(_STATE, {"run_id": run_id, "ids": ids}).all()
            there |= {(run_id, row.eval_id): row for row in rows}
        return there

    def _same(self, key: Key, there: dict[Key, Row[Any]]) -> bool:
        return key in there and there[key].digest == self._records[key].digest

    def _added(self, there: dict[Key, Row[Any]]) -> AddedCounts:
        same = sum(self._same(key, there) for key in self._records)
        changed = sum(row.digest is not None for row in there.values()) - same
        return AddedCounts(new=len(self._records) - same - changed, changed=changed, same=same)
