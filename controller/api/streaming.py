"""Which deployments may a gateway send new requests to, and who keeps which machine busy?

A new stream lease is granted inside the one writer's transaction, so that it and an idle stop cannot miss each other.
A renewal that changes nothing writes nothing. A refused deployment takes no new requests, but what is open there stays
counted until it ends, under whatever epoch it began.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from controller.api.panel import Panel
from controller.api.problems import Json, bad_field, count_in, flag_in, seconds_in, text_in
from controller.core.book import Book
from controller.core.deployment import Record
from controller.core.identity import DeploymentId
from controller.core.lifecycle import LIVE, Phase
from controller.core.restoration import newer
from controller.store import deployments
from controller.store.errors import StoreUnwritable
from controller.store.stream_leases import StreamLease
from controller.store.transaction import Tx

LEASES_MOST: Final = 4096
IDLE_SECONDS_MAX: Final = 30 * 24 * 3600.0
MOVED_BY: Final = timedelta(seconds=60)
"""The last byte is stored when it moved by so much, or when use ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """What a gateway says of one deployment."""

    lease: StreamLease
    bytes_seen: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """`counted` is what keeps machines busy from now on."""

    granted: list[DeploymentId]
    refused: list[DeploymentId]
    counted: list[StreamLease]


def read_leases(body: Mapping[str, Any], *, now: datetime) -> list[Stated]:
    """Raises Problem(bad_request) naming the field. One entry a deployment: the newest epoch, all that is open."""
    listed = body.get("leases")
    if not isinstance(listed, list) or len(listed) > LEASES_MOST:
        raise bad_field("leases", f"a list of at most {LEASES_MOST} is wanted")
    merged: dict[DeploymentId, Stated] = {}
    for entry in listed:
        if not isinstance(entry, dict):
            raise bad_field("leases", "objects are wanted")
        stated = _read_lease(entry, now)
        known = merged.get(stated.lease.deployment)
        merged[stated.lease.deployment] = stated if known is None else _merged(known, stated)
    return list(merged.values())


def _read_lease(entry: Mapping[str, Any], now: datetime) -> Stated:
    idle = timedelta(seconds=seconds_in(entry, "idle_seconds", most=IDLE_SECONDS_MAX))
    lease = StreamLease(
        deployment=DeploymentId(text_in(entry, "deployment")),
        epoch=count_in(entry, "epoch"),
        open_requests=count_in(entry, "open"),
        last_byte_at=now - idle,
    )
    return Stated(lease=lease, bytes_seen=flag_in(entry, "bytes_seen"))


def _merged(one: Stated, other: Stated) -> Stated:
    """A restart of ours raises the epoch while requests go on: both are requests to one machine."""
    newest = max(one.lease, other.lease, key=lambda lease: lease.epoch)
    lease = replace(
        newest,
        open_requests=one.lease.open_requests + other.lease.open_requests,
        last_byte_at=max(one.lease.last_byte_at, other.lease.last_byte_at),
    )
    return Stated(lease=lease, bytes_seen=one.bytes_seen or other.bytes_seen)


async def renew(panel: Panel, gateway: str, stated: Sequence[Stated]) -> Json:
    """Take a gateway's whole list in. Where nothing can be written the verdict is by the book, which knows of stops
    that could not be written either: without one a gateway serves on everywhere, also from what is being stopped."""
    before = panel.stream_leases.of(gateway, now=panel.now)
    _note_strange(panel, gateway, stated)
    verdict = judge(panel.book.records, stated, before)
    bytes_moved = _bytes_to_store(panel, stated, before)
    new = any(name not in before for name in verdict.granted)
    if bytes_moved or new:
        try:
            verdict = await panel.store.write(lambda tx: _renew_in(tx, panel, gateway, stated, bytes_moved))
        except StoreUnwritable:
            verdict = judge(panel.book.records, stated, before)
            panel.stream_leases.put(gateway, verdict.counted, now=panel.now)
            panel.stream_leases.keep(bytes_moved)
    else:
        panel.stream_leases.put(gateway, verdict.counted, now=panel.now)
    if _ended_use(panel.book, before, verdict):
        panel.ring()
    return {
        "schema": 1,
        "granted": sorted(verdict.granted),
        "refused": sorted(verdict.refused),
        "lease_seconds": panel.stream_leases.lifetime.total_seconds(),
    }


def _note_strange(panel: Panel, gateway: str, stated: Sequence[Stated]) -> None:
    """A gateway that holds what this store never gave tells of runs that it forgot (RP-52)."""
    strange = [entry.lease for entry in stated if _strange(panel, entry.lease)]
    for lease in strange:
        panel.store.witness_epoch(lease.epoch)
    if panel.stream_leases.put_strange(gateway, strange, now=panel.now):
        panel.ring()


def _strange(panel: Panel, lease: StreamLease) -> bool:
    record = panel.book.records.get(lease.deployment)
    if record is None:
        return lease.open_requests > 0
    return newer(lease.epoch, max(record.epoch, panel.store.epochs_known))


def _renew_in(
    tx: Tx, panel: Panel, gateway: str, stated: Sequence[Stated], bytes_moved: Mapping[DeploymentId, datetime]
) -> Verdict:
    """In the transaction: nobody can decide an idle stop between the look at the record and the lease."""
    verdict = judge(tx.book.records, stated, panel.stream_leases.of(gateway, now=tx.now))
    panel.stream_leases.put(gateway, verdict.counted, now=tx.now)
    for deployment, at in bytes_moved.items():
        deployments.record_last_byte(tx, deployment, at=at)
    return verdict


def judge(
    records: Mapping[DeploymentId, Record], stated: Sequence[Stated], before: Mapping[DeploymentId, StreamLease]
) -> Verdict:
    """Grant what serves under the present epoch; refuse the rest, and go on counting what is open there."""
    granted, refused, counted = [], [], []
    for entry in stated:
        lease = entry.lease
        record = records.get(lease.deployment)
        if record is not None and record.phase is Phase.ACTIVE and record.epoch == lease.epoch:
            granted.append(lease.deployment)
            counted.append(lease)
            continue
        refused.append(lease.deployment)
        if record is not None and record.phase in LIVE and _goes_on(entry, record, before):
            counted.append(lease)
    return Verdict(granted=granted, refused=refused, counted=counted)


def _goes_on(entry: Stated, record: Record, before: Mapping[DeploymentId, StreamLease]) -> bool:
    """Does it have requests that began before it was refused? A former run of ours granted the older epochs."""
    known = before.get(entry.lease.deployment)
    held = known is not None and known.open_requests > 0
    begun = held or entry.bytes_seen or entry.lease.epoch < record.epoch
    return begun and entry.lease.open_requests > 0


def _bytes_to_store(
    panel: Panel, stated: Sequence[Stated], before: Mapping[DeploymentId, StreamLease]
) -> dict[DeploymentId, datetime]:
    """Last bytes that the record has to learn: use ended, or it went on for long enough."""
    listed = {entry.lease.deployment: entry.lease for entry in stated}
    found = {}
    for name, lease in {**before, **listed}.items():
        record = panel.book.records.get(name)
        if record is None or record.phase is not Phase.ACTIVE:
            continue
        known = record.last_byte_at or record.declared_at
        ended = name not in listed or lease.open_requests == 0
        if lease.last_byte_at > known and (ended or lease.last_byte_at >= known + MOVED_BY):
            found[name] = lease.last_byte_at
    return found


def _ended_use(book: Book, before: Mapping[DeploymentId, StreamLease], verdict: Verdict) -> bool:
    """Did the last request end anywhere, or did a gateway let go of what drains? A drain may be over."""
    counted = {lease.deployment: lease.open_requests for lease in verdict.counted}
    return any(
        (lease.open_requests and not counted.get(name)) or (name not in counted and _drains(book, name))
        for name, lease in before.items()
    )


def _drains(book: Book, name: DeploymentId) -> bool:
    record = book.records.get(name)
    return record is not None and record.phase is Phase.STOP_REQUIRED and record.drain_until is not None
