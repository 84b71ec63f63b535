"""The tables of the newest revision. What older databases look like is in `migrations/versions`, never edited."""

from sqlalchemy import Boolean, Column, Integer, LargeBinary, MetaData, String, Table, UniqueConstraint, false

HEAD = "0005"
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

reports = Table(
    "reports",
    metadata,
    Column("run_id", String, primary_key=True),
    Column("path", String, nullable=False),
    Column("body", LargeBinary, nullable=False),
)

collections = Table(
    "collections",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("name", String, nullable=False),
)
"""`number` keeps the order in which they were made."""

rubric_versions = Table(
    "rubric_versions",
    metadata,
    Column("collection_id", String, primary_key=True),
    Column("id", String, primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("digest", String, nullable=False),
    Column("body", LargeBinary, nullable=False),
)

label_sets = Table(
    "label_sets",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("collection_id", String, nullable=False),
    Column("id", String, nullable=False),
    Column("body", LargeBinary, nullable=False),
    UniqueConstraint("collection_id", "id"),
)

judge_results = Table(
    "judge_results",
    metadata,
    Column("key", String, primary_key=True),
    Column("kind", String, nullable=False),
    Column("body", LargeBinary, nullable=False),
)
"""`kind` is the result's type: one that was paid for is never replaced by a failure."""

batch_intents = Table(
    "batch_intents",
    metadata,
    Column("id", String, primary_key=True),
    Column("created", String, nullable=False),
    Column("batch_id", String),
)
"""`created` in ISO 8601 with its zone; `batch_id` is null until the service has named it."""

batch_items = Table(
    "batch_items",
    metadata,
    Column("key", String, primary_key=True),
    Column("intent_id", String, nullable=False, index=True),
    Column("body", LargeBinary),
    Column("taken", Boolean, nullable=False, server_default=false()),
)
"""`body` is what the batch said of the question, null until then; `taken` once somebody had and counted it."""

sightings = Table(
    "sightings",
    metadata,
    Column("run_id", String, primary_key=True),
    Column("body", LargeBinary, nullable=False),
)
"""All failures of a run as they are compared with those of other models: nobody ever asks for one of them, and one
row is read ten times as fast as ten thousand."""

labels = Table(
    "labels",
    metadata,
    Column("run_id", String, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("body", LargeBinary, nullable=False),
)
"""What people said of a run's failures, as git tells it."""

proposals = Table(
    "proposals",
    metadata,
    Column("key", String, primary_key=True),
    Column("body", LargeBinary, nullable=False),
)
"""Changes that models proposed, by what they were asked."""
