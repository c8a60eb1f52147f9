"""Which machine answers as healthy, and writes nothing any more?

Follows what each serving machine counts, from probe to probe, and asks `core.hang`. A doubt is laid before the
gateways, who hold the key and ask for one token; their question holds no stream lease, so that it is no use. Without a
gateway, or without counts that can be read, nothing is ever found here: idleness or the lifetime ends such a machine.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from controller.core import hang
from controller.core.deployment import Record
from controller.core.evidence import StopReason
from controller.core.identity import DeploymentId
from controller.core.lifecycle import Phase
from controller.core.policy import HostingPolicy
from controller.core.view import View
from controller.news import Looks
from controller.store import owing
from controller.store.doubts import Doubts
from controller.store.errors import Stale
from controller.store.store import Store
from controller.store.stream_leases import StreamLeases
from controller.supervision import Cell, for_each


class HangDetector:
    """One pass over what serves."""

    name = "hang_detector"
    period = timedelta(seconds=60)
    looks_at = Looks.of(book=("standing",), view_held=("runtimes",))

    def __init__(
        self, *, store: Store, view: Cell[View], stream_leases: StreamLeases, doubts: Doubts, policy: HostingPolicy
    ) -> None:
        self._store = store
        self._view = view
        self._stream_leases = stream_leases
        self._doubts = doubts
        self._policy = policy
        self._still: dict[DeploymentId, hang.Still | None] = {}
        self._followed: dict[DeploymentId, datetime | None] = {}
        """The scrape that each standstill was carried on by last; `None`: its latest probe brought none."""

    async def run_pass(self) -> datetime | None:
        serving = [record for record in self._store.book.live() if record.phase is Phase.ACTIVE]
        kept = frozenset(record.id for record in serving)
        self._doubts.keep_only(kept)
        self._still = {known: still for known, still in self._still.items() if known in kept}
        self._followed = {known: at for known, at in self._followed.items() if known in kept}
        return await for_each(serving, self._consider)

    async def _consider(self, record: Record) -> None:
        probed = self._view.value.probes.get(record.id)
        if probed is None:
            return
        scraped_at = None if probed.runtime is None else probed.runtime.at
        if record.id not in self._followed or self._followed[record.id] != scraped_at:
            self._followed[record.id] = scraped_at
            known = self._still.get(record.id)
            self._still[record.id] = hang.follow(known, probed.runtime, open_requests=self._open(record))
        still, asked = self._still.get(record.id), self._doubts.answer(record.id)
        match hang.decide(still, asked, hung_after=self._policy.hung_after):
            case hang.Hung():
                await self._stop(record)
            case hang.Doubt():
                self._doubts.begin(record.id)
            case hang.Trust():
                self._doubts.end(record.id)
                if still is not None and asked is not None:
                    # It wrote a token: whatever stands still since, stands still from now on.
                    self._still[record.id] = replace(still, since=still.latest)

    def _open(self, record: Record) -> int:
        return self._stream_leases.open_requests(record.id, now=self._store.now)

    async def _stop(self, record: Record) -> None:
        try:
            await owing.oblige(self._store, record, StopReason.HUNG)
        except Stale:
            return
