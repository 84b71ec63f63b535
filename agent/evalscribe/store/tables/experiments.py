"""Datasets, what is tried on them, and what came of it."""

from sqlalchemy import (
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
)

from evalscribe.store.tables.base import JSON_OR_NULL, JSON_TEXT, metadata

datasets = Table(
    "datasets",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("name", String, nullable=False, unique=True),
    Column("description", Text, nullable=False),
    Column("created_at", String, nullable=False),
)
"""Times of all tables below are in ISO 8601, UTC."""

draft_items = Table(
    "draft_items",
    metadata,
    Column("dataset_id", String, primary_key=True),
    Column("item_key", String, primary_key=True),
    Column("number", Integer, nullable=False),
    Column("digest", String, nullable=False, index=True),
    Column("likeness", String, nullable=False),
    Column("content", String, nullable=False),
    Column("source", JSON_TEXT, nullable=False),
    Index("draft_items_in_order", "dataset_id", "number"),
)
"""The only items that change. `digest` names the text (`texts`) that holds all of the item but its source; `likeness`
and `content` are the item's own content ids."""

dataset_versions = Table(
    "dataset_versions",
    metadata,
    Column("id", String, primary_key=True),
    Column("dataset_id", String, nullable=False),
    Column("number", Integer, nullable=False),
    Column("items", Integer, nullable=False),
    Column("provenance", String, nullable=False),
    Column("parent_run_id", String),
    Column("description", Text, nullable=False),
    Column("created_at", String, nullable=False),
    UniqueConstraint("dataset_id", "number"),
)
"""Triggers refuse to change or delete rows of this table, of `version_items`, `deployments`, `prompt_versions`,
`scorer_versions` and `experiment_versions`."""

version_items = Table(
    "version_items",
    metadata,
    Column("version_id", String, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("item_key", String, nullable=False),
    Column("digest", String, nullable=False, index=True),
    Column("likeness", String, nullable=False),
    Column("content", String, nullable=False),
    Column("source", JSON_TEXT, nullable=False),
    UniqueConstraint("version_id", "item_key"),
)

deployments = Table(
    "deployments",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("name", String, nullable=False),
    Column("body", LargeBinary, nullable=False),
)

target_prompts = Table(
    "target_prompts",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("name", String, nullable=False, unique=True),
    Column("created_at", String, nullable=False),
)

prompt_versions = Table(
    "prompt_versions",
    metadata,
    Column("prompt_id", String, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("id", String, nullable=False),
    Column("body", LargeBinary, nullable=False),
)

scorers = Table(
    "scorers",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("name", String, nullable=False, unique=True),
    Column("created_at", String, nullable=False),
)

scorer_versions = Table(
    "scorer_versions",
    metadata,
    Column("scorer_id", String, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("id", String, nullable=False),
    Column("body", LargeBinary, nullable=False),
)
"""`body` is the whole `Scorer`."""

experiments = Table(
    "experiments",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("name", String, nullable=False, unique=True),
    Column("type", String, nullable=False),
    Column("status", String, nullable=False),
    Column("collection_id", String, nullable=False),
    Column("latest_version_id", String, nullable=False),
    Column("created_at", String, nullable=False),
)

experiment_versions = Table(
    "experiment_versions",
    metadata,
    Column("id", String, primary_key=True),
    Column("experiment_id", String, nullable=False),
    Column("number", Integer, nullable=False),
    Column("dataset_id", String, nullable=False),
    Column("dataset_version_id", String, nullable=False),
    Column("body", LargeBinary, nullable=False),
    UniqueConstraint("experiment_id", "number"),
)

experiment_runs = Table(
    "experiment_runs",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("experiment_id", String, nullable=False, index=True),
    Column("experiment_version_id", String, nullable=False),
    Column("dataset_version_id", String, nullable=False),
    Column("deployment_id", String),
    Column("name", String, index=True),
    Column("state", String, nullable=False),
    Column("reason", Text),
    Column("repetitions", Integer, nullable=False),
    Column("concurrency", Integer, nullable=False),
    Column("budget_usd", Float),
    Column("items", Integer, nullable=False),
    Column("created_at", String, nullable=False),
    Column("started_at", String),
    Column("ended_at", String),
    Column("heartbeat_at", String),
    Column("worker", String),
    Column("cancelling", Boolean, nullable=False, server_default=false()),
    Column("archived", Boolean, nullable=False, server_default=false()),
    Column("revision", Integer, nullable=False, server_default=text("0")),
    Column("gate_key", String),
    Column("gate_passed", Boolean),
)
"""`gate_passed` holds where `gate_key` is what the gate rests on now."""


def _texts_of(table: str, *columns: str) -> list[Index]:
    """So that texts nobody refers to are found."""
    there = {column: text(f"{column} IS NOT NULL") for column in columns}
    return [
        Index(f"{table}_by_{column}", column, sqlite_where=where, postgresql_where=where)
        for column, where in there.items()
    ]


run_items = Table(
    "run_items",
    metadata,
    Column("id", String, primary_key=True),
    Column("run_id", String, nullable=False),
    Column("number", Integer, nullable=False),
    Column("repetition", Integer, nullable=False),
    Column("item_key", String, nullable=False),
    Column("status", String, nullable=False),
    Column("verdict", String, nullable=False),
    Column("error", Text),
    Column("duration_ms", Float, nullable=False),
    Column("usage", JSON_OR_NULL),
    Column("cost_usd", Float, nullable=False),
    Column("model", String),
    Column("output", String),
    Column("transcript", String),
    Column("state", String),
    Column("log", String),
    Column("created_at", String, nullable=False),
    UniqueConstraint("run_id", "number", "repetition"),
    *_texts_of("run_items", "output", "transcript", "state", "log"),
)
"""One row for each try that is done. `output`, `transcript`, `state` and `log` name texts; null where there is none."""

scores = Table(
    "scores",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("run_id", String, nullable=False),
    Column("run_item_id", String, nullable=False, index=True),
    Column("item_key", String, nullable=False),
    Column("repetition", Integer, nullable=False),
    Column("scorer", String, nullable=False),
    Column("scorer_version_id", String, nullable=False),
    Column("required", Boolean, nullable=False),
    Column("status", String, nullable=False),
    Column("value", Float),
    Column("passed", Boolean),
    Column("label", String),
    Column("explanation", Text, nullable=False),
    Column("error_type", String),
    Column("cost_usd", Float, nullable=False),
    Column("supersedes", String),
    Column("current", Boolean, nullable=False),
    Column("reason", Text),
    Column("created_at", String, nullable=False),
    Column("input", String),
    Column("output", String),
    Column("evidence", String),
    Column("metadata_json", JSON_TEXT, nullable=False),
    Index("scores_of_run", "run_id", "current"),
    *_texts_of("scores", "input", "output", "evidence"),
)
"""`input`, `output` and `evidence` name texts. A trigger refuses every change but of `current`."""
