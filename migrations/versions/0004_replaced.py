"""Which deployment replaces which: a slot may hold one more while it is being replaced."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

LIVE = "phase IN ('declared', 'requested', 'active', 'uncertain', 'stop-required')"


def upgrade() -> None:
    op.add_column("deployments", sa.Column("replaces", sa.String(), nullable=False, server_default=""))
    op.add_column("deployments", sa.Column("restart_asked_at_ms", sa.Integer(), nullable=True))
    op.add_column("deployments", sa.Column("proven_at_ms", sa.Integer(), nullable=True))
    op.drop_index("one_live_a_slot", table_name="deployments")
    op.create_index(
        "one_live_a_slot", "deployments", ["model", "slot", "replaces"], unique=True, sqlite_where=sa.text(LIVE)
    )
