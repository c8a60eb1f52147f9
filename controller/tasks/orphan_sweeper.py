"""What is there that no record of ours holds?

Ours without a record is stopped on the books after its grace; ours that was proven gone and is seen again is owed again
at once. Another installation's is reported and alarmed, and claimed only by command or when it outlived every lifetime.
Foreign and unmarked things are counted once and left alone.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from controller.core import orphans
from controller.core.deployment import SeenResource
from controller.core.evidence import StopReason
from controller.core.hosting import unsettled
from controller.core.identity import ResourceKey
from controller.core.lifecycle import LIVE
from controller.core.orphans import Sighting, Whose
from controller.core.policy import HostingPolicy, ModelPolicy
from controller.core.view import View
from controller.store import claims, duties
from controller.store.store import Store
from controller.store.transaction import Tx
from controller.supervision import Cell


class OrphanSweeper:
    """One pass over the latest listing; it need not be complete (RP-41)."""

    name = "orphan_sweeper"
    period = timedelta(seconds=60)

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

    async def run_pass(self) -> datetime | None:
        listing = self._view.value.listing
        if listing is None:
            return None
        anew = self._swept != listing.began_at
        self._swept = listing.began_at
        deadlines = []
        held = self._store.book.held_keys()
        for seen in listing.resources:
            if seen.key in held or orphans.ended(seen) or self._expected(seen):
                continue
            until = await self._consider(seen, anew=anew, began_at=listing.began_at)
            if until is not None:
                deadlines.append(until)
        if listing.complete and anew:
            await self._forget({seen.key for seen in listing.resources} - held)
        return min(deadlines, default=None)

    def _expected(self, seen: SeenResource) -> bool:
        """May it be what a create of ours, in flight or lost, made? Then the reconciler matches it."""
        create = self._store.book.creates.get(seen.tags.request) if seen.tags.request is not None else None
        if create is None or create.key is not None:
            return False
        record = self._store.book.records.get(create.deployment)
        return record is not None and record.phase in LIVE and record.key is None and unsettled(create)

    async def _consider(self, seen: SeenResource, *, anew: bool, began_at: datetime) -> datetime | None:
        whose = orphans.whose(seen, self._store.book.owner)
        if whose is Whose.OURS and self._returned(seen, began_at):
            await self._owe(seen, StopReason.REAPPEARED)
            return None
        if whose is Whose.ELSE:
            return None
        sighting = await self._sight(seen, whose, anew=anew)
        if whose is Whose.OURS:
            return await self._consider_orphan(seen, sighting)
        if whose is Whose.COPIED:
            return await self._consider_copied(seen, sighting)
        return None

    def _returned(self, seen: SeenResource, began_at: datetime) -> bool:
        """Was it proven gone, or its create proven fruitless, before this listing began?"""
        book = self._store.book
        settled_at = book.settled.get(seen.key)
        if settled_at is not None:
            return began_at >= settled_at
        create = book.creates.get(seen.tags.request) if seen.tags.request is not None else None
        record = book.records.get(create.deployment) if create is not None else None
        return record is not None and record.phase not in LIVE and record.key is None

    async def _sight(self, seen: SeenResource, whose: Whose, *, anew: bool) -> Sighting:
        known, now = self._store.book.sightings.get(seen.key), self._store.now
        if known is None or known.whose is not whose:
            sighting = Sighting(
                key=seen.key,
                whose=whose,
                installation=seen.tags.installation,
                first_at=now,
                last_at=now,
                times=1,
                created_at=seen.created_at,
            )
        elif anew and known.times < 2:
            sighting = replace(known, last_at=now, times=2)
        else:
            return known
        await self._store.write(lambda tx: duties.sight(tx, sighting))
        return sighting

    async def _consider_orphan(self, seen: SeenResource, sighting: Sighting) -> datetime | None:
        decision = orphans.decide_orphan(sighting, grace=self._policy.orphan_grace, now=self._store.now)
        if isinstance(decision, orphans.StopOrphan):
            await self._owe(seen, StopReason.ORPHAN)
            return None
        return decision.until

    async def _owe(self, seen: SeenResource, reason: StopReason) -> None:
        await self._store.write(
            lambda tx: duties.open_stray(tx, seen, reason, holder=self._holder, policy=self._policy)
        )

    async def _consider_copied(self, seen: SeenResource, sighting: Sighting) -> datetime | None:
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

    async def _forget(self, seen: set[ResourceKey]) -> None:
        """What a complete listing lacks is not there any more."""
        gone = [key for key in self._store.book.sightings if key not in seen]
        left = {found.installation for key, found in self._store.book.sightings.items() if key in seen}
        standing = [subject for name, subject in self._store.book.alarms if name == "copied-installation"]
        over = [subject for subject in standing if subject not in left]

        def forget(tx: Tx) -> None:
            for key in gone:
                tx.drop_sighting(key)
            for subject in over:
                tx.clear_alarm("copied-installation", subject=subject)

        if gone or over:
            await self._store.write(forget)
