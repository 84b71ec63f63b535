"""Failures as models have them in common, labels of people, proposed changes. Never edited: add a revision."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.create_table(
        "sightings",
        sa.Column("run_id", sa.String, primary_key=True),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "labels",
        sa.Column("run_id", sa.String, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "proposals",
        sa.Column("key", sa.String, primary_key=True),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
