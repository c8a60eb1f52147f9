"""Who may act on a deployment now?

One lease a deployment. Every grant raises an epoch that never repeats or falls, in any circumstance (HC-26); a call
that costs or stops is fenced by the epoch it was decided under. Expiry is inclusive: live at `expires_at`, dead one
millisecond later.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from controller.core.errors import Refusal, RefusalCode
from controller.core.identity import DeploymentId


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A grant. `expires_at` is `None` once it was released."""

    deployment: DeploymentId
    holder: str
    epoch: int
    expires_at: datetime | None

    def live(self, now: datetime) -> bool:
        return self.expires_at is not None and now <= self.expires_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Who asks for a lease on what, when, and for how long."""

    deployment: DeploymentId
    holder: str
    now: datetime
    span: timedelta


def acquire(current: Lease | None, *, ask: Ask, epoch_latest: int) -> Lease:
    """Grant a new lease, with the epoch after the latest ever granted. Refuses `lease-held` while another's is live."""
    if current is not None and current.holder != ask.holder and current.live(ask.now):
        raise Refusal(RefusalCode.LEASE_HELD)
    return Lease(deployment=ask.deployment, holder=ask.holder, epoch=epoch_latest + 1, expires_at=ask.now + ask.span)


def renew(current: Lease | None, *, ask: Ask, epoch: int) -> Lease:
    """Prolong a live lease of one's own under the same epoch. Refuses as `fence` does."""
    fence(current, epoch=epoch, holder=ask.holder, now=ask.now)
    assert current is not None  # noqa: S101 - fence refused it otherwise
    return replace(current, expires_at=ask.now + ask.span)


def release(current: Lease) -> Lease:
    """Give it back. Nothing is stopped by this, and the epoch stays used (HC-41)."""
    return replace(current, expires_at=None)


def fence(current: Lease | None, *, epoch: int, holder: str, now: datetime) -> None:
    """Refuse what was decided under an older epoch (`stale-epoch`) or without a live claim (`lease-lost`) (HC-27)."""
    if current is not None and epoch < current.epoch:
        raise Refusal(RefusalCode.STALE_EPOCH)
    if current is None or current.holder != holder or not current.live(now):
        raise Refusal(RefusalCode.LEASE_LOST)
