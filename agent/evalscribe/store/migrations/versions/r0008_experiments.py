"""Datasets, experiments, their runs and scores; versions and scores never change. Never edited: add a revision."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0008"
down_revision = "0007"

_JSON = sa.JSON().with_variant(JSONB(), "postgresql")
_JSON_OR_NULL = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
_NEVER_CHANGE = (
    "dataset_versions",
    "version_items",
    "deployments",
    "prompt_versions",
    "scorer_versions",
    "experiment_versions",
)
_KEPT = "what is here never changes and is never deleted: a new version is made instead"
_SCORES = "scores never change and are never deleted: a new one supersedes them"
_SCORE = (
    *("number", "id", "run_id", "run_item_id", "item_key", "repetition", "scorer", "scorer_version_id", "required"),
    *("status", "value", "passed", "label", "explanation", "error_type", "cost_usd", "supersedes", "reason"),
    *("created_at", "input", "output", "evidence", "metadata_json"),
)

_TEXTS = {"run_items": ("output", "transcript", "state", "log"), "scores": ("input", "output", "evidence")}


def upgrade() -> None:
    _datasets()
    _definitions()
    _experiments()
    _runs()
    _scores()
    for table, columns in _TEXTS.items():
        for column in columns:
            there = sa.text(f"{column} IS NOT NULL")
            op.create_index(f"{table}_by_{column}", table, [column], sqlite_where=there, postgresql_where=there)
    if op.get_bind().dialect.name == "sqlite":
        _keep_on_sqlite()
    else:
        _keep_on_postgres()


def _datasets() -> None:
    op.create_table(
        "datasets",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("id", sa.String, nullable=False, unique=True),
        sa.Column("name", sa.String, nullable=False, unique=True),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("created_at", sa.String, nullable=False),
    )
    op.create_table(
        "draft_items",
        sa.Column("dataset_id", sa.String, primary_key=True),
        sa.Column("item_key", sa.String, primary_key=True),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("digest", sa.String, nullable=False),
        sa.Column("likeness", sa.String, nullable=False),
        sa.Column("content", sa.String, nullable=False),
        sa.Column("source", _JSON, nullable=False),
    )
    op.create_index("ix_draft_items_digest", "draft_items", ["digest"])
    op.create_index("draft_items_in_order", "draft_items", ["dataset_id", "number"])
    op.create_table(
        "dataset_versions",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("dataset_id", sa.String, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("items", sa.Integer, nullable=False),
        sa.Column("provenance", sa.String, nullable=False),
        sa.Column("parent_run_id", sa.String),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("created_at", sa.String, nullable=False),
        sa.UniqueConstraint("dataset_id", "number"),
    )
    op.create_table(
        "version_items",
        sa.Column("version_id", sa.String, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("item_key", sa.String, nullable=False),
        sa.Column("digest", sa.String, nullable=False),
        sa.Column("likeness", sa.String, nullable=False),
        sa.Column("content", sa.String, nullable=False),
        sa.Column("source", _JSON, nullable=False),
        sa.UniqueConstraint("version_id", "item_key"),
    )
    op.create_index("ix_version_items_digest", "version_items", ["digest"])


def _definitions() -> None:
    op.create_table(
        "deployments",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("id", sa.String, nullable=False, unique=True),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    for table, versions, key in (
        ("target_prompts", "prompt_versions", "prompt_id"),
        ("scorers", "scorer_versions", "scorer_id"),
    ):
        op.create_table(
            table,
            sa.Column("number", sa.Integer, primary_key=True),
            sa.Column("id", sa.String, nullable=False, unique=True),
            sa.Column("name", sa.String, nullable=False, unique=True),
            sa.Column("created_at", sa.String, nullable=False),
        )
        op.create_table(
            versions,
            sa.Column(key, sa.String, primary_key=True),
            sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
            sa.Column("id", sa.String, nullable=False),
            sa.Column("body", sa.LargeBinary, nullable=False),
        )


def _experiments() -> None:
    op.create_table(
        "experiments",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("id", sa.String, nullable=False, unique=True),
        sa.Column("name", sa.String, nullable=False, unique=True),
        sa.Column("type", sa.String, nullable=False),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("collection_id", sa.String, nullable=False),
        sa.Column("latest_version_id", sa.String, nullable=False),
        sa.Column("created_at", sa.String, nullable=False),
    )
    op.create_table(
        "experiment_versions",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("experiment_id", sa.String, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("dataset_id", sa.String, nullable=False),
        sa.Column("dataset_version_id", sa.String, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.UniqueConstraint("experiment_id", "number"),
    )


def _runs() -> None:
    op.create_table(
        "experiment_runs",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("id", sa.String, nullable=False, unique=True),
        sa.Column("experiment_id", sa.String, nullable=False),
        sa.Column("experiment_version_id", sa.String, nullable=False),
        sa.Column("dataset_version_id", sa.String, nullable=False),
        sa.Column("deployment_id", sa.String),
        sa.Column("name", sa.String),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("repetitions", sa.Integer, nullable=False),
        sa.Column("concurrency", sa.Integer, nullable=False),
        sa.Column("budget_usd", sa.Float),
        sa.Column("items", sa.Integer, nullable=False),
        sa.Column("created_at", sa.String, nullable=False),
        sa.Column("started_at", sa.String),
        sa.Column("ended_at", sa.String),
        sa.Column("heartbeat_at", sa.String),
        sa.Column("worker", sa.String),
        sa.Column("cancelling", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("archived", sa.Boolean, nullable=False, server_default=sa.false()),
    )
    op.create_index("ix_experiment_runs_experiment_id", "experiment_runs", ["experiment_id"])
    op.create_index("ix_experiment_runs_name", "experiment_runs", ["name"])
    op.create_table(
        "run_items",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("run_id", sa.String, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("repetition", sa.Integer, nullable=False),
        sa.Column("item_key", sa.String, nullable=False),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("verdict", sa.String, nullable=False),
        sa.Column("error", sa.Text),
        sa.Column("duration_ms", sa.Float, nullable=False),
        sa.Column("usage", _JSON_OR_NULL),
        sa.Column("cost_usd", sa.Float, nullable=False),
        sa.Column("model", sa.String),
        sa.Column("output", sa.String),
        sa.Column("transcript", sa.String),
        sa.Column("state", sa.String),
        sa.Column("log", sa.String),
        sa.Column("created_at", sa.String, nullable=False),
        sa.UniqueConstraint("run_id", "number", "repetition"),
    )


def _scores() -> None:
    op.create_table(
        "scores",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("id", sa.String, nullable=False, unique=True),
        sa.Column("run_id", sa.String, nullable=False),
        sa.Column("run_item_id", sa.String, nullable=False),
        sa.Column("item_key", sa.String, nullable=False),
        sa.Column("repetition", sa.Integer, nullable=False),
        sa.Column("scorer", sa.String, nullable=False),
        sa.Column("scorer_version_id", sa.String, nullable=False),
        sa.Column("required", sa.Boolean, nullable=False),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("value", sa.Float),
        sa.Column("passed", sa.Boolean),
        sa.Column("label", sa.String),
        sa.Column("explanation", sa.Text, nullable=False),
        sa.Column("error_type", sa.String),
        sa.Column("cost_usd", sa.Float, nullable=False),
        sa.Column("supersedes", sa.String),
        sa.Column("current", sa.Boolean, nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("created_at", sa.String, nullable=False),
        sa.Column("input", sa.String),
        sa.Column("output", sa.String),
        sa.Column("evidence", sa.String),
        sa.Column("metadata_json", _JSON, nullable=False),
    )
    op.create_index("ix_scores_run_item_id", "scores", ["run_item_id"])
    op.create_index("scores_of_run", "scores", ["run_id", "current"])


def _keep_on_sqlite() -> None:
    for table, changes, words in (
        *((table, "UPDATE", _KEPT) for table in _NEVER_CHANGE),
        *((table, "DELETE", _KEPT) for table in _NEVER_CHANGE),
        ("scores", f"UPDATE OF {', '.join(_SCORE)}", _SCORES),
        ("scores", "DELETE", _SCORES),
    ):
        name = f"{table}_{changes.split()[0].lower()}"
        op.execute(f"CREATE TRIGGER {name} BEFORE {changes} ON {table} BEGIN SELECT RAISE(ABORT, '{words}'); END")


def _keep_on_postgres() -> None:
    _refusing("evalscribe_kept", "true", _KEPT)
    # Compared whole: a trigger that names a column keeps it from getting another collation.
    changed = "TG_OP = 'DELETE' OR to_jsonb(NEW) - 'current' IS DISTINCT FROM to_jsonb(OLD) - 'current'"
    _refusing("evalscribe_scores_kept", changed, _SCORES)
    for table in (*_NEVER_CHANGE, "scores"):
        function = "evalscribe_scores_kept" if table == "scores" else "evalscribe_kept"
        op.execute(
            f"CREATE TRIGGER {table}_kept BEFORE UPDATE OR DELETE ON {table} FOR EACH ROW EXECUTE FUNCTION {function}()"
        )


def _refusing(function: str, when: str, words: str) -> None:
    op.execute(
        f"CREATE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS $$ "
        f"BEGIN IF {when} THEN RAISE EXCEPTION '{words}'; END IF; RETURN NEW; END $$"
    )
