"""What a machine's log said of its cards: whether they are in one machine, and by what they reach each other."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.add_column("container_starts", sa.Column("topology", sa.Text(), nullable=True))
