"""What is there that no record of ours holds?

Ours without a record is stopped on the books after its grace; ours that was proven gone and is seen again is owed again
at once. What an old copy of the store forgot is left to the restore matcher. Another installation's is reported and
alarmed, and claimed only by command or when it outlived every lifetime. Foreign and unmarked things are counted once
and left alone.
"""

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from controller.core import orphans, restoration
from controller.core.deployment import SeenResource
from controller.core.evidence import StopReason
from controller.core.hosting import unsettled
from controller.core.identity import ResourceKey
from controller.core.lifecycle import LIVE
from controller.core.orphans import Sighting, Whose
from controller.core.policy import HostingPolicy, ModelPolicy
from controller.core.view import View
from controller.news import Looks
from controller.store import claims, duties, history
from controller.store.errors import Stale
from controller.store.store import Store
from controller.store.transaction import Tx
from controller.supervision import Cell, for_each

WRITTEN_AT_ONCE: Final = 100
OTHERS: Final = frozenset({Whose.FOREIGN, Whose.ELSE})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gone:
    """What is remembered, and was not in the latest look."""

    keys: Sequence[ResourceKey]
    installations: Sequence[str]


class OrphanSweeper:
    """One pass over the latest listing; it need not be complete (RP-41)."""

    name = "orphan_sweeper"
    period = timedelta(seconds=60)
    looks_at = Looks.of(
        book=("owner", "standing", "creates", "obligations", "sightings", "settled", "alarms", "matching_since"),
        view=("resources",),
        view_open=("listing",),
    )

    def __init__(
        self,
        *,
        store: Store,
        view: Cell[View],
        policy: HostingPolicy,
        models: Mapping[str, ModelPolicy],
        holder: str,
    ) -> None:
        self._store = store
        self._view = view
        self._policy = policy
        self._models = models
        self._holder = holder
        self._swept: datetime | None = None
        self.left_open = False

    async def run_pass(self) -> datetime | None:
        held, resources = self._store.book.held_keys(), self._view.value.resources
        strays = [
            seen for seen in resources if seen.key not in held and not orphans.ended(seen) and not self._expected(seen)
        ]
        there = {seen.key for seen in resources} - held
        self.left_open = self._gone(there) is not None or not all(self._left_alone(seen) for seen in strays)
        listing = self._view.value.listing if self.left_open else None
        if listing is None:
            return None
        anew = self._swept != listing.began_at
        self._swept = listing.began_at
        await self._remember(strays, anew=anew)
        until = await for_each(strays, partial(self._consider, listing.began_at))
        if listing.complete and anew and (gone := self._gone(there)) is not None:
            await self._forget(gone)
        return until

    def _left_alone(self, seen: SeenResource) -> bool:
        """Is it known to be nobody's of ours? Then no further listing that shows it as it is says anything new."""
        known = self._store.book.sightings.get(seen.key)
        return known is not None and known.whose in OTHERS and known.whose is self._whose(seen)

    def _expected(self, seen: SeenResource) -> bool:
        """May it be what a create of ours, in flight or lost, made? Then the reconciler matches it."""
        create = self._store.book.creates.get(seen.tags.request) if seen.tags.request is not None else None
        if create is None or create.key is not None:
            return False
        record = self._store.book.records.get(create.deployment)
        return record is not None and record.phase in LIVE and record.key is None and unsettled(create)

    async def _remember(self, strays: Sequence[SeenResource], *, anew: bool) -> None:
        """Write first and second sightings, some in one transaction: others get their turn in between."""
        found = [sighting for seen in strays if (sighting := self._sighting(seen, anew=anew)) is not None]
        for begin in range(0, len(found), WRITTEN_AT_ONCE):
            await self._store.write(partial(_sight_all, found[begin : begin + WRITTEN_AT_ONCE]))

    def _sighting(self, seen: SeenResource, *, anew: bool) -> Sighting | None:
        """What is to be remembered now; `None` if nothing changes."""
        whose, now = self._whose(seen), self._store.now
        known = self._store.book.sightings.get(seen.key)
        if known is not None and known.whose is whose:
            again = whose is Whose.OURS and anew and known.times < 2  # nobody else's is ever stopped for being seen
            return replace(known, last_at=now, times=2) if again else None
        return Sighting(
            key=seen.key,
            whose=whose,
            installation=seen.tags.installation,
            first_at=now,
            last_at=now,
            times=1,
            created_at=seen.created_at,
        )

    def _whose(self, seen: SeenResource) -> Whose:
        """A request id that we sent outweighs marks that are not shown: what waits in a queue has none but its name."""
        book = self._store.book
        told = orphans.whose(seen, book.owner)
        create = book.creates.get(seen.tags.request) if seen.tags.request is not None else None
        sent = create is not None and restoration.sent(create)
        return Whose.OURS if sent and told is Whose.UNMARKED and not seen.cluster else told

    async def _consider(self, began_at: datetime, seen: SeenResource) -> datetime | None:
        sighting = self._store.book.sightings.get(seen.key)
        if sighting is None:
            return None
        if sighting.whose is Whose.COPIED:
            return await self._consider_copied(sighting)
        if sighting.whose not in {Whose.OURS, Whose.UNMARKED} or await self._forgotten(seen):
            return None
        # Our own record of its exact key, or of its request id, outweighs marks that are not shown.
        if not seen.cluster and self._returned(seen, began_at):
            await self._owe(seen, StopReason.REAPPEARED)
            return None
        return await self._consider_orphan(seen, sighting) if sighting.whose is Whose.OURS else None

    async def _forgotten(self, seen: SeenResource) -> bool:
        """Has a lost record held it? Then it is no orphan: the restore matcher adopts or owes it first."""
        book, granted = self._store.book, self._store.epochs_known
        if not restoration.lost(seen, book):
            return False
        if book.matching_since is None and not restoration.betrays(seen, book, granted=granted):
            return False
        return bool(await self._store.read(partial(history.unrecorded, found=[seen])))

    def _returned(self, seen: SeenResource, began_at: datetime) -> bool:
        """Was it proven gone, or its create proven fruitless, before this listing began?"""
        book = self._store.book
        settled_at = book.settled.get(seen.key)
        if settled_at is not None:
            return began_at >= settled_at
        create = book.creates.get(seen.tags.request) if seen.tags.request is not None else None
        record = book.records.get(create.deployment) if create is not None else None
        return record is not None and record.phase not in LIVE and record.key is None

    async def _consider_orphan(self, seen: SeenResource, sighting: Sighting) -> datetime | None:
        decision = orphans.decide_orphan(sighting, grace=self._policy.orphan_grace, now=self._store.now)
        await self._alarm_duplicate(seen)
        if isinstance(decision, orphans.StopOrphan):
            await self._owe(seen, StopReason.ORPHAN)
            return None
        return decision.until

    async def _alarm_duplicate(self, seen: SeenResource) -> None:
        """Two resources under one request id: somebody cloned one, or the provider made it twice."""
        request = seen.tags.request
        create = self._store.book.creates.get(request) if request is not None else None
        if create is None or create.key in {None, seen.key} or ("duplicate-tags", create.request) in self._alarms():
            return
        detail = f"{seen.key.incarnation} carries the request id of {create.deployment}"
        subject = create.request
        await self._store.write(lambda tx: tx.raise_alarm("duplicate-tags", subject=subject, detail=detail))

    def _alarms(self) -> Collection[tuple[str, str]]:
        return self._store.book.alarms.keys()

    async def _owe(self, seen: SeenResource, reason: StopReason) -> None:
        try:
            await self._store.write(
                lambda tx: duties.open_stray(tx, seen, reason, holder=self._holder, policy=self._policy)
            )
        except Stale:
            return  # by now a record holds it

    async def _consider_copied(self, sighting: Sighting) -> datetime | None:
        subject = sighting.installation or "unknown"
        if ("copied-installation", subject) not in self._store.book.alarms:
            await self._store.write(
                lambda tx: tx.raise_alarm(
                    "copied-installation",
                    subject=subject,
                    detail="resources of our owner and another installation exist: claim it, or end it there",
                )
            )
        decision = orphans.decide_copied(
            sighting,
            claim_age=self._policy.claim_age,
            claim_silence=self._policy.claim_silence,
            now=self._store.now,
        )
        if isinstance(decision, orphans.Claimable) and sighting.installation is not None:
            await self._claim(sighting.installation)
            return None
        return decision.until if isinstance(decision, orphans.Leave) else None

    async def _claim(self, installation: str) -> None:
        listing = self._view.value.listing
        resources = () if listing is None else listing.resources
        claim = claims.Claim(
            installation=installation,
            resources=resources,
            models=self._models,
            holder=self._holder,
            policy=self._policy,
        )
        await self._store.write(lambda tx: claims.claim(tx, claim))

    def _gone(self, there: Set[ResourceKey]) -> _Gone | None:
        """What is remembered and not there any more, if a complete listing says so."""
        sightings = self._store.book.sightings
        keys = [key for key in sightings if key not in there]
        left = {found.installation for key, found in sightings.items() if key in there}
        standing = [subject for name, subject in self._store.book.alarms if name == "copied-installation"]
        installations = [subject for subject in standing if subject not in left]
        return _Gone(keys=keys, installations=installations) if keys or installations else None

    async def _forget(self, gone: _Gone) -> None:
        """What a complete listing lacks is not there any more."""

        def forget(tx: Tx) -> None:
            for key in gone.keys:
                tx.drop_sighting(key)
            for subject in gone.installations:
                tx.clear_alarm("copied-installation", subject=subject)

        await self._store.write(forget)


def _sight_all(sightings: Sequence[Sighting], tx: Tx) -> None:
    for sighting in sightings:
        duties.sight(tx, sighting)
