"""What was said of runs: by judges, by people, by models that were asked; and what is asked still."""

from sqlalchemy import Boolean, Column, Float, Integer, LargeBinary, String, Table, Text, UniqueConstraint, false

from evalscribe.store.tables.base import JSON_OR_NULL, JSON_TEXT, metadata

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
"""What the last report of a run says, one row for each failed eval; `finding_json` has all of it."""

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
    Column("eval", String, nullable=False),
    Column("label", String),
    Column("reviewer", String),
    Column("label_json", JSON_TEXT, nullable=False),
)
"""What people said of a run's failures, as git tells it; `label_json` has all of it."""

proposals = Table(
    "proposals",
    metadata,
    Column("key", String, primary_key=True),
    Column("body", LargeBinary, nullable=False),
)
"""Changes that models proposed, by what they were asked."""

approvals = Table(
    "approvals",
    metadata,
    Column("run_id", String, primary_key=True),
    Column("recommendation", String, primary_key=True),
    Column("patch", String, nullable=False),
)
"""Patches that were shown to a person who has not answered yet: one for each recommendation, by its digest."""

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
"""What was asked and what became of it: neither output nor error while it waits. `key` is the content id of the whole
question, once it was asked; `created_at` in ISO 8601, UTC."""
