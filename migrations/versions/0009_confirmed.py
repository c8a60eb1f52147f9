"""Which config an operator said may stop everything that runs, and when."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.add_column("meta", sa.Column("confirmed_config", sa.String(), nullable=True))
    op.add_column("meta", sa.Column("confirmed_at_ms", sa.Integer(), nullable=True))
