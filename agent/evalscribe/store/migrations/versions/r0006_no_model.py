"""Whom an intent asks is part of its questions' keys. Never edited: add a revision instead."""

from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.drop_column("batch_intents", "model")
