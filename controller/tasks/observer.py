"""What is out there?

The one eye. It lists the provider's account, reads single resources whose absence or stop is in question, probes model
servers and asks for prices, each in its own rhythm, and publishes what it saw. It decides nothing and writes nothing; a
failed look leaves what was seen before, with the instant at which it was seen.
"""

from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, Protocol

import anyio

from controller.clock import Clock
from controller.core import bad_places, billing, machine_log
from controller.core.book import Book
from controller.core.costs import follow_costs
from controller.core.deployment import CreateAnswer, Record, SeenResource
from controller.core.evidence import StopReason
from controller.core.identity import RequestId, ResourceKey
from controller.core.inventory import Absences, Listing, Present, Unreadable, follow
from controller.core.lifecycle import Phase
from controller.core.policy import HostingPolicy
from controller.core.readiness import Verdict
from controller.core.recognition import recognised
from controller.core.shortage import Shortage
from controller.core.view import View
from controller.news import Looks
from controller.providers.reading import Reading
from controller.store.store import Store
from controller.supervision import Cell
from controller.upstreams.probe import Probe, ProbeTarget
from controller.upstreams.proof import probed, proof_holds

CALLS_AT_ONCE: Final = 8
PROBE_STARTING: Final = timedelta(seconds=5)
"""A machine that is expected any moment is asked so often; each second of it is paid for."""
AT_ONCE: Final = datetime.min.replace(tzinfo=UTC)
LIST_GAP_LEAST: Final = timedelta(seconds=1)
PRICES_FRESH: Final = timedelta(minutes=30)
"""A machine tells its own price once it is there, and that is held against its ceiling; this one is for the order."""
PRICES_RETRY: Final = timedelta(seconds=60)
STORAGE_FRESH: Final = timedelta(hours=6)
"""Nothing waits for it, and a volume seldom changes."""
STORAGE_RETRY: Final = timedelta(minutes=30)
STOCK_FRESH: Final = timedelta(seconds=30)
"""While somebody waits: half of what a hint is believed for."""
PLACES_FRESH: Final = timedelta(minutes=5)
"""Asked again once before the shortest hold after failed starts is over, should the first answer not come."""


Look = Callable[[], Coroutine[Any, Any, None]]


class Prober(Protocol):
    async def probe(self, target: ProbeTarget) -> Probe: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """How one model's servers are probed."""

    server: str
    secret_reference: str | None
    credential: str | None
    ask_version: bool = False
    cards: int = 1
    volumes: bool = False


class Observer:
    """Looks, and publishes a new `View`."""

    name = "observer"
    looks_at = Looks.of(
        book=("owner", "standing", "creates", "obligations", "memories", "starts", "settled", "sightings")
    )

    def __init__(
        self,
        *,
        store: Store,
        reading: Reading,
        prober: Prober,
        view: Cell[View],
        clock: Clock,
        rules: "Rules",
    ) -> None:
        self._store = store
        self._reading = reading
        self._prober = prober
        self._view = view
        self._clock = clock
        self._rules = rules
        self._fast_until = clock.now() + rules.policy.listing_fast_for
        self._listed_at: datetime | None = None
        self._priced_at: datetime | None = None
        self._stock_at: dict[str, datetime] = {}
        self._resumed_at = store.clock.resumed_at
        self.period = max(rules.policy.listing_idle, timedelta(seconds=60)) + rules.policy.call_limit

    async def run_pass(self) -> datetime | None:
        """Do every look that is due, side by side; return when the next one is."""
        now, looks = self._clock.now(), self._looks(self._store.book)
        due = [look for at, look in looks if now >= at]
        if not due:
            return min(at for at, _ in looks)
        if len(due) == 1:
            await due[0]()
        else:
            async with anyio.create_task_group() as group:
                for look in due:
                    group.start_soon(look)
        return min(at for at, _ in self._looks(self._store.book))

    def _looks(self, book: Book) -> list[tuple[datetime, Look]]:
        """Every look that may be of use, and when it is due."""
        looks: list[tuple[datetime, Look]] = [
            (self._listing_due(book), partial(self._list, book)),
            (self._prices_due(), self._read_prices),
        ]
        if (bill_at := self._bill_due(book)) is not None:
            looks.append((bill_at, self._read_bill))
        if (storage_at := self._storage_due()) is not None:
            looks.append((storage_at, self._read_storage))
        looks += [(at, partial(self._read_stock, model)) for model, at in self._stock_due(book).items()]
        looks += [
            (self._probe_due(record), partial(self._probe, record, seen)) for record, seen in self._reachable(book)
        ]
        looks += [(at, partial(self._read_log, record, seen)) for record, seen, at in self._logs_due(book)]
        return looks

    # Listings

    def interval(self, book: Book) -> timedelta:
        """The rhythm of listings: fast while anything is open-ended, steady while all is well, slow with nothing
        alive."""
        policy, now = self._rules.policy, self._clock.now()
        unsettled = {Phase.DECLARED, Phase.REQUESTED, Phase.UNCERTAIN, Phase.STOP_REQUIRED}
        live = book.live()
        # What is owed for its bill alone is in no listing, and only the bill can end it.
        owed = any(duty.reason is not StopReason.BILLED_AFTER_STOP for duty in book.owed())
        if any(record.phase in unsettled for record in live) or owed or book.unrecorded:
            return policy.listing_fast
        if now < self._fast_until:
            return policy.listing_fast
        return policy.listing_steady if live else policy.listing_idle

    def _listing_due(self, book: Book) -> datetime:
        if self._listed_at is None:
            return AT_ONCE
        due = self._listed_at + self.interval(book)
        if self._view.value.failing_since is None and self._wants_proof(book):
            due = min(due, self._listed_at + LIST_GAP_LEAST)
        return due

    def _wants_proof(self, book: Book) -> bool:
        """Has a stop been answered, a start been wished for, or were we away, since the latest listing began?"""
        listing = self._view.value.listing
        if listing is None:
            return True
        resumed_at = self._store.clock.resumed_at
        if resumed_at is not None and resumed_at > listing.began_at:
            return True
        answered = [duty.stop_ended_at for duty in book.owed() if duty.stop_ended_at is not None]
        if any(at >= listing.began_at for at in answered):
            return True
        return bool(self._rules.wanted()) and not self._view.value.fresh(self._rules.policy, now=self._clock.now())

    async def _list(self, book: Book) -> None:
        """List once. Only what was on record before the listing began can be missing from it."""
        self._listed_at = self._clock.now()
        keys, open_duties = book.held_keys(), [duty for duty in book.obligations.values() if duty.open]
        requests = frozenset(duty.request for duty in open_duties if duty.request is not None)
        listing = recognised(await self._reading.list_resources(), self._store.book)
        self._witness_epochs(listing)
        view = self._view.value
        seen = {resource.key: listing.ended_at for resource in listing.resources}
        forgotten = {key: at for key, at in view.sighted.items() if key in keys}
        self._publish(
            listing=listing,
            completed=listing if listing.complete else view.completed,
            failing_since=None if listing.complete else view.failing_since or listing.began_at,
            absences=self._absences(listing, keys, requests),
            costs=follow_costs(view.costs, listing, keys=keys),
            sighted={**forgotten, **seen},
            interval=self.interval(book),
        )
        await self._read_doubtful(listing)

    def _witness_epochs(self, listing: Listing) -> None:
        """Before anybody decides on this listing: no grant may repeat an epoch that it shows."""
        owner = self._store.book.owner
        for resource in listing.resources:
            if owner.holds(resource.tags):
                self._store.witness_epoch(resource.tags.epoch)

    def _absences(self, listing: Listing, keys: frozenset[ResourceKey], requests: frozenset[RequestId]) -> Absences:
        """What stays missing. Two listings with time between them that nobody lived through are not two looks that far
        apart: the count begins anew."""
        former, self._resumed_at = self._resumed_at, self._store.clock.resumed_at
        if former != self._resumed_at:
            return Absences()
        return follow(self._view.value.absences, listing, keys=keys, requests=requests)

    async def _read_doubtful(self, listing: Listing) -> None:
        """Read what a complete listing lacked, and what a stop was sent for: absence needs a read beside it. What a
        failed one lacks is not in doubt, and reading all of it would hold up every look while the provider is down."""
        seen = {resource.key for resource in listing.resources}
        doubtful = [
            duty.key
            for duty in self._store.book.obligations.values()
            if duty.open
            and duty.key is not None
            and ((listing.complete and duty.key not in seen) or duty.stop_ended_at is not None)
        ]
        if not doubtful:
            return  # as nearly always: no group, no limiter
        limiter = anyio.CapacityLimiter(CALLS_AT_ONCE)
        async with anyio.create_task_group() as group:
            for key in doubtful:
                group.start_soon(self._read, key, limiter)

    async def _read(self, key: ResourceKey, limiter: anyio.CapacityLimiter) -> None:
        async with limiter:
            answer = await self._reading.read_resource(key)
        view, held = self._view.value, self._store.book.held_keys()
        kept = {known: read for known, read in view.reads.items() if known in held}
        sighted = view.sighted
        if isinstance(answer, Present):
            answer = replace(answer, resource=replace(answer.resource, key=key))
            sighted = {**sighted, key: answer.observed_at}
        self._publish(reads={**kept, key: answer}, sighted=sighted)

    # Probes

    def _reachable(self, book: Book) -> list[tuple[Record, SeenResource]]:
        """What can be probed: it has an endpoint, and its model is configured."""
        listing = self._view.value.listing
        seen = {} if listing is None else {resource.key: resource for resource in listing.resources}
        return [
            (record, seen[record.key])
            for record in book.live()
            if record.key in seen
            and seen[record.key].endpoint is not None
            and record.phase in {Phase.REQUESTED, Phase.ACTIVE}
            and record.model in self._rules.watched
        ]

    def _probe_due(self, record: Record) -> datetime:
        latest = self._view.value.probes.get(record.id)
        if latest is None:
            return AT_ONCE
        healthy = record.phase is Phase.ACTIVE and latest.verdict is Verdict.READY
        policy = self._rules.policy
        return latest.at + (policy.listing_steady if healthy else min(PROBE_STARTING, policy.listing_fast))

    async def _probe(self, record: Record, seen: SeenResource) -> None:
        watched, former = self._rules.watched[record.model], self._view.value.probes.get(record.id)
        if seen.endpoint is None:
            return
        probe = await self._prober.probe(
            ProbeTarget(
                endpoint=seen.endpoint,
                server="llama_cpp" if watched.server == "llama_cpp" else "vllm",
                secret_reference=watched.secret_reference,
                credential=watched.credential,
                ask_version=watched.ask_version,
                proven=proof_holds(former, seen, now=self._clock.now()),
            )
        )
        if probe.verdict is not Verdict.READY and record.phase is Phase.ACTIVE:
            self._fast_until = self._clock.now() + self._rules.policy.listing_fast_for
        live = {held.id for held in self._store.book.live()}
        kept = {known: at_hand for known, at_hand in self._view.value.probes.items() if known in live}
        self._publish(probes={**kept, record.id: probed(former, probe)})

    # Logs

    def _logs_due(self, book: Book) -> Iterable[tuple[Record, SeenResource, datetime]]:
        """What runs, whose log is of interest, and when to look at it next."""
        for record in book.live():
            seen = None if record.key is None else self._view.value.resource(record.key)
            watched = self._rules.watched.get(record.model)
            if record.phase not in {Phase.REQUESTED, Phase.ACTIVE} or seen is None or watched is None:
                continue
            at = machine_log.due(
                self._view.value.logs.get(record.id),
                phase=record.phase,
                cards=watched.cards,
                unready=record.unready_since is not None,
                container_at=seen.started_at,
                seen_at=record.started_at or record.declared_at,
            )
            if at is not None and seen.started_at is not None:
                yield record, seen, at

    async def _read_log(self, record: Record, seen: SeenResource) -> None:
        log = await self._reading.read_log(seen.key)
        live = {held.id for held in self._store.book.live()}
        kept = {known: logged for known, logged in self._view.value.logs.items() if known in live}
        former, container_at = kept.get(record.id), seen.started_at
        if isinstance(log, Unreadable):
            at = self._clock.now()
            logged = machine_log.failed(former, problem=log.problem, at=at, container_at=container_at)
        else:
            logged = machine_log.follow(former, log, container_at=container_at)
        self._publish(logs={**kept, record.id: logged})

    # Prices

    def _prices_due(self) -> datetime:
        if self._priced_at is None:
            return AT_ONCE
        return self._priced_at + (PRICES_FRESH if self._view.value.usd_per_hour else PRICES_RETRY)

    async def _read_prices(self) -> None:
        self._priced_at = self._clock.now()
        prices = await self._reading.read_prices()
        if prices.problem is None:
            unlisted = self._view.value.unlisted if prices.unlisted is None else prices.unlisted
            self._publish(usd_per_hour=dict(prices.usd_per_hour), priced_at=prices.observed_at, unlisted=unlisted)

    # Volumes

    def _storage_due(self) -> datetime | None:
        storage = self._view.value.storage
        if not any(watched.volumes for watched in self._rules.watched.values()):
            return None
        if storage is None or storage.asked_at is None:
            return AT_ONCE
        return storage.asked_at + (STORAGE_FRESH if storage.problem is None else STORAGE_RETRY)

    async def _read_storage(self) -> None:
        found, former = await self._reading.read_storage(), self._view.value.storage
        if found.problem is not None and former is not None:
            found = replace(found, volumes=former.volumes)
        self._publish(storage=found)

    # The bill

    def _bill_due(self, book: Book) -> datetime | None:
        bill = self._view.value.bill
        asked_at = None if bill is None else bill.asked_at
        alive = [record.started_at for record in book.live() if record.started_at and record.key]
        duties, now = book.obligations.values(), self._store.now
        return billing.next_look(book.settled, duties, alive=alive, asked_at=asked_at, now=now)

    async def _read_bill(self) -> None:
        book = self._store.book
        begun = [record.started_at for record in book.records.values() if record.started_at and record.key]
        since = billing.since(book.settled, book.obligations.values(), begun=begun, now=self._store.now)
        self._publish(bill=await self._reading.read_bill(since))

    # Stock

    def _scarce(self, book: Book) -> list[str]:
        """The models that are asked for now and of which an offer was refused: only then a hint is worth a call."""
        refused = {create.deployment for create in book.creates.values() if create.answer is CreateAnswer.REJECTED}
        asked = {record.model for record in book.live() if record.phase is Phase.DECLARED and record.id in refused}
        waited_for = {model for model in self._rules.wanted() if book.memory(model).next_round_at is not None}
        return sorted((asked | waited_for) & self._rules.watched.keys())

    def _stock_due(self, book: Book) -> dict[str, datetime]:
        """Of a model that starts are to keep out of some place, where else there is something: known before the next
        one."""
        failed = bad_places.models_with(book, now=self._store.now) & self._rules.watched.keys()
        fresh = dict.fromkeys(sorted(failed), PLACES_FRESH) | dict.fromkeys(self._scarce(book), STOCK_FRESH)
        asked_at = self._stock_at
        return {model: asked_at[model] + span if model in asked_at else AT_ONCE for model, span in fresh.items()}

    async def _read_stock(self, model: str) -> None:
        self._stock_at[model] = self._clock.now()
        stock = await self._reading.read_stock(model)
        if stock.problem is None:
            shortage = Shortage(offers=stock.none_left, at=stock.observed_at)
            self._publish(shortages={**self._view.value.shortages, model: shortage})

    def _publish(self, **seen: Any) -> None:
        """What is as it was stays the very same value, so that nobody is woken for it."""
        view = self._view.value
        self._view.publish(replace(view, **{name: new for name, new in seen.items() if new != getattr(view, name)}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the observer is told about rhythm and interest."""

    policy: HostingPolicy
    watched: Mapping[str, Watched]
    wanted: "Wanted"


class Wanted(Protocol):
    def __call__(self) -> frozenset[str]: ...
