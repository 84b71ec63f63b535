"""Records as rows of evals, steps, transcripts and documents, and back."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import JsonValue, TypeAdapter
from sqlalchemy import Connection, Row, Select, Table, bindparam, delete, insert, select

from evalscribe.agent_run import ChatMessage, Transcript
from evalscribe.evidence import Document, files_digest
from evalscribe.record import Record
from evalscribe.run import Step
from evalscribe.store import documents, run_rows
from evalscribe.store.database import Database
from evalscribe.store.failures import unstorable
from evalscribe.store.json_text import Written
from evalscribe.store.statements import upsert
from evalscribe.store.tables import documents as document_rows
from evalscribe.store.tables import evals, steps, texts, transcripts

Key = tuple[str, str]
"""Run and eval id."""

_JSON = TypeAdapter[JsonValue](JsonValue)
_MESSAGES = TypeAdapter[tuple[ChatMessage, ...]](tuple[ChatMessage, ...])
_PUT = upsert(evals)


def _of_eval(table: Table) -> tuple[Any, Any]:
    return table.c.run_id == bindparam("run_id"), table.c.eval_id == bindparam("eval_id")


def _of_several(chosen: Select[Any], table: Table) -> Select[Any]:
    mine = chosen.where(table.c.run_id == bindparam("run_id"), table.c.eval_id.in_(bindparam("ids", expanding=True)))
    return mine.order_by(table.c.eval_id, table.c.number)


_FORGET = tuple(delete(table).where(*_of_eval(table)) for table in (steps, transcripts))
_STEPS, _TRANSCRIPTS = (_of_several(select(table), table) for table in (steps, transcripts))
_DOCUMENTS = _of_several(
    select(document_rows, texts.c.body)
    .join(texts, texts.c.digest == document_rows.c.digest)
    .where(document_rows.c.number >= 0),
    document_rows,
)


class Prepared:
    """Records as the rows they become, made before anything is locked."""

    def __init__(self, records: Iterable[Record], digests: dict[Key, str]) -> None:
        self.evals: list[dict[str, Any]] = []
        self._steps: list[dict[str, Any]] = []
        self._transcripts: list[dict[str, Any]] = []
        self._documents = documents.Kept()
        for record in records:
            self._add(record, digests[key_of(record)])

    def put(self, connection: Connection, numbers: dict[Key, int]) -> None:
        """Every record at its number; what was imported of the same evals before is gone already."""
        rows = [{**row, "number": numbers[row["run_id"], row["eval_id"]]} for row in self.evals]
        for statement, values in ((_PUT, rows), (insert(steps), self._steps), (insert(transcripts), self._transcripts)):
            if values:
                connection.execute(statement, values)
        self._documents.put(connection)

    def _add(self, record: Record, digest: str) -> None:
        key = {"run_id": record.run_id, "eval_id": record.eval.id}
        self.evals.append(_eval_row(record, digest))
        for number, step in enumerate(record.steps):
            said = {"name": step.name, "status": step.status, "error": step.error}
            self._steps.append({**key, "number": number, **said})
        for number, transcript in enumerate(record.transcripts):
            self._transcripts.append({**key, "number": number, **_transcript_row(transcript)})
        self._documents.add(record.run_id, record.eval.id, record.documents, first=0)


def key_of(record: Record) -> Key:
    return record.run_id, record.eval.id


def forget(connection: Connection, keys: Iterable[Key]) -> None:
    """What was imported of these evals, but for the evals themselves."""
    if values := [{"run_id": run_id, "eval_id": eval_id} for run_id, eval_id in keys]:
        for statement in _FORGET:
            connection.execute(statement, values)
        documents.clear(connection, keys, recorded=True)


def read(connection: Connection, database: Database, rows: Sequence[Row[Any]]) -> list[Record]:
    """The records of these rows of `evals`, all of one run, in their order. Raises `DataError` for damaged ones."""
    if not rows:
        return []
    which = {"run_id": rows[0].run_id, "ids": [row.eval_id for row in rows]}
    done, talks, files = (_by_eval(connection, statement, which) for statement in (_STEPS, _TRANSCRIPTS, _DOCUMENTS))
    return [
        Record.model_construct(
            run_id=row.run_id,
            eval=run_rows.eval_in(row),
            metadata=row.metadata_json,
            transcripts=tuple(transcript_in(part) for part in talks[row.eval_id]),
            steps=tuple(Step(name=part.name, status=part.status, error=part.error) for part in done[row.eval_id]),
            documents=tuple(_document(database, part) for part in files[row.eval_id]),
            missing=tuple(row.missing),
        )
        for row in rows
    ]


def transcript_in(row: Row[Any]) -> Transcript:
    messages = _MESSAGES.validate_python(row.messages)
    return Transcript.model_construct(id=row.id, name=row.name, messages=messages, metadata=row.metadata_json)


def _by_eval(connection: Connection, statement: Select[Any], which: dict[str, Any]) -> dict[str, list[Row[Any]]]:
    found: dict[str, list[Row[Any]]] = defaultdict(list)
    for row in connection.execute(statement, which):
        found[row.eval_id].append(row)
    return found


def _document(database: Database, row: Row[Any]) -> Document:
    return Document.model_construct(role=row.role, path=row.path, text=database.unzip(row.body).decode())


def _eval_row(record: Record, digest: str) -> dict[str, Any]:
    return {
        **run_rows.of_eval(record.run_id, record.eval),
        "task_digest": files_digest(record.documents, "task"),
        "grader_digest": files_digest(record.documents, "grader"),
        "metadata_json": _json(_JSON, record.metadata),
        "missing": _json(_JSON, list(record.missing)),
        "digest": digest,
    }


def _transcript_row(transcript: Transcript) -> dict[str, Any]:
    return {
        "id": transcript.id,
        "name": transcript.name,
        "messages": _json(_MESSAGES, transcript.messages),
        "metadata_json": _json(_JSON, transcript.metadata),
    }


def _json(shape: TypeAdapter[Any], value: object) -> Written:
    """Raises `DataError` for half a character."""
    try:
        return Written(shape.dump_json(value).decode())
    except ValueError as error:
        raise unstorable() from error
