"""Records as rows of evals, steps, transcripts and documents, and back."""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any

from pydantic import JsonValue, TypeAdapter
from sqlalchemy import Connection, Row, Select, Table, bindparam, delete, insert, select

from evalscribe.model.evidence import Document, Role, files_digest
from evalscribe.model.record import Record
from evalscribe.model.run import Step
from evalscribe.model.transcript import ChatMessage, Transcript
from evalscribe.store import documents, run_rows
from evalscribe.store.database import Database
from evalscribe.store.failures import unstorable
from evalscribe.store.json_text import Written, written
from evalscribe.store.statements import execute_many, upsert
from evalscribe.store.tables.runs import documents as document_rows
from evalscribe.store.tables.runs import evals, steps, texts, transcripts
from evalscribe.store.texts import SHORT, digest_of

Key = tuple[str, str]
"""Run and eval id."""

_JSON = TypeAdapter[JsonValue](JsonValue)
_MESSAGES = TypeAdapter[tuple[ChatMessage, ...]](tuple[ChatMessage, ...])
_PUT, _PUT_STEP, _PUT_TRANSCRIPT = upsert(evals), insert(steps), insert(transcripts)
_NO_NAMES, _NO_PARTS = Written("{}"), Written("[]")


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


class RecordRows:
    """A record as the rows it becomes, made before anything is locked."""

    def __init__(self, record: Record) -> None:
        self.key: Key = (record.run_id, record.eval.id)
        self.status = record.eval.status
        self.eval = _eval_row(record)
        self.steps = [_step_row(step) for step in record.steps]
        self.transcripts = [_transcript_row(transcript) for transcript in record.transcripts]
        self.documents = record.documents
        said = [[one.role, one.path, digest_of(one.text)] for one in record.documents]
        talks = [{**row, "messages": _hashed(row["messages"])} for row in self.transcripts]
        self.eval["digest"] = self.digest = f"sha256:{_hashed(json.dumps([self.eval, self.steps, talks, said]))}"


def put(connection: Connection, records: Sequence[RecordRows], numbers: dict[Key, int]) -> None:
    """Every record at its number; what was imported of the same evals before is gone already."""
    execute_many(connection, _PUT, [{**one.eval, "number": numbers[one.key]} for one in records])
    execute_many(connection, _PUT_STEP, _numbered((one.key, one.steps) for one in records))
    execute_many(connection, _PUT_TRANSCRIPT, _numbered((one.key, one.transcripts) for one in records))
    kept = documents.Kept()
    for one in records:
        kept.add(*one.key, one.documents, first=0)
    kept.put(connection)


def _numbered(rows: Iterable[tuple[Key, list[dict[str, Any]]]]) -> list[dict[str, Any]]:
    return [
        {"run_id": run_id, "eval_id": eval_id, "number": number, **row}
        for (run_id, eval_id), several in rows
        for number, row in enumerate(several)
    ]


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


def _eval_row(record: Record) -> dict[str, Any]:
    return {
        **run_rows.of_eval(record.run_id, record.eval),
        "task_digest": _files(record.documents, "task"),
        "grader_digest": _files(record.documents, "grader"),
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


def _files(given: Sequence[Document], role: Role) -> str | None:
    files = tuple((one.path, one.text) for one in given if one.role == role)
    if not files:
        return None
    short = sum(len(text) for _, text in files) <= SHORT
    return (_digest_of_short if short else _digest)(files, role)


def _digest(files: Iterable[tuple[str, str]], role: Role) -> str | None:
    return files_digest((Document.model_construct(role=role, path=path, text=text) for path, text in files), role)


_digest_of_short = lru_cache(1_000)(_digest)
"""The task of many trials."""


def _hashed(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _json(shape: TypeAdapter[Any], value: object) -> Written:
    """Its names sorted, since Postgres keeps no order of them: one text, of one digest, on both engines.

    Raises `DataError` for half a character.
    """
    try:
        return written(json.dumps(json.loads(shape.dump_json(value)), ensure_ascii=False, sort_keys=True))
    except ValueError as error:
        raise unstorable() from error
