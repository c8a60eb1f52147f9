"""Do we still have the right to act?

Renews every lease well inside its span, on its own, whatever else hangs (IM-13). A lease of ours that expired (a
stopped or suspended process) is taken anew where nobody else took it, under a higher epoch; the policy may oblige a
stop instead (CX-14). A lease that cannot be renewed for want of a disk obliges nothing until that can be written: what
serves goes on (B17).
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from controller.core.evidence import StopReason
from controller.core.identity import DeploymentId
from controller.core.lease import Ask, Lease, renew
from controller.core.lifecycle import SERVING
from controller.core.policy import HostingPolicy, LeaseExpiry
from controller.news import Looks
from controller.store import deployments, restoring
from controller.store.store import Store
from controller.store.transaction import Tx

NOTHING_WRITTEN: Final = timedelta(minutes=10)
"""What is held is renewed far oftener; with nothing alive, a daemon whose store is another's can do nothing wrong."""


class LeaseKeeper:
    """One pass over the leases of everything open."""

    name = "lease_keeper"
    looks_at = Looks.of(book=("held_leases",))

    def __init__(self, *, store: Store, policy: HostingPolicy, holder: str) -> None:
        self._store = store
        self._policy = policy
        self._holder = holder
        self.period = policy.lease_renewal
        self._asked_at = store.now

    async def run_pass(self) -> datetime | None:
        if not self._store.taken_over:
            await self._write(lambda tx: None)  # that this run has begun comes before it; only then has it leases
        now = self._store.now
        if any(not lease.live(now) for lease in self._held()):
            await self._write(self._take_anew)
        held = self._held()
        soon = [
            lease for lease in held if lease.expires_at is not None and lease.expires_at - now <= self._renew_within
        ]
        if soon:
            await self._write(self._renew)
        await self._require_store(now)
        if not held:
            return None
        return now + self._policy.lease_renewal

    async def _write(self, work: Callable[[Tx], None]) -> None:
        """Each transaction asks whose the file is."""
        await self._store.write(work)
        self._asked_at = self._store.now

    async def _require_store(self, now: datetime) -> None:
        """A daemon that has nothing to write finds out here that the file is another's. Raises StoreTaken."""
        if now >= self._asked_at + NOTHING_WRITTEN:
            await self._store.read(lambda _: None)
            self._asked_at = now

    def _held(self) -> list[Lease]:
        """Every lease that this process took and did not give back."""
        leases = self._store.book.leases.values()
        return [lease for lease in leases if lease.holder == self._holder and lease.expires_at is not None]

    @property
    def _renew_within(self) -> timedelta:
        return self._policy.lease - self._policy.lease_renewal + timedelta(milliseconds=500)

    def _renew(self, tx: Tx) -> None:
        for lease in list(tx.book.leases.values()):
            if lease.holder != self._holder or not lease.live(tx.now):
                continue
            ask = Ask(deployment=lease.deployment, holder=self._holder, now=tx.now, span=self._policy.lease)
            tx.put_lease(renew(lease, ask=ask, epoch=lease.epoch))

    def _take_anew(self, tx: Tx) -> None:
        expired = expired_leases(tx)
        restoring.take_leases(tx, policy=self._policy, holder=self._holder)
        if self._policy.lease_expiry is LeaseExpiry.STOP:
            oblige_stops(tx, expired)


def expired_leases(tx: Tx) -> frozenset[DeploymentId]:
    """What nobody had the right to act on lately. The file's lock says that every lease in it was ours."""
    leases = tx.book.leases.values()
    return frozenset(held.deployment for held in leases if held.expires_at is not None and not held.live(tx.now))


def oblige_stops(tx: Tx, deployments_lost: frozenset[DeploymentId]) -> None:
    """Owe the stop of each that may still serve."""
    for record in tx.book.live():
        if record.id in deployments_lost and record.phase in SERVING:
            deployments.require_stop(tx, record, StopReason.LEASE_EXPIRED)
