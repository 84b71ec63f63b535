"""Batches that were sent or are about to be, and what they answered. Never edited: add a revision instead."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "batch_intents",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("created", sa.String, nullable=False),
        sa.Column("batch_id", sa.String),
    )
    op.create_table(
        "batch_items",
        sa.Column("key", sa.String, primary_key=True),
        sa.Column("intent_id", sa.String, nullable=False),
        sa.Column("body", sa.LargeBinary),
        sa.Column("taken", sa.Boolean, nullable=False, server_default=sa.false()),
    )
    op.create_index("ix_batch_items_intent_id", "batch_items", ["intent_id"])
