"""When an old copy was put back as the store, and since when what it forgot is being matched."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("meta", sa.Column("restored_at_ms", sa.Integer(), nullable=True))
    op.add_column("meta", sa.Column("matching_since_ms", sa.Integer(), nullable=True))
