"""Store replays by their content, and what they prove about a failure. Never edited: add a revision instead."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.create_table(
        "replays",
        sa.Column("key", sa.String, primary_key=True),
        sa.Column("attempt", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "proofs",
        sa.Column("run_id", sa.String, primary_key=True),
        sa.Column("eval_id", sa.String, primary_key=True),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
