"""Until when somebody who was told to come back for a model's start may do so."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.add_column("memories", sa.Column("expected_until_ms", sa.Integer(), nullable=True))
