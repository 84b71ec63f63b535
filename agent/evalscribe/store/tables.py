"""Define the tables of the newest database revision. The scripts in `migrations/versions` describe older revisions."""

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

HEAD = "0013"
"""Newest revision of the database. A test compares this number with the migration scripts."""

metadata = MetaData()
JSON_TEXT = JSON().with_variant(JSONB(), "postgresql")
"""Type of the JSON columns that users can query with SQL. It is `jsonb` on Postgres and text on SQLite."""

JSON_OR_NULL = JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
"""Type of JSON columns that store a missing value as NULL in SQL instead of as the JSON value null."""

revisions = Table("alembic_version", MetaData(), Column("version_num", String, primary_key=True))


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
"""`body` is the run as its source described it, without its failures. The failures are rows of `evals`.

`recorded` is the number of imported evals. Until all evals are imported, `passed`, `failed` and `total` are
the source's counts. After that, these columns are the counts of the imported evals.
"""

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
"""`number` preserves the order of the source. `digest` is null if the source listed the eval as a failure but the
eval was not imported."""

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
"""Steps of imported evals. The steps of a failure that was not imported are stored in its evidence."""

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
"""Documents of an eval.

Imported documents are numbered from 0. Documents gathered as evidence have negative numbers; the last document is
number -1.
"""

texts = Table(
    "texts",
    metadata,
    Column("digest", String, primary_key=True),
    Column("body", LargeBinary, nullable=False),
)
"""Texts by content id. Equal texts are stored once."""

collection_runs = Table(
    "collection_runs",
    metadata,
    Column("collection_id", String, primary_key=True),
    Column("run_id", String, primary_key=True),
    Column("number", Integer, nullable=False),
)
"""The runs of a collection, in the order in which they were added."""

evidence = Table(
    "evidence",
    metadata,
    Column("run_id", String, primary_key=True),
    Column("eval_id", String, primary_key=True),
    Column("digest", String),
    Column("body", LargeBinary, nullable=False),
)
"""`body` is the evidence without its documents, which are rows of `documents`.

If the evidence is unreadable, `digest` is null and `body` is the reason.
"""

collections = Table(
    "collections",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("name", String, nullable=False),
)
"""`number` is the position of the collection in the order of creation."""


findings = Table(
    "findings",
    metadata,
    Column("run_id", String, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("eval_id", String),
    Column("path", String, nullable=False),
    Column("step", String),
    Column("classification", String),
    Column("cause", String),
    Column("cause_kind", String),
    Column("confidence", Float),
    Column("uncertain", Boolean),
    Column("judge", String),
    Column("error", Text),
    Column("reasoning", Text),
    Column("recurrence", String),
    Column("finding_json", JSON_TEXT, nullable=False),
)
"""Findings of a run's latest report, one row for each failed eval. `finding_json` is the whole finding."""

verdicts = Table(
    "verdicts",
    metadata,
    Column("key", String, primary_key=True),
    Column("kind", String, nullable=False),
    Column("body", LargeBinary, nullable=False),
)

replays = Table(
    "replays",
    metadata,
    Column("key", String, primary_key=True),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    Column("body", LargeBinary, nullable=False),
)
"""`key` is the content id of the grader, the answer and the command. Attempts are numbered from 1."""

proofs = Table(
    "proofs",
    metadata,
    Column("run_id", String, primary_key=True),
    Column("eval_id", String, primary_key=True),
    Column("body", LargeBinary, nullable=False),
)

running_analyses = Table(
    "running_analyses",
    metadata,
    Column("run_id", String, primary_key=True),
    Column("body", LargeBinary, nullable=False),
)
"""Analyses that have not written their report. An analysis is still running if its run is locked; otherwise it was
interrupted."""

judged_groups = Table(
    "judged_groups",
    metadata,
    Column("run_id", String, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("body", LargeBinary, nullable=False),
)
"""Findings of running analyses. In each analysis, the findings are numbered from 1 in the order of their verdicts.
`body` is a `Finding`."""

reports = Table(
    "reports",
    metadata,
    Column("run_id", String, primary_key=True),
    Column("path", String, nullable=False),
    Column("text", Text, nullable=False),
)

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
    Column("agent_run_id", String, nullable=False, index=True),
    Column("rubric_id", String, nullable=False),
    Column("rubric_version", Integer, nullable=False),
    Column("judge", String, nullable=False),
    Column("output", JSON_TEXT, nullable=False),
    Column("reason", Text),
    Column("confidence", Float),
    Column("cost_usd", Float, nullable=False),
    Column("body", LargeBinary, nullable=False),
)
"""`kind` is the type of the result. A write first compares the old and the new `kind`, so that a failure never
replaces a result that was paid for."""

batch_intents = Table(
    "batch_intents",
    metadata,
    Column("id", String, primary_key=True),
    Column("created", String, nullable=False),
    Column("batch_id", String),
)
"""`created` is a time in ISO 8601 with its time zone. `batch_id` is null until the provider has accepted the batch."""

batch_items = Table(
    "batch_items",
    metadata,
    Column("key", String, primary_key=True),
    Column("intent_id", String, nullable=False, index=True),
    Column("body", LargeBinary),
    Column("taken", Boolean, nullable=False, server_default=false()),
)
"""`body` is the answer, or null until the batch ends. `taken` is true once the answer has been used and its cost has
been counted."""

sightings = Table(
    "sightings",
    metadata,
    Column("run_id", String, primary_key=True),
    Column("body", LargeBinary, nullable=False),
)
"""`body` contains the fingerprints of all failures of a run. The fingerprints are used to find the same failures in
runs of other models.

A run's fingerprints are always read together. Reading one row is ten times as fast as reading ten thousand rows.
"""

labels = Table(
    "labels",
    metadata,
    Column("run_id", String, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("eval", String, nullable=False),
    Column("label", String),
    Column("reviewer", String),
    Column("label_json", JSON_TEXT, nullable=False),
)
"""Human labels of a run's failures, as read from git. `label_json` is the whole label."""

proposals = Table(
    "proposals",
    metadata,
    Column("key", String, primary_key=True),
    Column("body", LargeBinary, nullable=False),
)
"""Changes that models have proposed. `key` is the content id of the request to the model."""

approvals = Table(
    "approvals",
    metadata,
    Column("run_id", String, primary_key=True),
    Column("recommendation", String, primary_key=True),
    Column("patch", String, nullable=False),
)
"""Patches waiting for a person's approval, at most one for each recommendation. `patch` is the digest of the patch."""

result_sets = Table(
    "result_sets",
    metadata,
    Column("id", String, primary_key=True),
    Column("collection_id", String, nullable=False),
    Column("name", String, nullable=False),
    Column("output_schema", JSON_OR_NULL),
    Column("created_at", String, nullable=False),
    UniqueConstraint("collection_id", "name"),
)

results = Table(
    "results",
    metadata,
    Column("id", String, primary_key=True),
    Column("result_set_id", String, nullable=False),
    Column("number", Integer, nullable=False),
    Column("request", String, nullable=False),
    Column("prompt", JSON_TEXT, nullable=False),
    Column("user_metadata", JSON_TEXT, nullable=False),
    Column("model", String, nullable=False),
    Column("effort", String),
    Column("key", String, index=True),
    Column("output", JSON_OR_NULL),
    Column("error", Text),
    Column("final", Boolean, nullable=False),
    Column("input_tokens", Integer, nullable=False),
    Column("output_tokens", Integer, nullable=False),
    Column("cost_usd", Float, nullable=False),
    Column("created_at", String, nullable=False),
    UniqueConstraint("result_set_id", "number"),
)
"""One row for each request, with its output or its error. Output and error are null while the request is pending.

`key` is the content id of the whole question and is set when the request is sent. `created_at` is a time in ISO 8601,
UTC.
"""


datasets = Table(
    "datasets",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("name", String, nullable=False, unique=True),
    Column("description", Text, nullable=False),
    Column("created_at", String, nullable=False),
)
"""The times in this table and all tables below are in ISO 8601, UTC."""

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
"""Items of drafts. They can change, unlike items of versions.

`digest` refers to the row of `texts` that contains the item without its source. `likeness` is the content id of the
item's input and expected output. `content` is the content id of the whole item without its source.
"""

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
"""Triggers refuse changes of rows in this table and in `version_items`, `deployments`, `prompt_versions`,
`scorer_versions` and `experiment_versions`. A row can be deleted only after the object that the row belongs to."""

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
"""`gate_passed` is valid if `gate_key` matches the current inputs of the gate."""


def _texts_of(table: str, *columns: str) -> list[Index]:
    """Return indexes on columns that refer to texts. The indexes speed up the search for unused texts."""
    conditions = {column: text(f"{column} IS NOT NULL") for column in columns}
    return [
        Index(f"{table}_by_{column}", column, sqlite_where=where, postgresql_where=where)
        for column, where in conditions.items()
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
"""One row for each finished trial. `output`, `transcript`, `state` and `log` are null or the digest of a text."""

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
"""`input`, `output` and `evidence` are the digests of texts. A trigger allows changes only in the column `current`. A
score can be deleted only after its run."""
