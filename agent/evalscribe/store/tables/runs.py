"""Runs as they were imported or gathered: their evals, evidence and texts, and the collections they are in."""

from sqlalchemy import Column, Index, Integer, LargeBinary, String, Table, Text

from evalscribe.store.tables.base import JSON_TEXT, metadata

runs = Table(
    "runs",
    metadata,
    Column("run_id", String, primary_key=True),
    Column("provider", String, nullable=False),
    Column("model", String, nullable=False),
    Column("experiment", String, nullable=False),
    Column("status", String, nullable=False),
    Column("passed", Integer, nullable=False),
    Column("failed", Integer, nullable=False),
    Column("total", Integer, nullable=False),
    Column("recorded", Integer, nullable=False),
    Column("url", String),
    Column("body", LargeBinary, nullable=False),
)
"""`body` is the run as its source tells of it, without its failures, which are rows of `evals`. `recorded` is how many
of these were imported: once they are as many as the source counts, the counts are theirs, until then the source's."""

evals = Table(
    "evals",
    metadata,
    Column("run_id", String, primary_key=True),
    Column("eval_id", String, primary_key=True),
    Column("number", Integer, nullable=False),
    Column("category", String, nullable=False),
    Column("name", String, nullable=False),
    Column("trial", Integer, nullable=False),
    Column("trials", Integer, nullable=False),
    Column("path", String, nullable=False),
    Column("status", String, nullable=False),
    Column("failed_step", String),
    Column("reason", Text),
    Column("url", String),
    Column("task_digest", String),
    Column("grader_digest", String),
    Column("metadata_json", JSON_TEXT, nullable=False),
    Column("missing", JSON_TEXT, nullable=False),
    Column("digest", String),
    Index("evals_by_id", "eval_id"),
    Index("evals_in_order", "run_id", "number"),
)
"""`number` keeps the source's order; `digest` is null where the eval was not imported, but listed as a failure."""

steps = Table(
    "steps",
    metadata,
    Column("run_id", String, primary_key=True),
    Column("eval_id", String, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("name", String, nullable=False),
    Column("status", String, nullable=False),
    Column("error", Text),
)
"""Of imported evals; those of a failure that was only listed are in its evidence."""

transcripts = Table(
    "transcripts",
    metadata,
    Column("run_id", String, primary_key=True),
    Column("eval_id", String, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("id", String, nullable=False, index=True),
    Column("name", String),
    Column("messages", JSON_TEXT, nullable=False),
    Column("metadata_json", JSON_TEXT, nullable=False),
)

documents = Table(
    "documents",
    metadata,
    Column("run_id", String, primary_key=True),
    Column("eval_id", String, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("role", String, nullable=False),
    Column("path", String, nullable=False),
    Column("digest", String, nullable=False, index=True),
)
"""What is known of an eval. `number` counts from 0 what was imported with it; what was gathered as its evidence ends
at -1, so that neither touches the other."""

texts = Table(
    "texts",
    metadata,
    Column("digest", String, primary_key=True),
    Column("body", LargeBinary, nullable=False),
)
"""Texts of documents by their content id, each kept once."""

collection_runs = Table(
    "collection_runs",
    metadata,
    Column("collection_id", String, primary_key=True),
    Column("run_id", String, primary_key=True),
    Column("number", Integer, nullable=False),
)
"""Which runs a collection has, in the order they were added."""

evidence = Table(
    "evidence",
    metadata,
    Column("run_id", String, primary_key=True),
    Column("eval_id", String, primary_key=True),
    Column("digest", String),
    Column("body", LargeBinary, nullable=False),
)
"""`body` is the evidence without its documents, which are rows of `documents`. Where the evidence is unreadable,
`digest` is null and `body` is the reason."""

collections = Table(
    "collections",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("name", String, nullable=False),
)
"""`number` keeps the order in which they were made."""
