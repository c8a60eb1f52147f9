"""What does the store hold when it is opened?

Reads what is open, and of what ended only what rules and people still ask for. Makes the identity of a new store: its
installation id is drawn once, here, and carried by every resource that this store will ever answer for.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import Select, Table, func, insert, or_, select
from sqlalchemy.engine import Connection

from controller.clock import from_ms, to_ms
from controller.core.book import Book
from controller.core.deployment import Record
from controller.core.evidence_chain import BEFORE_THE_FIRST
from controller.core.identity import Owner, Scope
from controller.core.lifecycle import ENDED, LIVE
from controller.core.obligation import Ending
from controller.core.slots import latest_ends
from controller.core.spend import utc_day
from controller.core.timekeeping import Kept
from controller.ids import Randomness
from controller.store import rows, schema
from controller.store.codec import Row, key_from_text
from controller.store.errors import StoreError
from controller.store.names import installation_id

REMEMBERED: Final = timedelta(days=1)
"""Ended deployments are shown for so long; the last of each slot is kept beyond."""
RESURFACING: Final = timedelta(days=30)
"""A resource may be seen again after its end for so long, and is owed again."""


def load(connection: Connection, *, owner: str, provider: str, account: str, now: datetime, draw: Randomness) -> Book:
    """Read the book. Raises StoreError if the file belongs to another owner or account."""
    row = _identity(connection, owner=owner, provider=provider, account=account, now=now, draw=draw)
    stored, scope = rows.identity_from_row(row)
    if stored.name != owner or scope != Scope(provider=provider, account=account):
        raise StoreError(
            f"this store belongs to {stored.name} at {scope.provider}/{scope.account}, "
            f"the config says {owner} at {provider}/{account}: use the config's own state_dir"
        )
    claims = frozenset(claim["installation"] for claim in _all(connection, schema.claims))
    last = connection.execute(
        select(schema.evidence.c.seq, schema.evidence.c.hash).order_by(schema.evidence.c.seq.desc()).limit(1)
    ).first()
    return Book(
        owner=Owner(name=stored.name, installation=stored.installation, claimed=claims),
        scope=scope,
        **_open_rows(connection, now),
        **_small_tables(connection, now),
        account=rows.account_from_row(row),
        confirmed=rows.confirmed_from_row(row),
        epoch_latest=row["epoch_latest"],
        seq_latest=0 if last is None else last.seq,
        hash_latest=BEFORE_THE_FIRST if last is None else last.hash,
        restored_at=_instant(row["restored_at_ms"]),
        matching_since=_instant(row["matching_since_ms"]),
        mark=_instant(row["mark_ms"]),
    )


def _instant(ms: int | None) -> datetime | None:
    return None if ms is None else from_ms(ms)


def kept_time(connection: Connection) -> Kept | None:
    """What an earlier process witnessed of the time; `None` for a store that is new."""
    found = _all(connection, schema.meta)
    return rows.kept_from_row(found[0]) if found else None


def _identity(
    connection: Connection, *, owner: str, provider: str, account: str, now: datetime, draw: Randomness
) -> Row:
    if found := _all(connection, schema.meta):
        return found[0]
    row = {
        "id": 1,
        "owner": owner,
        "installation": installation_id(draw),
        "provider": provider,
        "account": account,
        "made_at_ms": to_ms(now),
        "epoch_latest": 0,
        "account_trusted": True,
    }
    connection.execute(insert(schema.meta), row)
    return _all(connection, schema.meta)[0]


def _latest_of_slots(connection: Connection) -> list[str]:
    """`core.slots.latest_ends` of all that ever ended: how it ended says whether the slot is wanted again. Of a model
    with nothing alive too, for a book that forgot it would not have it back when the model lives again."""
    ended = schema.deployments
    found = connection.execute(
        select(ended.c.id, ended.c.model, ended.c.slot)
        .where(ended.c.ended_at_ms.is_not(None))
        .order_by(ended.c.ended_at_ms, ended.c.id)
    )
    return list({(row.model, row.slot): row.id for row in found}.values())


def _open_rows(connection: Connection, now: datetime) -> dict[str, Any]:
    since_ms = to_ms(now - REMEMBERED)
    deployments, duties = schema.deployments, schema.obligations
    live = deployments.c.phase.not_in([phase.value for phase in ENDED])
    recent = or_(live, deployments.c.ended_at_ms >= since_ms, deployments.c.id.in_(_latest_of_slots(connection)))
    records = [rows.record_from_row(row) for row in _found(connection, select(deployments).where(recent))]
    ids = [record.id for record in records]
    creates = _found(connection, select(schema.creates).where(schema.creates.c.deployment.in_(ids)))
    living = [record.id for record in records if record.phase in LIVE]
    kept_duties = [
        rows.obligation_from_row(row)
        for row in _found(
            connection, select(duties).where(or_(duties.c.ended_at_ms.is_(None), duties.c.deployment.in_(living)))
        )
    ]
    discharged = (duties.c.ending == Ending.DISCHARGED.value, duties.c.resource.is_not(None))
    settled = connection.execute(
        select(duties.c.resource, duties.c.ended_at_ms)
        .where(duties.c.ended_at_ms >= to_ms(now - RESURFACING), *discharged)
        .order_by(duties.c.ended_at_ms)  # of several ends of one key the latest stands
    )
    ends = select(duties.c.ending, func.count()).where(duties.c.ending.is_not(None)).group_by(duties.c.ending)
    starts = _found(connection, select(schema.container_starts).where(schema.container_starts.c.deployment.in_(ids)))
    return {
        "records": {record.id: record for record in records},
        "creates": {create.request: create for create in map(rows.create_from_row, creates)},
        "obligations": {duty.id: duty for duty in kept_duties},
        "settled": {key_from_text(row.resource): from_ms(row.ended_at_ms) for row in settled},
        "ended": {Ending(ending): count for ending, count in connection.execute(ends)},
        "starts": dict(map(rows.starts_from_row, starts)),
    }


def _small_tables(connection: Connection, now: datetime) -> dict[str, Any]:
    held_leases = select(schema.leases).where(schema.leases.c.expires_at_ms.is_not(None))
    leases = [rows.lease_from_row(row) for row in _found(connection, held_leases)]
    memories = [rows.memory_from_row(row) for row in _all(connection, schema.memories)]
    sightings = [rows.sighting_from_row(row) for row in _all(connection, schema.sightings)]
    alarms = [rows.alarm_from_row(row) for row in _all(connection, schema.alarms)]
    borne_out = schema.corroborations
    corroborations = _found(connection, select(borne_out).where(borne_out.c.ended_at_ms >= to_ms(now - RESURFACING)))
    held = schema.reservations
    reservations = [
        rows.reservation_from_row(row)
        for row in _found(
            connection,
            select(held).where(or_(held.c.day >= utc_day(now), held.c.hold.not_in(["settled", "cancelled"]))),
        )
    ]
    return {
        "corroborated": {key_from_text(row["resource"]): from_ms(row["ended_at_ms"]) for row in corroborations},
        "leases": {lease.deployment: lease for lease in leases},
        "memories": {memory.model: memory for memory in memories},
        "sightings": {sighting.key: sighting for sighting in sightings},
        "reservations": {reservation.id: reservation for reservation in reservations},
        "alarms": {(alarm.name, alarm.subject): alarm for alarm in alarms},
    }


def remembered(record: Record, now: datetime) -> bool:
    """Did it end lately?"""
    return record.ended_at is not None and record.ended_at >= now - REMEMBERED


def trimmed(book: Book, now: datetime) -> Book:
    """The book without what `load` would not read any more: a daemon that runs for months does not grow."""
    last = {record.id for record in latest_ends(book.records.values()).values()}
    records = {
        record.id: record
        for record in book.records.values()
        if record.phase in LIVE or remembered(record, now) or record.id in last
    }
    living = {record.id for record in records.values() if record.phase in LIVE}
    return replace(
        book,
        records=records,
        creates={create.request: create for create in book.creates.values() if create.deployment in records},
        obligations={duty.id: duty for duty in book.obligations.values() if duty.open or duty.deployment in living},
        leases={lease.deployment: lease for lease in book.leases.values() if lease.expires_at is not None},
        starts={deployment: starts for deployment, starts in book.starts.items() if deployment in records},
        reservations={held.id: held for held in book.reservations.values() if held.open or held.day >= utc_day(now)},
        settled={key: at for key, at in book.settled.items() if at >= now - RESURFACING},
        corroborated={key: at for key, at in book.corroborated.items() if at >= now - RESURFACING},
    )


def _all(connection: Connection, table: Table) -> list[Row]:
    return _found(connection, select(table))


def _found(connection: Connection, query: Select[Any]) -> list[Row]:
    return [{str(name): value for name, value in row.items()} for row in connection.execute(query).mappings()]
