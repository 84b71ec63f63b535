"""The evidence of a failed eval as rows: its documents apart, their texts by content."""

from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import Connection, bindparam, select

from evalscribe.model.evidence import Document, Evidence, UnreadableEvidence
from evalscribe.store import documents
from evalscribe.store.database import Database, pack
from evalscribe.store.statements import upsert
from evalscribe.store.tables.runs import documents as document_rows
from evalscribe.store.tables.runs import evidence as table
from evalscribe.store.tables.runs import texts

_EVIDENCE = TypeAdapter[Evidence | UnreadableEvidence](Evidence | UnreadableEvidence)
_PUT = upsert(table)
# In one statement, or another process could replace the evidence between two.
_GET = (
    select(table.c.body, document_rows.c.number, document_rows.c.role, document_rows.c.path, texts.c.body.label("text"))
    .outerjoin(
        document_rows,
        (document_rows.c.run_id == table.c.run_id)
        & (document_rows.c.eval_id == table.c.eval_id)
        & (document_rows.c.number < 0),
    )
    .outerjoin(texts, texts.c.digest == document_rows.c.digest)
    .where(table.c.run_id == bindparam("run_id"), table.c.eval_id == bindparam("eval_id"))
    .order_by(document_rows.c.number)
)


def put(connection: Connection, run_id: str, evidence: Evidence | UnreadableEvidence) -> None:
    key = {"run_id": run_id, "eval_id": evidence.eval.id}
    connection.execute(_PUT, {**key, **_body(evidence)})
    gathered = evidence.documents if isinstance(evidence, Evidence) else ()
    documents.replace_gathered(connection, run_id, evidence.eval.id, gathered)


def get(connection: Connection, database: Database, run_id: str, eval_id: str) -> Evidence | UnreadableEvidence | None:
    """Raises `DataError` for what cannot be read any more."""
    rows = connection.execute(_GET, {"run_id": run_id, "eval_id": eval_id}).all()
    if not rows:
        return None
    found = database.unpacked(rows[0].body, _EVIDENCE, f"evidence {run_id} {eval_id}")
    if isinstance(found, UnreadableEvidence) or rows[0].number is None:
        return found
    read = tuple(
        Document.model_construct(role=row.role, path=row.path, text=database.unzip(row.text).decode()) for row in rows
    )
    return found.model_copy(update={"documents": read})


def _body(evidence: Evidence | UnreadableEvidence) -> dict[str, Any]:
    if isinstance(evidence, UnreadableEvidence):
        return {"digest": None, "body": pack(evidence)}
    return {"digest": evidence.digest, "body": pack(evidence.model_copy(update={"documents": ()}))}
