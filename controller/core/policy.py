"""Which bounds may nobody's wish exceed?

Two values, made once from the configuration: what holds for the whole controller, and what holds for one model. Every
bound is finite and there is no word for "unlimited": a value outside its bounds is refused at construction, so whoever
holds a policy may rely on all of it. Defaults are the numbers of the design's section 6. An offer is an opaque word of
the provider.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Final

from controller.core.errors import InvalidIdentifier, Refusal, RefusalCode
from controller.core.identity import identifier
from controller.core.schedule import NO_WINDOWS, Schedule, Stance, decide, lead_of

MAX_ACTIVE_MOST: Final = 4096
SPAN_LEAST: Final = timedelta(milliseconds=1)
# Longer than any machine's life; keeps every deadline inside what a datetime can hold.
SPAN_MOST: Final = timedelta(days=3650)
SLOTS_MOST: Final = 64
CARDS_MOST: Final = 64
QUEUE_MOST: Final = 4096
IDLE_LEAST: Final = timedelta(seconds=1)
# Longer than anybody is told to wait before coming back, and than a gateway's word holds.
ABANDON_LEAST: Final = timedelta(minutes=2)
STARTUP_DEADLINE_MOST: Final = timedelta(hours=6)

_ZERO: Final = timedelta(0)
_CLAIM_AGE_MARGIN: Final = timedelta(hours=1)
_FRESH_LISTINGS: Final = 3
_FRESH_MOST: Final = timedelta(seconds=900)


class StopEvidence(StrEnum):
    """What discharges the duty to stop."""

    VERIFIED = "verified"
    """Gone by an authenticated read and by a complete listing, or said to be terminated."""
    ACCEPTED = "accepted"
    """The provider's acceptance alone, as the contract permits."""


class LeaseExpiry(StrEnum):
    """What becomes of our own lease that expired."""

    REACQUIRE = "reacquire-if-unclaimed"
    STOP = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostingPolicy:
    """What the whole controller may do. Raises Refusal(invalid-policy) outside the bounds (HC-34)."""

    owner: str
    provider: str
    account: str
    ledger: str
    max_active: int
    max_lifetime: timedelta
    usd_per_day: Decimal
    lease: timedelta = timedelta(seconds=300)
    lease_renewal: timedelta = timedelta(seconds=60)
    lease_expiry: LeaseExpiry = LeaseExpiry.REACQUIRE
    call_limit: timedelta = timedelta(seconds=30)
    """One call to the provider, from dialling to the last byte of its answer."""
    settle: timedelta = timedelta(seconds=120)
    """The provider's listing may lag by so much; absence counts only after it."""
    orphan_grace: timedelta = timedelta(seconds=180)
    listing_fast: timedelta = timedelta(seconds=15)
    listing_steady: timedelta = timedelta(seconds=60)
    listing_idle: timedelta = timedelta(seconds=300)
    listing_fast_for: timedelta = timedelta(seconds=600)
    """After a restart or a failed probe the fast rhythm is kept for so long."""
    probe_limit: timedelta = timedelta(seconds=10)
    probe_bytes_max: int = 1 << 20
    stop_evidence: StopEvidence = StopEvidence.VERIFIED
    stop_again_after: timedelta = timedelta(seconds=60)
    stop_alarm_after: timedelta = timedelta(seconds=300)
    stop_backoff_max: timedelta = timedelta(seconds=60)
    stop_retry_after_max: timedelta = timedelta(seconds=300)
    """A provider that asks for more patience than this does not get it for a stop."""
    drain_limit: timedelta = timedelta(minutes=10)
    """For what no configured model says otherwise of: a model that was removed."""
    stream_lease: timedelta = timedelta(seconds=30)
    stream_lease_renewal: timedelta = timedelta(seconds=10)
    claim_silence: timedelta = timedelta(minutes=15)
    """Another installation's guard must have heard of no other daemon for so long."""
    round_gap: timedelta = timedelta(seconds=30)
    """Between two rounds in which every offer was refused."""
    hung_after: timedelta = timedelta(minutes=5)
    """What a server counts must stand still for so long, with requests open, before it is asked for one token."""
    stall_after: timedelta = timedelta(minutes=10)
    """The log of a machine with several cards may tell of nothing but waiting for so long."""
    hold_first: timedelta = timedelta(minutes=10)
    hold_max: timedelta = timedelta(hours=6)
    failed_starts_limit: int = 2
    """So many failed starts in a row put a model on hold."""
    starts_per_hour: int = 4
    starts_per_day: int = 12

    def __post_init__(self) -> None:
        _require(
            _named(self.owner, self.provider, self.account, self.ledger),
            1 <= self.max_active <= MAX_ACTIVE_MOST,
            _spans(self.max_lifetime, self.lease, least=SPAN_LEAST),
            _money(self.usd_per_day),
            self._calls_fit_the_lease(),
            self._rhythms_ordered(),
            self._stops_bounded(),
            self._starts_bounded(),
        )

    @property
    def claim_age(self) -> timedelta:
        """Another installation's resource that is older than this has outlived every lifetime, and may be claimed."""
        return self.max_lifetime + _CLAIM_AGE_MARGIN

    def lifetime(self, requested: timedelta) -> timedelta:
        """The lifetime that counts: what was requested, at most what the policy allows (HC-35)."""
        return min(requested, self.max_lifetime)

    def listing_fresh(self, interval: timedelta) -> timedelta:
        """A complete listing may be so old for a create, at the rhythm of `interval` (RP-44)."""
        return min(_FRESH_LISTINGS * interval, _FRESH_MOST)

    def _calls_fit_the_lease(self) -> bool:
        # A call that was fenced just before the lease was renewed must end inside that lease, and so must the next one.
        return (
            _spans(self.lease_renewal, self.call_limit, self.probe_limit)
            and self.lease > 2 * self.call_limit
            and 2 * self.lease_renewal < self.lease
            and self.probe_bytes_max >= 1
        )

    def _rhythms_ordered(self) -> bool:
        return (
            _spans(self.listing_fast, self.listing_fast_for, self.stream_lease, self.stream_lease_renewal)
            and self.listing_fast <= self.listing_steady <= self.listing_idle <= SPAN_MOST
            and 2 * self.stream_lease_renewal < self.stream_lease
        )

    def _stops_bounded(self) -> bool:
        return _spans(
            self.settle,
            self.orphan_grace,
            self.stop_again_after,
            self.stop_alarm_after,
            self.stop_backoff_max,
            self.stop_retry_after_max,
            self.claim_silence,
            self.hung_after,
            self.stall_after,
        ) and _spans(self.drain_limit, least=_ZERO)

    def _starts_bounded(self) -> bool:
        return (
            _spans(self.round_gap, self.hold_first)
            and self.hold_first <= self.hold_max <= SPAN_MOST
            and min(self.failed_starts_limit, self.starts_per_hour, self.starts_per_day) >= 1
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """A place where a model's weights are kept, and the offers that are beside them."""

    place: str
    offers: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPolicy:
    """What one model may do. Raises Refusal(invalid-policy) outside the bounds."""

    alias: str
    model: str
    """The repository whose weights are served."""
    image: str
    served_name: str
    server: str
    slots: int
    offers: tuple[str, ...]
    """Types of machine in the order to ask for them, never another; words of the provider, opaque here."""
    cards: int
    idle_after: timedelta
    startup_deadline: timedelta
    max_lifetime: timedelta
    crash_restart_limit: int
    crash_window: timedelta
    drain_limit: timedelta
    usd_per_hour_max: Decimal | None
    """None: the dearest declared offer's price × cards is the ceiling, and what is beside them."""
    abandon_after: timedelta | None = None
    """A start for which nobody has waited for so long is given up; None: never."""
    wait: timedelta
    queue: int
    wires: tuple[str, ...]
    tools: bool
    """Requests with tools are answered with calls of them."""
    adapters: tuple[str, ...]
    """Names that are asked for beside the model's own."""
    merge_system: bool
    """Its chat template takes one system message at most."""
    stream_plain: bool
    """Plain requests are asked as streams, and put together by the gateway."""
    usd_per_hour_beside: Decimal = Decimal(0)
    """What a machine bills beside its cards: its disk."""
    volumes: tuple[Volume, ...] = ()
    """Where its weights may lie already, in the order of its offers."""
    schedule: Schedule = NO_WINDOWS
    """When it is kept warm, and when it is off."""
    fingerprint: str = field(repr=False)
    """Digest of what shapes a resource: another one means that a running resource is of an older configuration."""

    def __post_init__(self) -> None:
        _require(
            _named(self.alias, self.model, self.image, self.served_name, self.server, self.fingerprint),
            _distinct(self.offers) and _distinct(self.wires),
            not self.adapters or _distinct(self.adapters),
            1 <= self.slots <= SLOTS_MOST,
            1 <= self.cards <= CARDS_MOST,
            1 <= self.queue <= QUEUE_MOST,
            self.crash_restart_limit >= 1,
            _spans(self.idle_after, least=IDLE_LEAST),
            _spans(self.startup_deadline) and self.startup_deadline <= STARTUP_DEADLINE_MOST,
            _spans(self.max_lifetime, self.crash_window, least=SPAN_LEAST),
            _spans(self.drain_limit, self.wait, least=_ZERO),
            self.abandon_after is None or _spans(self.abandon_after, least=ABANDON_LEAST),
            self.usd_per_hour_max is None or _money(self.usd_per_hour_max),
            self.usd_per_hour_beside == 0 or _money(self.usd_per_hour_beside),
        )

    def stance(self, cold_start: timedelta | None, *, now: datetime) -> Stance:
        """What its schedule says now; `cold_start` as measured."""
        return decide(self.schedule, lead=lead_of(cold_start, self.startup_deadline), now=now)

    def stance_kept(self, cold_start: timedelta | None, *, now: datetime) -> Stance:
        """The same for what is up already: what was started early by the longest start is not let go because it took
        less, nor is anything else so shortly before its window."""
        return self.stance(max(cold_start or _ZERO, self.startup_deadline), now=now)

    def offers_for(self, fills: str | None) -> tuple[str, ...]:
        """What may be asked for: to serve, all of it; to fill the volume in a place, what is there. Empty for a place
        that is not declared (any more)."""
        if fills is None:
            return self.offers
        return next((volume.offers for volume in self.volumes if volume.place == fills), ())

    def slot_for(self, place: str) -> int:
        """What fills a volume stands in a slot of its own, beyond those that serve. Raises ValueError for a place that
        is not declared."""
        return SLOTS_MOST + [volume.place for volume in self.volumes].index(place)

    @property
    def startup_deadline_extended(self) -> timedelta:
        """While progress is seen, a start may take twice its deadline, and never more than six hours."""
        return min(2 * self.startup_deadline, STARTUP_DEADLINE_MOST)


def _require(*clauses: bool) -> None:
    if not all(clauses):
        raise Refusal(RefusalCode.INVALID_POLICY)


def _named(*names: str) -> bool:
    try:
        for name in names:
            identifier(name)
    except InvalidIdentifier:
        return False
    return True


def _distinct(words: tuple[str, ...]) -> bool:
    return bool(words) and len(set(words)) == len(words) and all(words)


def _spans(*spans: timedelta, least: timedelta | None = None) -> bool:
    if least is None:
        return all(_ZERO < span <= SPAN_MOST for span in spans)
    return all(least <= span <= SPAN_MOST for span in spans)


def _money(usd: Decimal) -> bool:
    return usd.is_finite() and usd > 0
