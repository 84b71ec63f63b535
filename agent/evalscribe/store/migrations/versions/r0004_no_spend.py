"""What was spent on a run was added up and never read. Never edited: add a revision instead."""

from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.drop_table("spend")
