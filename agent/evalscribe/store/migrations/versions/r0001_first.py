"""Runs, evidence, verdicts by content key, spend, reports as last written. Never edited: add a revision instead."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "runs",
        sa.Column("run_id", sa.String, primary_key=True),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "evidence",
        sa.Column("run_id", sa.String, primary_key=True),
        sa.Column("eval_id", sa.String, primary_key=True),
        sa.Column("digest", sa.String),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "verdicts",
        sa.Column("key", sa.String, primary_key=True),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "spend",
        sa.Column("run_id", sa.String, primary_key=True),
        sa.Column("calls", sa.Integer, nullable=False),
        sa.Column("input_tokens", sa.Integer, nullable=False),
        sa.Column("output_tokens", sa.Integer, nullable=False),
        sa.Column("cache_read_tokens", sa.Integer, nullable=False),
        sa.Column("cache_write_tokens", sa.Integer, nullable=False),
        sa.Column("cost_usd", sa.Float, nullable=False),
    )
    op.create_table(
        "reports",
        sa.Column("run_id", sa.String, primary_key=True),
        sa.Column("path", sa.String, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
