"""Where the machine of each deployment stands: what failed twice in one place is not asked for there again at once."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.add_column("deployments", sa.Column("place", sa.String(), nullable=True))
