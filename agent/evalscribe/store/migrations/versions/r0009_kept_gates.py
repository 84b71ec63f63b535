"""The verdict of a run's gate is kept, with what it rests on. Never edited: add a revision instead."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.add_column("experiment_runs", sa.Column("revision", sa.Integer, nullable=False, server_default=sa.text("0")))
    op.add_column("experiment_runs", sa.Column("gate_key", sa.String))
    op.add_column("experiment_runs", sa.Column("gate_passed", sa.Boolean))
