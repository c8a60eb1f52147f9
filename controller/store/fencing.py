"""Under which right may a call that costs or stops leave now?

Under the present lease, of the epoch that it was decided under (HC-27). While nothing can be written no lease can be
renewed, nor taken by a run that begins meanwhile; but neither can one be given to anybody else as long as the file's
lock is this process's. So stops leave under what is on record, and creates do not (invariant 4).
"""

from dataclasses import replace
from datetime import datetime

from controller.core import hosting
from controller.core.deployment import Record
from controller.core.lease import Lease, fence
from controller.core.obligation import Obligation
from controller.store.duties import lease_name
from controller.store.errors import Stale
from controller.store.store import Store


def fence_call(store: Store, subject: Record | Obligation, *, holder: str) -> None:
    """Asked when a call is about to leave: since its commit this process may have been stopped for longer than its
    lease, and the file may be another daemon's by now. Raises Stale or Refusal."""
    if not store.holds_file:
        raise Stale("the lock on the store's file is lost")
    if isinstance(subject, Record):  # a create carries its epoch
        fence(store.book.leases.get(subject.id), epoch=subject.epoch, holder=holder, now=store.now)
        return
    lease, now = _right(store, subject, holder)
    fence(lease, epoch=subject.epoch if lease is None else lease.epoch, holder=holder, now=now)


def fence_stop(store: Store, duty: Obligation, *, holder: str) -> None:
    """Refuse a stop whose mark cannot be committed as that transaction would, by what was last read. Raises Stale or
    Refusal."""
    fence_call(store, duty, holder=holder)
    lease, now = _right(store, duty, holder)
    record = store.book.records.get(duty.deployment) if duty.deployment is not None else None
    if record is None:
        fence(lease, epoch=duty.epoch, holder=holder, now=now)
    else:
        hosting.stop(record, hosting.Claim(lease=lease, epoch=record.epoch, holder=holder, now=now))


def _right(store: Store, duty: Obligation, holder: str) -> tuple[Lease | None, datetime]:
    """The lease of a stop, and as of when it counts."""
    lease, since, now = store.book.leases.get(lease_name(duty)), store.unwritable_since, store.now
    if lease is None or since is None:
        return lease, now
    if not store.taken_over:  # whose it was has ended, or its file's lock would not be ours
        return replace(lease, holder=holder, expires_at=now), now
    return lease, now if lease.expires_at is None else min(now, lease.expires_at)
