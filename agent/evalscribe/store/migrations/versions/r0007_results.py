"""What models answered to requests. Never edited: add a revision instead."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0007"
down_revision = "0006"

_JSON = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")


def upgrade() -> None:
    op.create_table(
        "result_sets",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("collection_id", sa.String, nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("output_schema", _JSON),
        sa.Column("created_at", sa.String, nullable=False),
        sa.UniqueConstraint("collection_id", "name"),
    )
    op.create_table(
        "results",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("result_set_id", sa.String, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("request", sa.String, nullable=False),
        sa.Column("prompt", _JSON, nullable=False),
        sa.Column("user_metadata", _JSON, nullable=False),
        sa.Column("model", sa.String, nullable=False),
        sa.Column("effort", sa.String),
        sa.Column("key", sa.String),
        sa.Column("output", _JSON),
        sa.Column("error", sa.Text),
        sa.Column("final", sa.Boolean, nullable=False),
        sa.Column("input_tokens", sa.Integer, nullable=False),
        sa.Column("output_tokens", sa.Integer, nullable=False),
        sa.Column("cost_usd", sa.Float, nullable=False),
        sa.Column("created_at", sa.String, nullable=False),
        sa.UniqueConstraint("result_set_id", "number"),
    )
    op.create_index("ix_results_key", "results", ["key"])
