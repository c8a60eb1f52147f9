"""What does the database look like?

Integers for time (milliseconds since 1970 UTC, `_ms`) and money (millionths of a dollar, `_usd_micros`); NULL is
unknown. The phases and endings in the CHECKs are the rules' own words. At most one live deployment a slot, one more for
each that it replaces, and at most one open obligation a key: the database itself refuses a second. What replaces
nothing has an empty `replaces`, because NULLs are never alike.
"""

from typing import Final

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    text,
)

from controller.core.lifecycle import LIVE, Phase
from controller.core.obligation import Ending
from controller.core.spend import Hold

HEAD: Final = "0011"
"""The migration that this code is written for; a test compares it with the scripts."""

metadata = MetaData()


def _listed(words: list[str]) -> str:
    return ", ".join(f"'{word}'" for word in words)


_PHASES = _listed([phase.value for phase in Phase])
_LIVE = _listed([phase.value for phase in Phase if phase in LIVE])

meta = Table(
    "meta",
    metadata,
    Column("id", Integer, CheckConstraint("id = 1", name="one_row"), primary_key=True),
    Column("owner", String, nullable=False),
    Column("installation", String, nullable=False),
    Column("provider", String, nullable=False),
    Column("account", String, nullable=False),
    Column("made_at_ms", Integer, nullable=False),
    Column("epoch_latest", Integer, nullable=False),
    Column("mark_ms", Integer),
    Column("mark_boot_id", String),
    Column("mark_boot_ms", Integer),
    Column("mark_settled", Boolean),
    Column("key_digest", String),
    Column("account_trusted", Boolean, nullable=False),
    Column("account_why", Text),
    Column("accepted_config", Text),
    Column("confirmed_config", String),
    Column("confirmed_at_ms", Integer),
    Column("restored_at_ms", Integer),
    Column("matching_since_ms", Integer),
)

deployments = Table(
    "deployments",
    metadata,
    Column("id", String, primary_key=True),
    Column("provider", String, nullable=False),
    Column("account", String, nullable=False),
    Column("model", String, nullable=False),
    Column("slot", Integer, nullable=False),
    Column("image", String, nullable=False),
    Column("resource_name", String, nullable=False),
    Column("requested_lifetime_ms", Integer, nullable=False),
    Column("fingerprint", String, nullable=False),
    Column("phase", String, CheckConstraint(f"phase IN ({_PHASES})", name="phase_known"), nullable=False),
    Column("declared_at_ms", Integer, nullable=False),
    Column("started_at_ms", Integer),
    Column("resource", Text),
    Column("epoch", Integer, nullable=False),
    Column("reason", String),
    Column("stop_required_at_ms", Integer),
    Column("drain_until_ms", Integer),
    Column("ready_at_ms", Integer),
    Column("replaces", String, nullable=False, server_default=""),
    Column("restart_asked_at_ms", Integer),
    Column("fills", String),
    Column("proven_at_ms", Integer),
    Column("unready_since_ms", Integer),
    Column("last_byte_at_ms", Integer),
    Column("ended_at_ms", Integer),
    Column("evidence", Text),
    Column("usd_micros_per_hour", Integer),
    Column("offer", String),
    Column("place", String),
    Column("observed_state", String),
    Column("observed_ready", Boolean),
    Column("observed_endpoint", String),
    Column("observed_served_model", String),
    Column("observed_at_ms", Integer),
    Column("version", Integer, nullable=False),
    Index("one_live_a_slot", "model", "slot", "replaces", unique=True, sqlite_where=text(f"phase IN ({_LIVE})")),
)

creates = Table(
    "creates",
    metadata,
    Column("request", String, primary_key=True),
    Column("deployment", String, ForeignKey("deployments.id"), nullable=False, index=True),
    Column("offer", String, nullable=False),
    Column("submitting_at_ms", Integer),
    Column("ended_at_ms", Integer),
    Column("answer", String),
    Column("resource", Text),
    Column("detail", Text),
)

obligations = Table(
    "obligations",
    metadata,
    Column("id", String, primary_key=True),
    Column("opened_at_ms", Integer, nullable=False),
    Column("deployment", String, ForeignKey("deployments.id"), index=True),
    Column("model", String),
    Column("slot", Integer),
    Column("request", String),
    Column("resource", Text),
    Column("create_ended_at_ms", Integer),
    Column("seen_at_ms", Integer),
    Column("due_at_ms", Integer),
    Column("reason", String),
    Column("epoch", Integer, nullable=False),
    Column("stop_attempts", Integer, nullable=False),
    Column("stop_submitted_at_ms", Integer),
    Column("stop_ended_at_ms", Integer),
    Column("stop_answer", String),
    Column("stop_reference", Text),
    Column("stop_not_before_ms", Integer),
    Column("ended_at_ms", Integer),
    Column(
        "ending",
        String,
        CheckConstraint(f"ending IN ({_listed([ending.value for ending in Ending])})", name="ending_known"),
    ),
    Column("evidence", Text),
    Column("version", Integer, nullable=False),
    CheckConstraint("(ended_at_ms IS NULL) = (ending IS NULL)", name="ended_with_an_ending"),
    CheckConstraint("ending IS NULL OR ending <> 'discharged' OR evidence IS NOT NULL", name="discharged_by_evidence"),
    Index("one_open_a_resource", "resource", unique=True, sqlite_where=text("ended_at_ms IS NULL")),
)

leases = Table(
    "leases",
    metadata,
    Column("deployment", String, primary_key=True),
    Column("holder", String, nullable=False),
    Column("epoch", Integer, nullable=False, unique=True),
    Column("expires_at_ms", Integer),
)

memories = Table(
    "memories",
    metadata,
    Column("model", String, primary_key=True),
    Column("failures", Integer, nullable=False),
    Column("hold_reason", String),
    Column("hold_until_ms", Integer),
    Column("hold_fingerprint", String),
    Column("rounds", Integer, nullable=False),
    Column("next_round_at_ms", Integer),
    Column("round_detail", Text),
    Column("cold_start_ms", Integer),
    Column("failure", Text),
    Column("starts", Text, nullable=False),
    Column("expected_until_ms", Integer),
)

container_starts = Table(
    "container_starts",
    metadata,
    Column("deployment", String, primary_key=True),
    Column("latest_ms", Integer),
    Column("restarts", Text, nullable=False),
    Column("server_ms", Integer),
    Column("server_within_ms", Integer),
    Column("server_alone", Boolean, nullable=False, server_default=text("0")),
    Column("cause", String),
    Column("topology", Text),
)

sightings = Table(
    "sightings",
    metadata,
    Column("resource", String, primary_key=True),
    Column("whose", String, nullable=False),
    Column("installation", String),
    Column("first_at_ms", Integer, nullable=False),
    Column("last_at_ms", Integer, nullable=False),
    Column("times", Integer, nullable=False),
    Column("created_at_ms", Integer),
)

reservations = Table(
    "reservations",
    metadata,
    Column("id", String, primary_key=True),
    Column("deployment", String, nullable=False, index=True),
    Column("day", String, nullable=False, index=True),
    Column(
        "hold",
        String,
        CheckConstraint(f"hold IN ({_listed([hold.value for hold in Hold])})", name="hold_known"),
        nullable=False,
    ),
    Column("ceiling_usd_micros_per_hour", Integer, nullable=False),
    Column("reserved_usd_micros", Integer, nullable=False),
    Column("opened_at_ms", Integer, nullable=False),
    Column("begun_at_ms", Integer),
    Column("settled_usd_micros", Integer),
    Column("evidence_reference", Text),
    Column("version", Integer, nullable=False),
    Index("one_reservation_a_day", "deployment", "day", unique=True),
)

corroborations = Table(
    "corroborations",
    metadata,
    Column("resource", Text, primary_key=True),
    Column("ended_at_ms", Integer, nullable=False),
    Column("evidence", Text, nullable=False),
)
"""Ends that the bill bore out after they were proven."""

claims = Table(
    "claims",
    metadata,
    Column("installation", String, primary_key=True),
    Column("at_ms", Integer, nullable=False),
)

alarms = Table(
    "alarms",
    metadata,
    Column("name", String, primary_key=True),
    Column("subject", String, primary_key=True),
    Column("since_ms", Integer, nullable=False),
    Column("detail", Text, nullable=False),
)

evidence = Table(
    "evidence",
    metadata,
    Column("seq", Integer, primary_key=True),
    Column("at_ms", Integer, nullable=False),
    Column("event", String, nullable=False),
    Column("line", Text, nullable=False),
    Column("hash", String, nullable=False),
)
