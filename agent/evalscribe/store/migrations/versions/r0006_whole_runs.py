"""Whole runs in rows: evals, transcripts, texts by content; SQL reads them. Never edited: add a revision instead."""

import json
import zlib
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0006"
down_revision = "0005"

_JSON = sa.JSON().with_variant(JSONB(), "postgresql")
_AT_ONCE = 500
_Values = dict[str, Any]


def upgrade() -> None:
    for name in ("runs", "reports", "judge_results", "labels"):
        _remake(name)
    op.create_table(
        "steps",
        *_key_of_eval(),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("error", sa.Text),
    )
    op.create_table(
        "transcripts",
        *_key_of_eval(),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("id", sa.String, nullable=False),
        sa.Column("name", sa.String),
        sa.Column("messages", _JSON, nullable=False),
        sa.Column("metadata_json", _JSON, nullable=False),
    )
    op.create_index("ix_transcripts_id", "transcripts", ["id"])
    op.create_table(
        "collection_runs",
        sa.Column("collection_id", sa.String, primary_key=True),
        sa.Column("run_id", sa.String, primary_key=True),
        sa.Column("number", sa.Integer, nullable=False),
    )
    op.create_table(
        "findings",
        sa.Column("run_id", sa.String, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("eval_id", sa.String),
        sa.Column("path", sa.String, nullable=False),
        sa.Column("step", sa.String),
        sa.Column("classification", sa.String),
        sa.Column("cause", sa.String),
        sa.Column("cause_kind", sa.String),
        sa.Column("confidence", sa.Float),
        sa.Column("uncertain", sa.Boolean),
        sa.Column("judge", sa.String),
        sa.Column("error", sa.Text),
        sa.Column("reasoning", sa.Text),
        sa.Column("recurrence", sa.String),
        sa.Column("finding_json", _JSON, nullable=False),
    )
    op.create_index("ix_judge_results_agent_run_id", "judge_results", ["agent_run_id"])
    _split_evidence()


def _key_of_eval() -> tuple[sa.Column[str], sa.Column[str]]:
    return sa.Column("run_id", sa.String, primary_key=True), sa.Column("eval_id", sa.String, primary_key=True)


def _remake(name: str) -> None:
    """The table made anew with its rows: SQLite cannot add a column without a default to one that has rows."""
    connection = op.get_bind()
    old = connection.execute(sa.select(sa.text("*")).select_from(sa.table(name))).mappings().all()
    op.drop_table(name)
    make, rows = _REMADE[name]
    table = make()
    if name == "runs":
        evals = _make_evals()
        for chunk in _chunks(row for body in old for row in _failures(body)):
            connection.execute(sa.insert(evals), chunk)
    for chunk in _chunks(row for body in old if (row := rows(body)) is not None):
        connection.execute(sa.insert(table), chunk)


def _chunks(rows: Iterable[_Values]) -> Iterator[list[_Values]]:
    chunk: list[_Values] = []
    for row in rows:
        chunk.append(row)
        if len(chunk) == _AT_ONCE:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _runs() -> sa.Table:
    return op.create_table(
        "runs",
        sa.Column("run_id", sa.String, primary_key=True),
        sa.Column("provider", sa.String, nullable=False),
        sa.Column("model", sa.String, nullable=False),
        sa.Column("experiment", sa.String, nullable=False),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("passed", sa.Integer, nullable=False),
        sa.Column("failed", sa.Integer, nullable=False),
        sa.Column("total", sa.Integer, nullable=False),
        sa.Column("recorded", sa.Integer, nullable=False),
        sa.Column("url", sa.String),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )


def _make_evals() -> sa.Table:
    table = op.create_table(
        "evals",
        *_key_of_eval(),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("category", sa.String, nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("trial", sa.Integer, nullable=False),
        sa.Column("trials", sa.Integer, nullable=False),
        sa.Column("path", sa.String, nullable=False),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("failed_step", sa.String),
        sa.Column("reason", sa.Text),
        sa.Column("url", sa.String),
        sa.Column("task_digest", sa.String),
        sa.Column("grader_digest", sa.String),
        sa.Column("metadata_json", _JSON, nullable=False),
        sa.Column("missing", _JSON, nullable=False),
        sa.Column("digest", sa.String),
    )
    op.create_index("evals_by_id", "evals", ["eval_id"])
    op.create_index("evals_in_order", "evals", ["run_id", "number"])
    return table


def _reports() -> sa.Table:
    return op.create_table(
        "reports",
        sa.Column("run_id", sa.String, primary_key=True),
        sa.Column("path", sa.String, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
    )


def _judge_results() -> sa.Table:
    return op.create_table(
        "judge_results",
        sa.Column("key", sa.String, primary_key=True),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("agent_run_id", sa.String, nullable=False),
        sa.Column("rubric_id", sa.String, nullable=False),
        sa.Column("rubric_version", sa.Integer, nullable=False),
        sa.Column("judge", sa.String, nullable=False),
        sa.Column("output", _JSON, nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("confidence", sa.Float),
        sa.Column("cost_usd", sa.Float, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )


def _labels() -> sa.Table:
    return op.create_table(
        "labels",
        sa.Column("run_id", sa.String, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("eval", sa.String, nullable=False),
        sa.Column("label", sa.String),
        sa.Column("reviewer", sa.String),
        sa.Column("label_json", _JSON, nullable=False),
    )


def _run(row: Any) -> _Values:
    run = _read(row["body"])
    return {
        "run_id": row["run_id"],
        **{name: run.get(name) or "" for name in ("provider", "model")},
        "experiment": run.get("experiment") or "default",
        "status": run.get("status") or "completed",
        **{name: run.get(name) or 0 for name in ("passed", "failed", "total")},
        "recorded": 0,
        "url": run.get("url"),
        "body": _written({**run, "failures": []}) if run else row["body"],
    }


def _failures(row: Any) -> Iterator[_Values]:
    known = set()
    for number, eval in enumerate(_read(row["body"]).get("failures") or ()):
        if eval["id"] not in known:
            known.add(eval["id"])
            yield {"run_id": row["run_id"], "eval_id": eval["id"], "number": number, **_eval(eval)}


def _eval(eval: _Values) -> _Values:
    category, trial, trials = eval["category"], eval.get("trial", 1), eval.get("trials", 1)
    path = f"{category}/{eval['name']}" if category else eval["name"]
    return {
        "category": category,
        "name": eval["name"],
        "trial": trial,
        "trials": trials,
        "path": f"{path}#{trial}" if trials > 1 else path,
        "status": eval.get("status", "failed"),
        **{name: eval.get(name) for name in ("failed_step", "reason", "url")},
        "metadata_json": {},
        "missing": [],
    }


def _report(row: Any) -> _Values | None:
    text = _unzipped(row["body"])
    return None if text is None else {"run_id": row["run_id"], "path": row["path"], "text": text.decode()}


def _judge_result(row: Any) -> _Values:
    result = _read(row["body"])
    return {
        "key": row["key"],
        "kind": row["kind"],
        **{name: result.get(name) or "" for name in ("agent_run_id", "rubric_id", "judge")},
        "rubric_version": result.get("rubric_version") or 0,
        "output": result.get("output") or {},
        "reason": result.get("reason"),
        "confidence": result.get("confidence"),
        "cost_usd": (result.get("usage") or {}).get("cost_usd") or 0.0,
        "body": row["body"],
    }


def _label(row: Any) -> _Values | None:
    """One that cannot be read is left out: git tells it again."""
    label = _read(row["body"])
    if not label:
        return None
    named = {name: label.get(name) for name in ("label", "reviewer")}
    return {"run_id": row["run_id"], "number": row["number"], "eval": label["eval"], **named, "label_json": label}


def _split_evidence() -> None:
    """Documents out of the bodies of evidence, their texts by content; one row after the other, so of any size."""
    connection = op.get_bind()
    documents = op.create_table(
        "documents",
        *_key_of_eval(),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("role", sa.String, nullable=False),
        sa.Column("path", sa.String, nullable=False),
        sa.Column("digest", sa.String, nullable=False),
    )
    op.create_index("ix_documents_digest", "documents", ["digest"])
    texts = op.create_table(
        "texts",
        sa.Column("digest", sa.String, primary_key=True),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    evidence = sa.table("evidence", sa.column("run_id"), sa.column("eval_id"), sa.column("body", sa.LargeBinary))
    known: set[str] = set()
    for key in connection.execute(sa.select(evidence.c.run_id, evidence.c.eval_id)).all():
        mine = sa.and_(evidence.c.run_id == key.run_id, evidence.c.eval_id == key.eval_id)
        read = _read(connection.execute(sa.select(evidence.c.body).where(mine)).scalar_one())
        if not read.get("documents"):
            continue
        rows = [_document(key, number, one) for number, one in enumerate(read["documents"], -len(read["documents"]))]
        fresh = {row["digest"]: row["text"] for row in rows if row["digest"] not in known}
        known |= fresh.keys()
        if fresh:
            packed = [{"digest": digest, "body": zlib.compress(text)} for digest, text in fresh.items()]
            connection.execute(sa.insert(texts), packed)
        connection.execute(sa.insert(documents), [{c.name: row[c.name] for c in documents.c} for row in rows])
        connection.execute(sa.update(evidence).where(mine).values(body=_written({**read, "documents": []})))


def _document(key: Any, number: int, document: _Values) -> _Values:
    text = document["text"].encode()
    return {
        "run_id": key.run_id,
        "eval_id": key.eval_id,
        "number": number,
        "role": document["role"],
        "path": document["path"],
        "digest": f"sha256:{sha256(text).hexdigest()}",
        "text": text,
    }


def _read(body: bytes) -> _Values:
    """Empty for what is damaged: its row stays as it is, and says so when it is read."""
    text = _unzipped(body)
    try:
        read = json.loads(text or b"")
    except ValueError:
        return {}
    return read if isinstance(read, dict) else {}


def _unzipped(body: bytes) -> bytes | None:
    try:
        return zlib.decompress(body)
    except zlib.error:
        return None


def _written(value: _Values) -> bytes:
    return zlib.compress(json.dumps(value, ensure_ascii=False).encode())


_REMADE: dict[str, tuple[Callable[[], sa.Table], Callable[[Any], _Values | None]]] = {
    "runs": (_runs, _run),
    "reports": (_reports, _report),
    "judge_results": (_judge_results, _judge_result),
    "labels": (_labels, _label),
}
