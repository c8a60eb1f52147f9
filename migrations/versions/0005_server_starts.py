"""When a model server says that its process began, and what its log said that it died of."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.add_column("container_starts", sa.Column("server_ms", sa.Integer(), nullable=True))
    op.add_column("container_starts", sa.Column("server_within_ms", sa.Integer(), nullable=True))
    op.add_column(
        "container_starts", sa.Column("server_alone", sa.Boolean(), nullable=False, server_default=sa.text("0"))
    )
    op.add_column("container_starts", sa.Column("cause", sa.String(), nullable=True))
