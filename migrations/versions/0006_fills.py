"""Which deployment is there to fill a volume, and in which place."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.add_column("deployments", sa.Column("fills", sa.String(), nullable=True))
