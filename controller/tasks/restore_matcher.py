"""Is this store an old copy, and is everything that it forgot on record again?

A copy that was put back by hand betrays itself: a resource of ours, or a gateway's stream lease, carries what this
store never gave. Then epochs are raised as after `gpuwarden restore`. Until listings have had the time to show all that
can have been made, nothing is created, and each resource that only a lost record can explain is adopted where its model
has room, else owed a stop (`core.restoration`). What the copy remembers goes its usual way: absence is proven, lost
creates are looked for, by the tasks that always do it.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from controller.clock import Clock
from controller.core import restoration
from controller.core.deployment import SeenResource
from controller.core.evidence import StopReason
from controller.core.identity import DeploymentId, RequestId
from controller.core.inventory import Listing
from controller.core.restoration import Adopt, Owe, Wait
from controller.core.view import View
from controller.news import Looks
from controller.store import duties, history, restoring
from controller.store.adopting import Adopter, Place, adopt
from controller.store.store import Store
from controller.store.stream_leases import StreamLeases
from controller.store.transaction import Tx
from controller.supervision import Cell

NOTICED_BY_RESOURCE = "a resource carries what this store never gave"
NOTICED_BY_GATEWAY = "a gateway holds what this store never gave"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What others still know of the lost records."""

    listing: Listing
    streaming: frozenset[DeploymentId]
    """What gateways hold open and no deployment of this store is called."""


class RestoreMatcher:
    """One pass over the latest listing."""

    name = "restore_matcher"
    period = timedelta(seconds=60)
    looks_at = Looks.of(
        book=("owner", "standing", "creates", "obligations", "settled", "epoch_latest", "matching_since"),
        view=("resources",),
        view_open=("listing",),
    )

    def __init__(
        self,
        *,
        store: Store,
        view: Cell[View],
        stream_leases: StreamLeases,
        clock: Clock,
        adopter: Adopter,
        recalled: Mapping[RequestId, DeploymentId],
    ) -> None:
        self._store = store
        self._view = view
        self._stream_leases = stream_leases
        self._adopter = adopter
        self._recalled = recalled
        """For which deployment each create was, as the evidence file tells."""
        self._began_at = clock.now()
        self._clock = clock
        self.left_open = False

    async def run_pass(self) -> datetime | None:
        self.left_open = self._store.book.matching_since is not None
        if self._store.book.matching_since is None and (why := await self._betrayed()) is not None:
            older = restoring.Older(why=why)
            policy, holder = self._adopter.policy, self._adopter.holder
            await self._store.write(lambda tx: restoring.notice(tx, older, policy=policy, holder=holder))
            self.left_open = True
            self._store.epochs_known = self._store.book.epoch_latest
        if self._store.book.matching_since is not None and (listing := self._view.value.listing) is not None:
            await self._match(listing)
        return None if self._gateways_told() else self._told_at

    @property
    def _told_at(self) -> datetime:
        """By then every gateway has said what it has open."""
        return self._lived_since(self._began_at) + self._stream_leases.lifetime

    def _lived_since(self, instant: datetime) -> datetime:
        """Time that nobody here lived through (after a reboot, in a pause) brought no word and no look."""
        resumed_at = self._store.clock.resumed_at
        return instant if resumed_at is None else max(instant, resumed_at)

    def _gateways_told(self) -> bool:
        return self._clock.now() >= self._told_at

    async def _betrayed(self) -> str | None:
        book, granted = self._store.book, self._store.epochs_known
        strange = self._stream_leases.strange(now=self._store.now)
        if any(restoration.newer(lease.epoch, granted) for lease in strange):
            return NOTICED_BY_GATEWAY
        found = restoration.strangers(self._view.value.resources, book)
        telling = [seen for seen in found if restoration.betrays(seen, book, granted=granted)]
        self.left_open = bool(telling)
        if telling and await self._store.read(partial(history.unrecorded, found=telling)):
            return NOTICED_BY_RESOURCE
        return None

    async def _match(self, listing: Listing) -> None:
        told = Told(listing=listing, streaming=await self._streaming())
        found = restoration.strangers(listing.resources, self._store.book, vouched=self._vouched(told))
        lost = await self._store.read(partial(history.unrecorded, found=found)) if found else []
        decisions = [self._decide(seen, told) for seen in lost]
        if any(not isinstance(decision, Wait) for decision in decisions) or (not lost and self._over(told)):
            await self._store.write(lambda tx: self._settle(tx, lost, told))

    async def _streaming(self) -> frozenset[DeploymentId]:
        names = {lease.deployment for lease in self._stream_leases.strange(now=self._store.now)}
        unknown = await self._store.read(partial(history.unknown_names, names=names)) if names else names
        return frozenset(unknown)

    def _vouched(self, told: Told) -> frozenset[RequestId]:
        """Requests that are surely ours though their resource may show no marks: the evidence file has them, or a
        gateway streams from a deployment of that model."""
        aliases = {alias_of(name) for name in told.streaming}
        streamed = [seen.tags.request for seen in told.listing.resources if seen.namespaced and seen.alias in aliases]
        return frozenset(self._recalled) | {request for request in streamed if request is not None}

    def _over(self, told: Told) -> bool:
        """A clock that went back since must not put the end off for ever."""
        since = min(self._store.book.matching_since or self._began_at, self._began_at)
        return restoration.settled(told.listing, since=self._lived_since(since), settle=self._adopter.policy.settle)

    def _decide(self, seen: SeenResource, told: Told, tx: Tx | None = None) -> Adopt | Owe | Wait:
        book = self._store.book if tx is None else tx.book
        model = self._adopter.models.get(seen.alias) if seen.alias is not None else None
        occupants = [] if model is None else [book.occupant(model.alias, slot) for slot in range(model.slots)]
        decision = restoration.decide(model, occupants, told.listing.by_key, settled=self._over(told))
        if isinstance(decision, Adopt) and model is not None and not self._gateways_told():
            named = self._name_of(seen, model.alias, told.streaming) is not None
            return decision if named else Wait()  # a gateway may tell under which name it has it open
        return decision

    def _settle(self, tx: Tx, lost: list[SeenResource], told: Told) -> None:
        waiting = False
        names = set(told.streaming)
        for seen in lost:
            if seen.key in tx.book.held_keys():
                continue
            decision = self._decide(seen, told, tx)
            if isinstance(decision, Adopt):
                self._adopt(tx, seen, decision, names)
            elif isinstance(decision, Owe):
                policy, holder = self._adopter.policy, self._adopter.holder
                duties.open_stray(tx, seen, StopReason.ORPHAN, holder=holder, policy=policy)
            waiting |= isinstance(decision, Wait)
        if self._over(told) and not waiting:
            restoring.matched(tx)

    def _adopt(self, tx: Tx, seen: SeenResource, decision: Adopt, names: set[DeploymentId]) -> None:
        """Under the name that gateways know it by, so that what they have open goes on counting."""
        model = self._adopter.models[seen.alias or ""]
        name = tx.free_name(self._name_of(seen, model.alias, names))
        names.discard(name or DeploymentId(""))
        tx.line("resource.claimed", resource=seen.key, request=seen.tags.request, detail={"from": "a restored store"})
        place = Place(model=model, slot=decision.slot, name=name)
        adopt(tx, seen, place, self._adopter, told={"restored": True})

    def _name_of(self, seen: SeenResource, alias: str, names: Set[DeploymentId]) -> DeploymentId | None:
        request = seen.tags.request
        if request is not None and request in self._recalled:
            return self._recalled[request]
        streaming = sorted(name for name in names if alias_of(name) == alias)
        return streaming[0] if streaming else None


def alias_of(name: DeploymentId) -> str:
    """Of which model a deployment is, as its name tells."""
    return name.rpartition("-")[0]
