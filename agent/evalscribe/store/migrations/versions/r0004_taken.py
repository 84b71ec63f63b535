"""Which answers of batches were taken, and so counted. Never edited: add a revision instead."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.add_column("batch_items", sa.Column("taken", sa.Boolean, nullable=False, server_default=sa.false()))
