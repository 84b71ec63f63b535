"""The tables of the newest revision. What older databases look like is in `migrations/versions`, never edited."""

from sqlalchemy import Column, Float, Integer, LargeBinary, MetaData, String, Table

HEAD = "0001"
"""Newest revision; a test holds it against the scripts."""

metadata = MetaData()

revisions = Table("alembic_version", MetaData(), Column("version_num", String, primary_key=True))

runs = Table(
    "runs",
    metadata,
    Column("run_id", String, primary_key=True),
    Column("body", LargeBinary, nullable=False),
)

evidence = Table(
    "evidence",
    metadata,
    Column("run_id", String, primary_key=True),
    Column("eval_id", String, primary_key=True),
    Column("digest", String),
    Column("body", LargeBinary, nullable=False),
)
"""`digest` is null where the evidence is unreadable; `body` is then the reason."""

verdicts = Table(
    "verdicts",
    metadata,
    Column("key", String, primary_key=True),
    Column("kind", String, nullable=False),
    Column("body", LargeBinary, nullable=False),
)

spend = Table(
    "spend",
    metadata,
    Column("run_id", String, primary_key=True),
    Column("calls", Integer, nullable=False),
    Column("input_tokens", Integer, nullable=False),
    Column("output_tokens", Integer, nullable=False),
    Column("cache_read_tokens", Integer, nullable=False),
    Column("cache_write_tokens", Integer, nullable=False),
    Column("cost_usd", Float, nullable=False),
)

reports = Table(
    "reports",
    metadata,
    Column("run_id", String, primary_key=True),
    Column("path", String, nullable=False),
    Column("body", LargeBinary, nullable=False),
)
