"""What does a provider promise through the two ports, told without any HTTP?

An account in plain Python: creates and stops do what was scripted for them, else they succeed. `resources` is the
truth, what is listed may lag behind it or lack something, and calls are counted by kind, so that a test can say that
looking allocated nothing. Faults are values of the ports, as with a real provider: nothing raises.
"""

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Final

from controller.clock import Clock
from controller.core.billing import Bill, Bucket
from controller.core.deployment import ProviderState, SeenResource
from controller.core.identity import RequestId, ResourceKey, Scope, Tags
from controller.core.inventory import Listing, NotFound, Present, Read, Unreadable
from controller.core.machine_log import Log, LogLine
from controller.core.storage import Storage
from controller.core.unlisted import Unlisted
from controller.providers.reading import Prices, Stock
from controller.providers.writing import (
    CreateAccepted,
    CreateNotSent,
    CreateOutcome,
    CreateRejected,
    CreateUnknown,
    Order,
    RejectedFor,
    StopAccepted,
    StopNotFound,
    StopOutcome,
    StopRefused,
    StopUnknown,
)

PRICE: Final = Decimal("0.79")


class Made(StrEnum):
    """What becomes of one create."""

    ACCEPTED = "accepted"
    LOST_BUT_MADE = "lost-but-made"
    LOST_NOT_MADE = "lost-not-made"
    NOT_SENT = "not-sent"
    NO_CAPACITY = "no-capacity"
    NO_FUNDS = "no-funds"
    BAD_ORDER = "bad-order"
    BAD_KEY = "bad-key"
    TOO_OFTEN = "too-often"


class Ended(StrEnum):
    """What becomes of one stop."""

    ACCEPTED = "accepted"
    IGNORED = "ignored"
    """Said yes, did nothing."""
    REFUSED = "refused"
    LOST_BUT_DONE = "lost-but-done"
    LOST_NOT_DONE = "lost-not-done"


class Looked(StrEnum):
    """What one listing shows."""

    WHOLE = "whole"
    PARTIAL = "partial"
    """Everything, but not said to be everything."""
    EMPTY = "empty"
    """Complete, and lacking everything: the provider lies."""
    FAILED = "failed"


REJECTIONS: Final = {
    Made.NO_CAPACITY: RejectedFor.OFFER,
    Made.NO_FUNDS: RejectedFor.FUNDS,
    Made.BAD_ORDER: RejectedFor.ORDER,
    Made.BAD_KEY: RejectedFor.CREDENTIAL,
    Made.TOO_OFTEN: RejectedFor.RATE,
}


@dataclass(slots=True)
class Script:
    """What happens to the next calls, one entry each; afterwards all is well."""

    creates: deque[Made] = field(default_factory=deque)
    stops: deque[Ended] = field(default_factory=deque)
    listings: deque[Looked] = field(default_factory=deque)


@dataclass(slots=True)
class _Held:
    seen: SeenResource
    listed_from: datetime
    listed_until: datetime | None = None
    billed_until: datetime | None = None


class FakeProvider:
    """One account. Both ports at once: a test hands out the one it means."""

    idempotent = False

    def __init__(self, *, scope: Scope, clock: Clock, list_lag: timedelta = timedelta()) -> None:
        self.scope = scope
        self.script = Script()
        self.list_lag = list_lag
        """How long a new resource is missing from listings, and an ended one still in them."""
        self.prices: dict[str, Decimal] = {}
        self.unlisted: dict[str, tuple[Unlisted, ...]] | None = None
        """By model, what the catalog does not have; as it is, it does not tell."""
        self.storage = Storage(volumes=())
        self.sold_out: set[str] = set()
        self.logs: dict[ResourceKey, list[LogLine]] = {}
        """What machines wrote; that of any other cannot be read."""
        self.billed: list[Bucket] = []
        self.calls: Counter[str] = Counter()
        """By kind: create, stop, list, read, prices."""
        self.on_create: Callable[[Order], None] = lambda _: None
        self._clock = clock
        self._held: dict[ResourceKey, _Held] = {}

    @property
    def resources(self) -> tuple[SeenResource, ...]:
        """The truth: what bills now."""
        return tuple(held.seen for held in self._held.values() if held.billed_until is None)

    def put(self, seen: SeenResource) -> None:
        """A resource that nobody asked us for, or another description of one that is there."""
        held = self._held.get(seen.key)
        if held is None:
            self._held[seen.key] = _Held(seen, listed_from=self._clock.now())
        else:
            held.seen = seen

    def vanish(self, key: ResourceKey) -> None:
        """It is gone at once, without any call of ours."""
        self._held.pop(key, None)

    def described(self, key: ResourceKey, *, tags: Tags, state: ProviderState = ProviderState.RUNNING) -> SeenResource:
        """A plain description, to be changed with `replace` where a test needs more."""
        return SeenResource(
            key=key,
            tags=tags,
            namespaced=True,
            state=state,
            word=state.value,
            endpoint=f"http://{key.incarnation}.invalid/v1/" if state is ProviderState.RUNNING else None,
            created_at=self._clock.now(),
            started_at=self._clock.now(),
            usd_per_hour=PRICE,
        )

    async def create(self, order: Order) -> CreateOutcome:
        self.calls["create"] += 1
        self.on_create(order)
        fate = self.script.creates.popleft() if self.script.creates else Made.ACCEPTED
        if (what := REJECTIONS.get(fate)) is not None:
            return CreateRejected(what=what, detail=f"scripted: {fate}")
        match fate:
            case Made.NOT_SENT:
                return CreateNotSent(detail="scripted: nobody listens")
            case Made.LOST_NOT_MADE:
                return CreateUnknown(detail="scripted: no answer")
            case Made.LOST_BUT_MADE:
                self._make(order)
                return CreateUnknown(detail="scripted: no answer")
            case _:
                return CreateAccepted(resource=self._make(order))

    def _make(self, order: Order) -> SeenResource:
        request = order.tags.request or RequestId("unnamed")
        key = ResourceKey(
            provider=self.scope.provider,
            account=self.scope.account,
            name=f"gpuwarden-{order.spec.model}-{request}",
            incarnation=f"m{self.calls['create']}",
        )
        seen = replace(
            self.described(key, tags=order.tags),
            offer=order.offer,
            usd_per_hour=self.prices.get(order.offer, PRICE),
        )
        self._held[key] = _Held(seen, listed_from=self._clock.now() + self.list_lag)
        return seen

    async def stop(self, key: ResourceKey) -> StopOutcome:
        self.calls["stop"] += 1
        held = self._held.get(key)
        if key.scope != self.scope or held is None or held.billed_until is not None:
            return StopNotFound(detail="scripted: not here")
        fate = self.script.stops.popleft() if self.script.stops else Ended.ACCEPTED
        if fate in {Ended.ACCEPTED, Ended.LOST_BUT_DONE}:
            held.billed_until = self._clock.now()
            held.listed_until = self._clock.now() + self.list_lag
        if fate is Ended.REFUSED:
            return StopRefused(detail="scripted: no")
        if fate in {Ended.LOST_BUT_DONE, Ended.LOST_NOT_DONE}:
            return StopUnknown(detail="scripted: no answer")
        return StopAccepted(reference=f"fake-stopped-{key.incarnation}")

    async def list_resources(self) -> Listing:
        self.calls["list"] += 1
        now = self._clock.now()
        look = self.script.listings.popleft() if self.script.listings else Looked.WHOLE
        shown = tuple(held.seen for held in self._held.values() if self._is_listed(held, now))
        complete = look in {Looked.WHOLE, Looked.EMPTY}
        return Listing(
            began_at=now,
            ended_at=now,
            complete=complete,
            resources=shown if look in {Looked.WHOLE, Looked.PARTIAL} else (),
            requests_readable=complete and all(seen.tags.request for seen in shown if seen.namespaced),
            problem=None if complete else f"scripted: {look}",
            provider_time=now,
        )

    def _is_listed(self, held: _Held, now: datetime) -> bool:
        return held.listed_from <= now and (held.listed_until is None or now < held.listed_until)

    async def read_resource(self, key: ResourceKey) -> Read:
        self.calls["read"] += 1
        now = self._clock.now()
        if key.scope != self.scope:
            return Unreadable(problem="scripted: another account", at=now)
        held = self._held.get(key)
        if held is None or (held.listed_until is not None and now >= held.listed_until):
            return NotFound(reference=f"fake-read-404-{key.incarnation}", began_at=now)
        return Present(resource=held.seen, observed_at=now)

    async def read_log(self, key: ResourceKey) -> Log | Unreadable:
        self.calls["log"] += 1
        lines = self.logs.get(key)
        if lines is None:
            return Unreadable(problem="scripted: no log", at=self._clock.now())
        return Log(lines=tuple(lines), read_at=self._clock.now(), whole=True)

    async def read_prices(self) -> Prices:
        self.calls["prices"] += 1
        return Prices(usd_per_hour=dict(self.prices), observed_at=self._clock.now(), unlisted=self.unlisted)

    async def read_bill(self, since: datetime) -> Bill:
        self.calls["bill"] += 1
        return Bill(since=since, asked_at=self._clock.now(), buckets=tuple(self.billed))

    async def read_storage(self) -> Storage:
        self.calls["storage"] += 1
        return replace(self.storage, asked_at=self._clock.now())

    async def read_stock(self, model: str) -> Stock:
        self.calls["stock"] += 1
        return Stock(none_left=frozenset(self.sold_out), observed_at=self._clock.now())
