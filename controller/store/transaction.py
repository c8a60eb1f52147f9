"""What may one transaction change, and how is it guarded?

A transaction works on a draft of the book and on SQL at once; the draft becomes the next book only after the commit.
Each write of a record or an obligation names the version that it rests on: zero rows changed means that somebody was
faster, and nothing of the transaction is kept. Evidence lines are chained and stored here, in the same commit as what
they tell.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from decimal import Decimal
from functools import cache
from typing import Any, Final, Protocol, TypeVar

from sqlalchemy import Insert, Table, Update, bindparam, delete, insert, select, update
from sqlalchemy.dialects.sqlite import insert as upsert

from controller.clock import to_ms
from controller.core.backoff import Holding
from controller.core.book import AccountTrust, Alarm, Book, ModelMemory
from controller.core.crash_loop import Starts
from controller.core.deployment import Create, Record
from controller.core.evidence import Evidence
from controller.core.evidence_chain import link
from controller.core.identity import DeploymentId, ObligationId, ResourceKey
from controller.core.lease import Lease
from controller.core.obligation import Ending, Obligation
from controller.core.orphans import Sighting
from controller.core.removal import Confirmed
from controller.core.restoration import newer, raised
from controller.core.spend import Reservation
from controller.core.timekeeping import Kept
from controller.ids import Randomness
from controller.store import rows, schema
from controller.store.codec import evidence_to_text, key_to_text, storable
from controller.store.errors import Overtaken, Stale

BEGUN: Final = "daemon.started"
"""The event that each daemon tells first: it takes the store over by it."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What a transaction is given from outside."""

    now: datetime
    clock_sound: bool
    """Do two witnesses say so? Without them nothing is created (HC-32)."""
    randomness: Randomness
    holding: Holding
    epoch_seen: int = 0
    """The highest that anybody outside was seen to carry (`Store.witness_epoch`)."""
    late: bool = False
    """It tells of what was done while nothing could be written."""


class Takes(Protocol):
    """Takes statements: a connection, or what stands for one."""

    def execute(self, statement: Any, parameters: Any = None, /) -> Any: ...


class Tx:
    """One transaction. Lives inside one `Store.write` call and is never kept."""

    def __init__(self, connection: Takes, book: Book, moment: Moment) -> None:
        self._connection = connection
        self._copied: set[str] = set()
        self._lines: list[dict[str, Any]] = []
        self._identity: dict[str, Any] = {}
        self._epoch_before = book.epoch_latest
        self.book = book
        self.now = moment.now
        self.clock_sound = moment.clock_sound
        self.randomness = moment.randomness
        self.holding = moment.holding
        self._epoch_seen = moment.epoch_seen
        self._late = moment.late

    # What the decision rests on

    def record(self, deployment: DeploymentId) -> Record:
        """The record as it is now. Raises Stale if there is none any more."""
        found = self.book.records.get(deployment)
        if found is None:
            raise Stale(f"no deployment {deployment}")
        return found

    def current(self, decided_on: Record) -> Record:
        """The record that a decision rested on, if nobody changed it since. Raises Stale."""
        found = self.record(decided_on.id)
        if found.version != decided_on.version:
            raise Stale(f"deployment {found.id} changed since it was decided on")
        return found

    def duty(self, obligation: ObligationId) -> Obligation:
        """The open obligation as it is now. Raises Stale if it ended."""
        found = self.book.obligations.get(obligation)
        if found is None or not found.open:
            raise Stale(f"no open obligation {obligation}")
        return found

    def free_name(self, name: DeploymentId | None) -> DeploymentId | None:
        """`name`, if no deployment ever had it."""
        table = schema.deployments
        taken = self._connection.execute(select(table.c.id).where(table.c.id == name)).first()
        return None if taken is not None else name

    # Guarded rows

    def put_record(self, record: Record) -> Record:
        before = self.book.records.get(record.id)
        stored = replace(record, version=record.version + 1)
        self._guarded(schema.deployments, rows.record_to_row(stored), before is not None, record.version)
        self._draft("records")[record.id] = stored
        return stored

    def put_duty(self, duty: Obligation) -> Obligation:
        before = self.book.obligations.get(duty.id)
        stored = replace(duty, version=duty.version + 1)
        self._guarded(schema.obligations, rows.obligation_to_row(stored), before is not None, duty.version)
        self._draft("obligations")[duty.id] = stored
        if stored.ending is not None and (before is None or before.open):
            self._draft("ended")[stored.ending] = self.book.ended.get(stored.ending, 0) + 1
        if stored.ending is Ending.DISCHARGED and stored.key is not None:
            self._draft("settled")[stored.key] = stored.ended_at
        return stored

    def put_reservation(self, reservation: Reservation) -> Reservation:
        before = self.book.reservations.get(reservation.id)
        stored = replace(reservation, version=reservation.version + 1)
        self._guarded(schema.reservations, rows.reservation_to_row(stored), before is not None, reservation.version)
        self._draft("reservations")[reservation.id] = stored
        return stored

    def _guarded(self, table: Table, row: dict[str, Any], exists: bool, version: int) -> None:
        if not exists:
            self._connection.execute(_insert_of(table), row)
            return
        key = next(iter(table.primary_key.columns)).name
        guarded = {**row, "guarded_key": row[key], "guarded_version": version}
        if self._connection.execute(_update_of(table), guarded).rowcount != 1:
            raise Stale(f"{table.name} {row[key]} changed since it was read")

    # Rows that only the writer changes

    def put_create(self, create: Create) -> None:
        self._upsert(schema.creates, rows.create_to_row(create))
        self._draft("creates")[create.request] = create

    def put_lease(self, lease: Lease) -> None:
        self._upsert(schema.leases, rows.lease_to_row(lease))
        self._draft("leases")[lease.deployment] = lease

    def put_memory(self, memory: ModelMemory) -> None:
        self._upsert(schema.memories, rows.memory_to_row(memory))
        self._draft("memories")[memory.model] = memory

    def put_starts(self, deployment: DeploymentId, starts: Starts) -> None:
        self._upsert(schema.container_starts, rows.starts_to_row(deployment, starts))
        self._draft("starts")[deployment] = starts

    def put_sighting(self, sighting: Sighting) -> None:
        self._upsert(schema.sightings, rows.sighting_to_row(sighting))
        self._draft("sightings")[sighting.key] = sighting

    def drop_sighting(self, key: ResourceKey) -> None:
        self._connection.execute(delete(schema.sightings).where(schema.sightings.c.resource == key_to_text(key)))
        self._draft("sightings").pop(key, None)

    def put_claim(self, installation: str) -> None:
        self._upsert(schema.claims, {"installation": installation, "at_ms": to_ms(self.now)})
        owner = self.book.owner
        self._set(owner=replace(owner, claimed=owner.claimed | {installation}))

    def put_corroboration(self, key: ResourceKey, ended_at: datetime, evidence: Evidence) -> None:
        row = {"resource": key_to_text(key), "ended_at_ms": to_ms(ended_at), "evidence": evidence_to_text(evidence)}
        self._upsert(schema.corroborations, row)
        self._draft("corroborated")[key] = ended_at

    def put_account(self, account: AccountTrust) -> None:
        self._meta(key_digest=account.digest, account_trusted=account.trusted, account_why=account.why)
        self._set(account=account)

    def put_mark(self, kept: Kept) -> None:
        self._meta(**rows.kept_to_row(kept))
        self._set(mark=kept.mark)

    def next_epoch(self, *, above: int = 0) -> int:
        """An epoch that was never given before, above any that is known from outside."""
        floor = raised(self._epoch_seen) if newer(self._epoch_seen, self.book.epoch_latest) else 0
        latest = max(self.book.epoch_latest, above, floor) + 1
        self._meta(epoch_latest=latest)
        self._set(epoch_latest=latest)
        return latest

    def begin_matching(self, *, epoch: int, seq: int) -> None:
        """This store is an old copy: grant and number from here on above `epoch` and `seq`."""
        self._meta(epoch_latest=epoch, restored_at_ms=None, matching_since_ms=to_ms(self.now))
        self._set(epoch_latest=epoch, seq_latest=seq, restored_at=None, matching_since=self.now)

    def end_matching(self) -> None:
        self._meta(matching_since_ms=None)
        self._set(matching_since=None)

    def put_accepted_config(self, text: str) -> None:
        """From now on this one is in force; what an operator confirmed of another is spent."""
        self._meta(accepted_config=text, confirmed_config=None, confirmed_at_ms=None)
        self._set(confirmed=None)

    def put_confirmed(self, confirmed: Confirmed) -> None:
        self._meta(confirmed_config=confirmed.digest, confirmed_at_ms=to_ms(confirmed.at))
        self._set(confirmed=confirmed)

    def raise_alarm(self, name: str, *, subject: str, detail: str) -> None:
        """Raise it once; an alarm that stands is not raised again."""
        if (name, subject) in self.book.alarms:
            return
        alarm = Alarm(name=name, subject=subject, since=self.now, detail=detail)
        self._upsert(schema.alarms, rows.alarm_to_row(alarm))
        self._draft("alarms")[name, subject] = alarm
        self.line("alarm.raised", detail={"alarm": name, "subject": subject, "text": detail})

    def clear_alarm(self, name: str, *, subject: str) -> None:
        if (name, subject) not in self.book.alarms:
            return
        table = schema.alarms
        self._connection.execute(delete(table).where(table.c.name == name, table.c.subject == subject))
        self._draft("alarms").pop((name, subject))
        self.line("alarm.cleared", detail={"alarm": name, "subject": subject})

    # Evidence

    def line(self, event: str, **told: Any) -> int:
        """Append one evidence line; returns its number. `told` holds the fields of the design's section 7."""
        if self._late:
            told["detail"] = {**(told.get("detail") or {}), "late": True}
        seq = self.book.seq_latest + 1
        line = link({"seq": seq, "at": stamp(self.now), "event": event, **_plain(told)}, self.book.hash_latest)
        text = json.dumps(line, ensure_ascii=False, separators=(",", ":"))
        row = {"seq": seq, "at_ms": to_ms(self.now), "event": event, "line": text, "hash": line["hash"]}
        self._lines.append(row)
        self._set(seq_latest=seq, hash_latest=line["hash"])
        return seq

    # The draft

    def _upsert(self, table: Table, row: dict[str, Any]) -> None:
        self._connection.execute(_upsert_of(table), row)

    def _meta(self, **values: Any) -> None:
        self._identity.update(values)

    def finish(self) -> None:
        """Write what was gathered: the evidence in one statement and our own row in another, last before the commit.

        Raises Overtaken if another process granted an epoch: then nothing of this is kept, whatever became of the
        file's lock (HC-28).
        """
        if self._lines:
            self._connection.execute(_insert_of(schema.evidence), self._lines)
        if self._identity:
            guarded = {**self._identity, "epoch_before": self._epoch_before}
            if self._connection.execute(_META, guarded).rowcount != 1:
                raise Overtaken("another process writes to this store")

    def _draft(self, name: str) -> dict[Any, Any]:
        if name not in self._copied:
            self._copied.add(name)
            self._set(**{name: dict(getattr(self.book, name))})
        mapping: dict[Any, Any] = getattr(self.book, name)
        return mapping

    def _set(self, **values: Any) -> None:
        self.book = replace(self.book, **values)


# Statements are built once a table: building them was a third of a transaction's time.

_META: Final = update(schema.meta).where(schema.meta.c.epoch_latest == bindparam("epoch_before"))


@cache
def _insert_of(table: Table) -> Insert:
    return insert(table)


@cache
def _update_of(table: Table) -> Update:
    key = next(iter(table.primary_key.columns))
    return update(table).where(key == bindparam("guarded_key"), table.c.version == bindparam("guarded_version"))


@cache
def _upsert_of(table: Table) -> Insert:
    statement = upsert(table)
    changed = {column.name: statement.excluded[column.name] for column in table.columns if not column.primary_key}
    return statement.on_conflict_do_update(index_elements=list(table.primary_key.columns), set_=changed)


def stamp(instant: datetime) -> str:
    """RFC 3339 in UTC with milliseconds, as evidence and API write an instant."""
    return instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")


_CONVERSIONS: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (datetime, stamp),
    (Decimal, lambda value: format(value.normalize(), "f")),
    (ResourceKey, lambda key: {field.name: getattr(key, field.name) for field in fields(key)}),
)


def _plain(told: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _plain_value(value) for name, value in told.items() if value is not None}


def _plain_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return _plain(value)
    for kind, convert in _CONVERSIONS:
        if isinstance(value, kind):
            return convert(value)
    return storable(value)
