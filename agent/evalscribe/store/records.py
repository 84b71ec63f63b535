"""Store whole runs in collections: every eval with its transcripts and documents."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from pydantic import JsonValue, TypeAdapter
from sqlalchemy import (
    BindParameter,
    Connection,
    Row,
    Select,
    Table,
    Text,
    bindparam,
    cast,
    delete,
    func,
    insert,
    select,
    tuple_,
)

from evalscribe.errors import DataError
from evalscribe.model.evidence import Document, FailureFingerprint, Role, files_digest
from evalscribe.model.record import AddedCounts, AgentRunPlace, GradedEval, Record, SweptRows
from evalscribe.model.run import EvalStatus, Run, Step
from evalscribe.model.transcript import ChatMessage, Transcript
from evalscribe.store import analyses, contents
from evalscribe.store.analyses import AnalysisStore, EvalCounts, counts_of_status
from evalscribe.store.collections import require_collection
from evalscribe.store.contents import SHORT, digest_of, sweep
from evalscribe.store.database import Database, open_database
from evalscribe.store.errors import unstorable
from evalscribe.store.statements import StoredJson, execute_many, in_parts, insert_unless_exists, upsert, without_nul
from evalscribe.store.tables import collection_runs, evals, evidence, runs, steps, texts, transcripts
from evalscribe.store.tables import documents as document_rows
from evalscribe.store.tables import runs as runs_table

Key = tuple[str, str]
"""Key of a record: its run id and its eval id."""

_JSON = TypeAdapter[JsonValue](JsonValue)
_MESSAGES = TypeAdapter[tuple[ChatMessage, ...]](tuple[ChatMessage, ...])
_PUT, _PUT_STEP, _PUT_TRANSCRIPT = upsert(evals), insert(steps), insert(transcripts)
_NO_NAMES, _NO_PARTS = StoredJson("{}"), StoredJson("[]")


def _of_eval(table: Table) -> tuple[Any, Any]:
    return table.c.run_id == bindparam("run_id"), table.c.eval_id == bindparam("eval_id")


def _of_evals(statement: Select[Any], table: Table) -> Select[Any]:
    filtered = statement.where(
        table.c.run_id == bindparam("run_id"), table.c.eval_id.in_(bindparam("ids", expanding=True))
    )
    return filtered.order_by(table.c.eval_id, table.c.number)


_DELETE_PARTS = tuple(delete(table).where(*_of_eval(table)) for table in (steps, transcripts))
_STEPS, _TRANSCRIPTS = (_of_evals(select(table), table) for table in (steps, transcripts))
_DOCUMENTS = _of_evals(
    select(document_rows, texts.c.body)
    .join(texts, texts.c.digest == document_rows.c.digest)
    .where(document_rows.c.number >= 0),
    document_rows,
)


class RecordRows:
    """The database rows of a record. The rows are built before the database is locked."""

    def __init__(self, record: Record) -> None:
        self.key: Key = (record.run_id, record.eval.id)
        self.status = record.eval.status
        self.eval = _eval_row(record)
        self.steps = [_step_row(step) for step in record.steps]
        self.transcripts = [_transcript_row(transcript) for transcript in record.transcripts]
        self.documents = record.documents
        # In the record's digest, a document's text is replaced by its own digest, so that it is not rendered as JSON.
        document_digests = [[document.role, document.path, digest_of(document.text)] for document in record.documents]
        transcript_rows = [{**row, "messages": _hash(row["messages"])} for row in self.transcripts]
        self.eval["digest"] = self.digest = (
            f"sha256:{_hash(json.dumps([self.eval, self.steps, transcript_rows, document_digests]))}"
        )


def insert_records(connection: Connection, records: Sequence[RecordRows], numbers: dict[Key, int]) -> None:
    """Insert records.

    `numbers` are the positions of the records in the run. The caller must have deleted earlier imports of the same
    evals.
    """
    execute_many(connection, _PUT, [{**record.eval, "number": numbers[record.key]} for record in records])
    execute_many(connection, _PUT_STEP, _numbered((record.key, record.steps) for record in records))
    execute_many(connection, _PUT_TRANSCRIPT, _numbered((record.key, record.transcripts) for record in records))
    packed = contents.PackedDocuments()
    for record in records:
        packed.add(*record.key, record.documents, first=0)
    packed.put(connection)


def _numbered(rows: Iterable[tuple[Key, list[dict[str, Any]]]]) -> list[dict[str, Any]]:
    return [
        {"run_id": run_id, "eval_id": eval_id, "number": number, **row}
        for (run_id, eval_id), eval_rows in rows
        for number, row in enumerate(eval_rows)
    ]


def delete_records(connection: Connection, keys: Iterable[Key]) -> None:
    """Delete the imported data of the given evals, except their rows in `evals`."""
    if values := [{"run_id": run_id, "eval_id": eval_id} for run_id, eval_id in keys]:
        for statement in _DELETE_PARTS:
            connection.execute(statement, values)
        contents.delete_documents(connection, keys, recorded=True)


def load_records(connection: Connection, database: Database, rows: Sequence[Row[Any]]) -> list[Record]:
    """Load the records of the given rows of `evals`, in the order of the rows.

    All rows must belong to one run. Raises `DataError` if a record is damaged.
    """
    if not rows:
        return []
    values = {"run_id": rows[0].run_id, "ids": [row.eval_id for row in rows]}
    step_rows, transcript_rows, files = (
        _by_eval(connection, statement, values) for statement in (_STEPS, _TRANSCRIPTS, _DOCUMENTS)
    )
    return [
        Record.model_construct(
            run_id=row.run_id,
            eval=analyses.eval_in(row),
            metadata=row.metadata_json,
            transcripts=tuple(transcript_in(part) for part in transcript_rows[row.eval_id]),
            steps=tuple(Step(name=part.name, status=part.status, error=part.error) for part in step_rows[row.eval_id]),
            documents=tuple(_document(database, part) for part in files[row.eval_id]),
            missing=tuple(row.missing),
        )
        for row in rows
    ]


def transcript_in(row: Row[Any]) -> Transcript:
    messages = _MESSAGES.validate_python(row.messages)
    return Transcript.model_construct(id=row.id, name=row.name, messages=messages, metadata=row.metadata_json)


def _by_eval(connection: Connection, statement: Select[Any], values: dict[str, Any]) -> dict[str, list[Row[Any]]]:
    rows_by_eval: dict[str, list[Row[Any]]] = defaultdict(list)
    for row in connection.execute(statement, values):
        rows_by_eval[row.eval_id].append(row)
    return rows_by_eval


def _document(database: Database, row: Row[Any]) -> Document:
    return Document.model_construct(role=row.role, path=row.path, text=database.unzip(row.body).decode())


def _eval_row(record: Record) -> dict[str, Any]:
    return {
        **analyses.eval_values(record.run_id, record.eval),
        "task_digest": record.version or _files(record.documents, "task"),
        "grader_digest": record.version or _files(record.documents, "grader"),
        "metadata_json": _json(_JSON, record.metadata) if record.metadata else _NO_NAMES,
        "missing": _json(_JSON, list(record.missing)) if record.missing else _NO_PARTS,
    }


def _step_row(step: Step) -> dict[str, Any]:
    return {"name": step.name, "status": step.status, "error": step.error}


def _transcript_row(transcript: Transcript) -> dict[str, Any]:
    return {
        "id": transcript.id,
        "name": transcript.name,
        "messages": _json(_MESSAGES, transcript.messages),
        "metadata_json": _json(_JSON, transcript.metadata) if transcript.metadata else _NO_NAMES,
    }


def _files(documents: Sequence[Document], role: Role) -> str | None:
    files = tuple((document.path, document.text) for document in documents if document.role == role)
    if not files:
        return None
    # Only short texts are cached, so that the cache cannot hold much memory.
    is_short = sum(len(text) for _, text in files) <= SHORT
    return (_digest_of_short if is_short else _digest)(files, role)


def _digest(files: Iterable[tuple[str, str]], role: Role) -> str | None:
    return files_digest((Document.model_construct(role=role, path=path, text=text) for path, text in files), role)


# All trials of a task have the same texts.
_digest_of_short = lru_cache(1_000)(_digest)


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _json(shape: TypeAdapter[Any], value: object) -> StoredJson:
    """Render a value as JSON with sorted keys. Raises `DataError` if it contains an unpaired surrogate."""
    try:
        # Postgres does not preserve the order of keys, but the JSON text and its digest must be the same on both
        # engines.
        return without_nul(json.dumps(json.loads(shape.dump_json(value)), ensure_ascii=False, sort_keys=True))
    except ValueError as error:
        raise unstorable() from error


_STATE: Select[Any] = select(evals.c.eval_id, evals.c.digest, evals.c.status, evals.c.number).where(
    evals.c.run_id == bindparam("run_id"), evals.c.eval_id.in_(bindparam("ids", expanding=True))
)
_LAST = select(func.max(evals.c.number)).where(evals.c.run_id == bindparam("run_id"))
_EXISTING_RUNS = select(runs.c.run_id).where(runs.c.run_id.in_(bindparam("ids", expanding=True)))
_JOIN = insert_unless_exists(collection_runs)
_LAST_JOINED = select(func.max(collection_runs.c.number)).where(
    collection_runs.c.collection_id == bindparam("collection_id")
)
_FORGET_EVIDENCE = delete(evidence).where(
    evidence.c.run_id == bindparam("run_id"), evidence.c.eval_id == bindparam("eval_id")
)


class Addition:
    """A batch of runs and records to be added in one transaction."""

    def __init__(
        self, database: Database, collection_id: str | None, runs: Sequence[Run], records: Sequence[Record]
    ) -> None:
        self._database = database
        self._collection_id = collection_id
        self._runs = runs
        # Built before the write lock is taken, because rendering and hashing take most of the time of an import. If
        # several records have the same id, the last is used.
        self._records = {(rows := RecordRows(record)).key: rows for record in records}

    def add(self) -> AddedCounts:
        """Add the whole batch, or nothing if an error occurs.

        Returns the counts of new, changed and unchanged records. Raises the same errors as `RunStore.add`.
        """
        with self._database.writing() as connection:
            if self._collection_id is not None:
                require_collection(connection, self._collection_id)
            self._put_runs(connection)
            self._require_runs(connection)
            # Read under the write lock: no other process can add or delete these records before they are written.
            existing = self._states(connection)
            self._put(
                connection,
                [rows for key, rows in self._records.items() if not self._is_unchanged(key, existing)],
                existing,
            )
        return self._counts(existing)

    def _put_runs(self, connection: Connection) -> None:
        for run in self._runs:
            analyses.save_run(connection, self._database, run)
        if self._collection_id is None:
            return
        joining = {"collection_id": self._collection_id}
        last = connection.scalar(_LAST_JOINED, joining)
        for number, run in enumerate(self._runs, 0 if last is None else last + 1):
            connection.execute(_JOIN, {**joining, "run_id": run.id, "number": number})

    def _require_runs(self, connection: Connection) -> None:
        run_ids = {run_id for run_id, _ in self._records}
        existing_run_ids = set(connection.scalars(_EXISTING_RUNS, {"ids": sorted(run_ids)}))
        if missing := sorted(run_ids - existing_run_ids):
            raise DataError(f"a record belongs to run {missing[0]!r}, which does not exist")

    def _put(self, connection: Connection, fresh: Sequence[RecordRows], existing: dict[Key, Row[Any]]) -> None:
        written = [rows.key for rows in fresh]
        # A row without a digest is a failure that the source only listed. It has no imported parts, and its gathered
        # evidence is kept.
        replaced = [key for key in written if key in existing and existing[key].digest is not None]
        delete_records(connection, replaced)
        self._forget_evidence(connection, replaced)
        insert_records(connection, fresh, self._numbers(connection, written, existing))
        for run_id, (recorded, change) in self._changes(written, existing).items():
            analyses.add_counts(connection, self._database, run_id, recorded, change)

    def _forget_evidence(self, connection: Connection, replaced: Sequence[Key]) -> None:
        """Delete the evidence that was gathered from earlier versions of the replaced records."""
        if replaced:
            connection.execute(
                _FORGET_EVIDENCE, [{"run_id": run_id, "eval_id": eval_id} for run_id, eval_id in replaced]
            )
            contents.delete_documents(connection, replaced, recorded=False)

    def _numbers(self, connection: Connection, written: Iterable[Key], existing: dict[Key, Row[Any]]) -> dict[Key, int]:
        """Assign numbers to the records.

        Records that exist keep their numbers. New records get the next free numbers, in the order of the
        file.
        """
        numbers: dict[Key, int] = {}
        next_numbers: dict[str, int] = {}
        for key in written:
            # The number of a failure that was only listed is its position among the failures, not its position in the
            # run.
            if key in existing and existing[key].digest is not None:
                numbers[key] = existing[key].number
                continue
            if key[0] not in next_numbers:
                last = connection.scalar(_LAST, {"run_id": key[0]})
                next_numbers[key[0]] = 0 if last is None else last + 1
            numbers[key] = next_numbers[key[0]]
            next_numbers[key[0]] += 1
        return numbers

    def _changes(self, written: Iterable[Key], existing: dict[Key, Row[Any]]) -> dict[str, tuple[int, EvalCounts]]:
        """Return for each run how many of its records are new, and by how much its counts of outcomes change."""
        status_changes: dict[str, Counter[str]] = defaultdict(Counter)
        recorded: Counter[str] = Counter()
        for key in written:
            status_changes[key[0]][self._records[key].status] += 1
            if key in existing and existing[key].digest is not None:
                status_changes[key[0]][existing[key].status] -= 1
            else:
                recorded[key[0]] += 1
        return {
            run_id: (
                recorded[run_id],
                sum((counts_of_status(status, n) for status, n in by_status.items()), EvalCounts()),
            )
            for run_id, by_status in status_changes.items()
        }

    def _states(self, connection: Connection) -> dict[Key, Row[Any]]:
        """Return the existing rows in `evals` for the records of this batch. The caller must hold the write lock."""
        eval_ids_by_run: dict[str, list[str]] = defaultdict(list)
        for run_id, eval_id in self._records:
            eval_ids_by_run[run_id].append(eval_id)
        existing: dict[Key, Row[Any]] = {}
        for run_id, ids in eval_ids_by_run.items():
            rows: Sequence[Row[Any]] = connection.execute(_STATE, {"run_id": run_id, "ids": ids}).all()
            existing |= {(run_id, row.eval_id): row for row in rows}
        return existing

    def _is_unchanged(self, key: Key, existing: dict[Key, Row[Any]]) -> bool:
        return key in existing and existing[key].digest == self._records[key].digest

    def _counts(self, existing: dict[Key, Row[Any]]) -> AddedCounts:
        same = sum(self._is_unchanged(key, existing) for key in self._records)
        changed = sum(row.digest is not None for row in existing.values()) - same
        return AddedCounts(new=len(self._records) - same - changed, changed=changed, same=same)


AT_ONCE = 100
"""Maximum number of records read at once."""

_IN = collection_runs.c.collection_id == bindparam("collection_id")
_RUNS = (
    select(runs_table)
    .join(collection_runs, collection_runs.c.run_id == runs_table.c.run_id)
    .where(_IN)
    .order_by(collection_runs.c.number)
)
_RUN = select(runs_table).where(runs_table.c.run_id == bindparam("run_id"))
_LEAVE = delete(collection_runs).where(_IN, collection_runs.c.run_id == bindparam("run_id"))
_RUNS_OF_COLLECTION = select(collection_runs.c.run_id).where(_IN)
_OF_RUN = evals.c.run_id == bindparam("run_id")
_LONG = ("metadata_json", "missing")
_GRADED: Select[Any] = (
    select(
        *(column for column in evals.c if column.name not in _LONG),
        *(evals.c.metadata_json[name].label(name) for name in ("scores", "trial_name")),
    )
    .where(_OF_RUN)
    .order_by(evals.c.number, evals.c.eval_id)
)
_IMPORTED = select(evals).where(evals.c.digest.is_not(None))
_NEXT = _IMPORTED.where(_OF_RUN, evals.c.number > bindparam("after")).order_by(evals.c.number).limit(AT_ONCE)
_EVAL = _IMPORTED.where(evals.c.eval_id == bindparam("eval_id")).order_by(evals.c.run_id).limit(1)
_EVAL_OF_RUN = _IMPORTED.where(_OF_RUN, evals.c.eval_id == bindparam("eval_id"))
_TRANSCRIPT = (
    select(transcripts)
    .where(transcripts.c.id == bindparam("id"))
    .order_by(transcripts.c.run_id, transcripts.c.eval_id, transcripts.c.number)
    .limit(1)
)
FIRST_WORDS = 300
"""Maximum number of characters in the beginning of an agent run."""
_IDS: BindParameter[Any] = bindparam("ids", expanding=True)
_FIRST: Select[Any] = select(
    transcripts.c.eval_id,
    *(
        part
        for number in range(3)
        for part in (
            transcripts.c.messages[number]["role"].as_string().label(f"role_{number}"),
            func.substr(transcripts.c.messages[number]["content"].as_string(), 1, FIRST_WORDS).label(f"text_{number}"),
        )
    ),
).where(transcripts.c.run_id == bindparam("run_id"), transcripts.c.number == 0, transcripts.c.eval_id.in_(_IDS))
_SIZES = (
    select(transcripts.c.eval_id, func.sum(func.length(cast(transcripts.c.messages, Text))).label("size"))
    .where(transcripts.c.run_id == bindparam("run_id"))
    .group_by(transcripts.c.eval_id)
)
_PLACES: Select[Any] = (
    select(evals.c.run_id, evals.c.eval_id, evals.c.path, collection_runs.c.collection_id, transcripts.c.id)
    .join(collection_runs, collection_runs.c.run_id == evals.c.run_id)
    .outerjoin(transcripts, (transcripts.c.run_id == evals.c.run_id) & (transcripts.c.eval_id == evals.c.eval_id))
    .where(evals.c.digest.is_not(None))
    .order_by(collection_runs.c.collection_id, evals.c.run_id, evals.c.eval_id, transcripts.c.number)
)
_PLACES_BY_ID = _PLACES.where(evals.c.eval_id.in_(_IDS))
_PLACES_BY_PATH = _PLACES.where(tuple_(evals.c.run_id, evals.c.path).in_(_IDS))
PLACES_AT_ONCE = 200


def open_collection_records(place: Path | str) -> "RunStore":
    """Open the imported runs of the store at `place`. Raises the same errors as `open_database`."""
    return RunStore(open_database(place))


class RunStore:
    """Imported runs with all their evals. A run is stored once, even if several collections contain it.

    Many processes may use the store at once.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, collection_id: str | None, runs: Sequence[Run], records: Sequence[Record]) -> AddedCounts:
        """Add all runs and records, or nothing if an error occurs.

        If `collection_id` is given, also put the runs into this collection. Records that have not changed are not
        written again. Changed records replace the stored ones.

        A run's counts (`passed`, `failed`, `total`) are computed from its records.

        Raises:
            NotFoundError: The collection does not exist.
            DataError: A record's run does not exist.
        """
        return Addition(self._database, collection_id, runs, records).add()

    def runs(self, collection_id: str) -> tuple[Run, ...]:
        """Return the runs of a collection in the order they were added, without their failures."""
        with self._database.transaction() as connection:
            require_collection(connection, collection_id)
            rows = connection.execute(_RUNS, {"collection_id": collection_id}).all()
            return tuple(analyses.without_failures(self._database, row) for row in rows)

    def run(self, run_id: str) -> Run | None:
        """Return a run of any collection, without its failures."""
        with self._database.reading() as connection:
            row = connection.execute(_RUN, {"run_id": run_id}).one_or_none()
            return None if row is None else analyses.without_failures(self._database, row)

    def graded(self, run_id: str) -> tuple[GradedEval, ...]:
        """Return a run's stored evals in the order of the source.

        If the run was not imported, only its failures are stored.
        """
        with self._database.transaction() as connection:
            rows = connection.execute(_GRADED, {"run_id": run_id}).all()
        # Fingerprints are read only if needed. An imported run has the digests in its rows.
        some_not_imported = any(row.digest is None for row in rows)
        fingerprints = (
            {fingerprint.eval_id: fingerprint for fingerprint in AnalysisStore(self._database).sightings(run_id)}
            if some_not_imported
            else {}
        )
        return tuple(_graded(row, fingerprints.get(row.eval_id)) for row in rows)

    def first_words(self, run_id: str, eval_ids: Sequence[str]) -> dict[str, str]:
        """Return the beginning of the first user message of each agent run, by eval id.

        If none of an agent run's first three messages is a user message, use the first of the three that has text.
        """
        beginnings: dict[str, str] = {}
        for ids in in_parts(eval_ids, PLACES_AT_ONCE):
            with self._database.reading() as connection:
                for row in connection.execute(_FIRST, {"run_id": run_id, "ids": ids}).mappings():
                    messages = [(row[f"role_{number}"], row[f"text_{number}"]) for number in range(3)]
                    texts = [text for role, text in messages if role == "user" and text]
                    beginnings[row["eval_id"]] = next(iter([*texts, *(text for _, text in messages if text)]), "")
        return beginnings

    def sizes(self, run_id: str) -> dict[str, int]:
        """Return the size of the transcripts of each agent run, by eval id.

        The size is the number of characters of the transcripts as JSON. Agent runs without transcripts are left out.
        """
        with self._database.reading() as connection:
            return {row.eval_id: row.size for row in connection.execute(_SIZES, {"run_id": run_id})}

    def places(self, names: Iterable[str]) -> dict[str, tuple[AgentRunPlace, ...]]:
        """Find the places of imported agent runs by name.

        A name is an eval id or `<run id>/<path>`. Unknown names are left out of the result. An agent run whose run is
        in several collections has several places.
        """
        places: dict[str, tuple[AgentRunPlace, ...]] = {}
        for batch in in_parts(names, PLACES_AT_ONCE):
            for place in self._places(_PLACES_BY_ID, batch):
                places[place.eval_id] = (*places.get(place.eval_id, ()), place)
            # A run id and a path can both contain slashes, so every slash might be the one between them.
            names_by_path = {(name[:at], name[at + 1 :]): name for name in batch for at in _slashes(name)}
            for keys in (
                list(names_by_path)[at : at + PLACES_AT_ONCE] for at in range(0, len(names_by_path), PLACES_AT_ONCE)
            ):
                for place in self._places(_PLACES_BY_PATH, keys):
                    name = names_by_path[place.run_id, place.path]
                    places[name] = (*places.get(name, ()), place)
        return places

    def _places(self, statement: Select[Any], ids: Sequence[object]) -> Iterator[AgentRunPlace]:
        with self._database.reading() as connection:
            rows = connection.execute(statement, {"ids": ids}).all()
        transcript_ids: dict[tuple[str, str, str, str], list[str]] = {}
        for row in rows:
            run_transcripts = transcript_ids.setdefault((row.collection_id, row.run_id, row.eval_id, row.path), [])
            run_transcripts += [row.id] if row.id is not None else []
        for (collection_id, run_id, eval_id, path), run_transcripts in transcript_ids.items():
            yield AgentRunPlace(
                collection_id=collection_id,
                run_id=run_id,
                eval_id=eval_id,
                path=path,
                transcripts=tuple(run_transcripts),
            )

    def record(self, eval_id: str, collection_id: str | None = None, *, run_id: str | None = None) -> Record | None:
        """Return the record with this eval id. If `collection_id` is given, search only this collection.

        If the files of several runs describe the same eval, `run_id` selects the run.
        """
        statement = _within(_EVAL if run_id is None else _EVAL_OF_RUN, evals.c.run_id, collection_id)
        values = {"eval_id": eval_id, "collection_id": collection_id, "run_id": run_id}
        with self._database.reading() as connection:
            rows = connection.execute(statement, values).all()
            return next(iter(load_records(connection, self._database, rows)), None)

    def records(self, run_id: str, status: EvalStatus | None = None) -> Iterator[Record]:
        """Yield the records of a run in the order of the source.

        Records that are imported meanwhile can be included.
        """
        statement = _NEXT if status is None else _NEXT.where(evals.c.status == status)
        last_number, has_more = -1, True
        while has_more:
            with self._database.reading() as connection:
                rows = connection.execute(statement, {"run_id": run_id, "after": last_number}).all()
                records = load_records(connection, self._database, rows)
            yield from records
            has_more = len(rows) == AT_ONCE
            last_number = rows[-1].number if rows else last_number

    def transcript(self, transcript_id: str, collection_id: str | None = None) -> Record | None:
        """Return the record that contains the transcript. The record's other transcripts are left out."""
        statement = _within(_TRANSCRIPT, transcripts.c.run_id, collection_id)
        with self._database.reading() as connection:
            values = {"id": transcript_id, "collection_id": collection_id}
            row = connection.execute(statement, values).one_or_none()
            if row is None:
                return None
            key = {"run_id": row.run_id, "eval_id": row.eval_id}
            rows = connection.execute(_EVAL_OF_RUN, key).all()
            record = next(iter(load_records(connection, self._database, rows)), None)
        if record is None:  # The record's eval is being deleted.
            return None
        return record.model_copy(update={"transcripts": (transcript_in(row),)})

    def documents(self, run_id: str, eval_id: str) -> tuple[Document, ...]:
        """Return the documents of an eval. Transcripts are not included."""
        with self._database.reading() as connection:
            run_eval = connection.execute(_EVAL_OF_RUN, {"run_id": run_id, "eval_id": eval_id}).first()
            documents = contents.load_documents(
                connection, self._database, run_id, eval_id, recorded=run_eval is not None
            )
        return tuple(document for document in documents if document.role != "transcript")

    def remove(self, collection_id: str, run_id: str) -> None:
        """Remove a run from a collection. If no other collection contains the run, `sweep` can delete it later."""
        with self._database.writing() as connection:
            require_collection(connection, collection_id)
            connection.execute(_LEAVE, {"collection_id": collection_id, "run_id": run_id})

    def sweep(self, *, dry_run: bool) -> tuple[SweptRows, ...]:
        """Delete unused rows, or only count them if `dry_run` is true. Other processes may read and write meanwhile.

        Deletes runs that are in no collection and were neither analysed, labelled nor judged, evidence of deleted
        evals, and texts without references.
        """
        return sweep(self._database, dry_run=dry_run)

    def give_back(self) -> int:
        """Give unused space back to the disk if no other process uses the database. Return the bytes given back."""
        return self._database.give_back()

    def close(self) -> None:
        self._database.close()


def _slashes(name: str) -> Iterator[int]:
    return (at for at, character in enumerate(name) if character == "/")


def _within(statement: Select[Any], run_id: Any, collection_id: str | None) -> Select[Any]:
    """Restrict a statement to the runs of a collection.

    If the collection's id is None, return the statement unchanged.
    """
    return statement if collection_id is None else statement.where(run_id.in_(_RUNS_OF_COLLECTION))


def _graded(row: Row[Any], fingerprint: FailureFingerprint | None) -> GradedEval:
    """Build a graded eval from a row.

    If the eval is a failure that was not imported, its task and its grader come from its fingerprint.
    """
    not_imported = row.digest is None
    return GradedEval(
        run_id=row.run_id,
        eval=analyses.eval_in(row),
        scores=_numbers(row.scores),
        task=(fingerprint and fingerprint.task) if not_imported else row.task_digest,
        grader=(fingerprint and fingerprint.grader) if not_imported else row.grader_digest,
        trial_name=row.trial_name if isinstance(row.trial_name, str) else None,
    )


def _numbers(scores: object) -> dict[str, float]:
    entries = scores.items() if isinstance(scores, dict) else ()
    return {name: value for name, value in entries if isinstance(value, int | float)}
