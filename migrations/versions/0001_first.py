"""The first schema: identity, deployments with their creates and obligations, leases, memory, money and evidence."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    _alarms()
    _claims()
    _container_starts()
    _deployments()
    _evidence()
    _leases()
    _memories()
    _meta()
    _reservations()
    _sightings()
    _creates()
    _obligations()


def _alarms() -> None:
    op.create_table(
        "alarms",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("since_ms", sa.Integer(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", "subject"),
    )


def _claims() -> None:
    op.create_table(
        "claims",
        sa.Column("installation", sa.String(), nullable=False),
        sa.Column("at_ms", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("installation"),
    )


def _container_starts() -> None:
    op.create_table(
        "container_starts",
        sa.Column("deployment", sa.String(), nullable=False),
        sa.Column("latest_ms", sa.Integer(), nullable=True),
        sa.Column("restarts", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("deployment"),
    )


def _deployments() -> None:
    op.create_table(
        "deployments",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("provider", sa.String(), nullable=False),
        sa.Column("account", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("slot", sa.Integer(), nullable=False),
        sa.Column("image", sa.String(), nullable=False),
        sa.Column("resource_name", sa.String(), nullable=False),
        sa.Column("requested_lifetime_ms", sa.Integer(), nullable=False),
        sa.Column("fingerprint", sa.String(), nullable=False),
        sa.Column("phase", sa.String(), nullable=False),
        sa.Column("declared_at_ms", sa.Integer(), nullable=False),
        sa.Column("started_at_ms", sa.Integer(), nullable=True),
        sa.Column("resource", sa.Text(), nullable=True),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("reason", sa.String(), nullable=True),
        sa.Column("stop_required_at_ms", sa.Integer(), nullable=True),
        sa.Column("drain_until_ms", sa.Integer(), nullable=True),
        sa.Column("ready_at_ms", sa.Integer(), nullable=True),
        sa.Column("unready_since_ms", sa.Integer(), nullable=True),
        sa.Column("last_byte_at_ms", sa.Integer(), nullable=True),
        sa.Column("ended_at_ms", sa.Integer(), nullable=True),
        sa.Column("evidence", sa.Text(), nullable=True),
        sa.Column("usd_micros_per_hour", sa.Integer(), nullable=True),
        sa.Column("offer", sa.String(), nullable=True),
        sa.Column("observed_state", sa.String(), nullable=True),
        sa.Column("observed_ready", sa.Boolean(), nullable=True),
        sa.Column("observed_endpoint", sa.String(), nullable=True),
        sa.Column("observed_served_model", sa.String(), nullable=True),
        sa.Column("observed_at_ms", sa.Integer(), nullable=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.CheckConstraint(
            "phase IN ('declared', 'requested', 'active', 'uncertain', 'stop-required', "
            "'stopped', 'cancelled', 'disowned')",
            name="phase_known",
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "one_live_a_slot",
        "deployments",
        ["model", "slot"],
        unique=True,
        sqlite_where=sa.text("phase IN ('declared', 'requested', 'active', 'uncertain', 'stop-required')"),
    )


def _evidence() -> None:
    op.create_table(
        "evidence",
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("at_ms", sa.Integer(), nullable=False),
        sa.Column("event", sa.String(), nullable=False),
        sa.Column("line", sa.Text(), nullable=False),
        sa.Column("hash", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("seq"),
    )


def _leases() -> None:
    op.create_table(
        "leases",
        sa.Column("deployment", sa.String(), nullable=False),
        sa.Column("holder", sa.String(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("expires_at_ms", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("deployment"),
        sa.UniqueConstraint("epoch"),
    )


def _memories() -> None:
    op.create_table(
        "memories",
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("hold_reason", sa.String(), nullable=True),
        sa.Column("hold_until_ms", sa.Integer(), nullable=True),
        sa.Column("hold_fingerprint", sa.String(), nullable=True),
        sa.Column("rounds", sa.Integer(), nullable=False),
        sa.Column("next_round_at_ms", sa.Integer(), nullable=True),
        sa.Column("round_detail", sa.Text(), nullable=True),
        sa.Column("cold_start_ms", sa.Integer(), nullable=True),
        sa.Column("failure", sa.Text(), nullable=True),
        sa.Column("starts", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("model"),
    )


def _meta() -> None:
    op.create_table(
        "meta",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("installation", sa.String(), nullable=False),
        sa.Column("provider", sa.String(), nullable=False),
        sa.Column("account", sa.String(), nullable=False),
        sa.Column("made_at_ms", sa.Integer(), nullable=False),
        sa.Column("epoch_latest", sa.Integer(), nullable=False),
        sa.Column("mark_ms", sa.Integer(), nullable=True),
        sa.Column("key_digest", sa.String(), nullable=True),
        sa.Column("account_trusted", sa.Boolean(), nullable=False),
        sa.Column("account_why", sa.Text(), nullable=True),
        sa.Column("accepted_config", sa.Text(), nullable=True),
        sa.CheckConstraint("id = 1", name="one_row"),
        sa.PrimaryKeyConstraint("id"),
    )


def _reservations() -> None:
    op.create_table(
        "reservations",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("deployment", sa.String(), nullable=False),
        sa.Column("day", sa.String(), nullable=False),
        sa.Column("hold", sa.String(), nullable=False),
        sa.Column("ceiling_usd_micros_per_hour", sa.Integer(), nullable=False),
        sa.Column("reserved_usd_micros", sa.Integer(), nullable=False),
        sa.Column("opened_at_ms", sa.Integer(), nullable=False),
        sa.Column("begun_at_ms", sa.Integer(), nullable=True),
        sa.Column("settled_usd_micros", sa.Integer(), nullable=True),
        sa.Column("evidence_reference", sa.Text(), nullable=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.CheckConstraint(
            "hold IN ('reserved', 'started', 'uncertain', 'stop-required', 'stopped', 'settled', 'cancelled')",
            name="hold_known",
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_reservations_day"), "reservations", ["day"], unique=False)
    op.create_index(op.f("ix_reservations_deployment"), "reservations", ["deployment"], unique=False)
    op.create_index("one_reservation_a_day", "reservations", ["deployment", "day"], unique=True)


def _sightings() -> None:
    op.create_table(
        "sightings",
        sa.Column("resource", sa.String(), nullable=False),
        sa.Column("whose", sa.String(), nullable=False),
        sa.Column("installation", sa.String(), nullable=True),
        sa.Column("first_at_ms", sa.Integer(), nullable=False),
        sa.Column("last_at_ms", sa.Integer(), nullable=False),
        sa.Column("times", sa.Integer(), nullable=False),
        sa.Column("created_at_ms", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("resource"),
    )


def _creates() -> None:
    op.create_table(
        "creates",
        sa.Column("request", sa.String(), nullable=False),
        sa.Column("deployment", sa.String(), nullable=False),
        sa.Column("offer", sa.String(), nullable=False),
        sa.Column("submitting_at_ms", sa.Integer(), nullable=True),
        sa.Column("ended_at_ms", sa.Integer(), nullable=True),
        sa.Column("answer", sa.String(), nullable=True),
        sa.Column("resource", sa.Text(), nullable=True),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["deployment"],
            ["deployments.id"],
        ),
        sa.PrimaryKeyConstraint("request"),
    )
    op.create_index(op.f("ix_creates_deployment"), "creates", ["deployment"], unique=False)


def _obligations() -> None:
    op.create_table(
        "obligations",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("opened_at_ms", sa.Integer(), nullable=False),
        sa.Column("deployment", sa.String(), nullable=True),
        sa.Column("model", sa.String(), nullable=True),
        sa.Column("slot", sa.Integer(), nullable=True),
        sa.Column("request", sa.String(), nullable=True),
        sa.Column("resource", sa.Text(), nullable=True),
        sa.Column("create_ended_at_ms", sa.Integer(), nullable=True),
        sa.Column("seen_at_ms", sa.Integer(), nullable=True),
        sa.Column("due_at_ms", sa.Integer(), nullable=True),
        sa.Column("reason", sa.String(), nullable=True),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("stop_attempts", sa.Integer(), nullable=False),
        sa.Column("stop_submitted_at_ms", sa.Integer(), nullable=True),
        sa.Column("stop_ended_at_ms", sa.Integer(), nullable=True),
        sa.Column("stop_answer", sa.String(), nullable=True),
        sa.Column("stop_reference", sa.Text(), nullable=True),
        sa.Column("stop_not_before_ms", sa.Integer(), nullable=True),
        sa.Column("ended_at_ms", sa.Integer(), nullable=True),
        sa.Column("ending", sa.String(), nullable=True),
        sa.Column("evidence", sa.Text(), nullable=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.CheckConstraint("ending IN ('discharged', 'transferred', 'void')", name="ending_known"),
        sa.CheckConstraint(
            "ending IS NULL OR ending <> 'discharged' OR evidence IS NOT NULL", name="discharged_by_evidence"
        ),
        sa.CheckConstraint("(ended_at_ms IS NULL) = (ending IS NULL)", name="ended_with_an_ending"),
        sa.ForeignKeyConstraint(
            ["deployment"],
            ["deployments.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_obligations_deployment"), "obligations", ["deployment"], unique=False)
    op.create_index(
        "one_open_a_resource", "obligations", ["resource"], unique=True, sqlite_where=sa.text("ended_at_ms IS NULL")
    )
