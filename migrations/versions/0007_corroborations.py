"""Which ends did the bill bear out after they were proven?"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.create_table(
        "corroborations",
        sa.Column("resource", sa.Text(), primary_key=True),
        sa.Column("ended_at_ms", sa.Integer(), nullable=False),
        sa.Column("evidence", sa.Text(), nullable=False),
    )
