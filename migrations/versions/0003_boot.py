"""Which boot the high-water mark was written in, and at what boot time: a restart within it needs no other witness."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column("meta", sa.Column("mark_boot_id", sa.String(), nullable=True))
    op.add_column("meta", sa.Column("mark_boot_ms", sa.Integer(), nullable=True))
    op.add_column("meta", sa.Column("mark_settled", sa.Boolean(), nullable=True))
