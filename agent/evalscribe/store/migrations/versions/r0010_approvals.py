"""Store which patch a person was asked to approve. Never edited: add a revision instead."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.create_table(
        "approvals",
        sa.Column("run_id", sa.String, primary_key=True),
        sa.Column("recommendation", sa.String, primary_key=True),
        sa.Column("patch", sa.String, nullable=False),
    )
