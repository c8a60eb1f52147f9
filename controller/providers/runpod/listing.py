"""What does the account hold that may be ours, and was all of it seen?

A listing counts as complete only when every page was read to an end that was stated, and each entry that may be ours
could be described. Pods that wait in Runpod's queue are part of it as far as they are under our name; a queue that
cannot be read leaves open what a lost create made, not what the pages showed.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import quote

import anyio

from controller.core.deployment import ProviderState
from controller.core.inventory import Listing
from controller.providers.errors import ProviderError
from controller.providers.runpod import queue, wire
from controller.providers.runpod.account import Account
from controller.providers.runpod.order import RunpodModel, fitting
from controller.providers.runpod.pace import Kind
from controller.providers.runpod.paths import PODS_PATH
from controller.transport import TransportError

# Unknown parameters are ignored by the API, so none is used to narrow what is seen.
LISTING_PATH: Final = f"{PODS_PATH}?limit=1000&includeClusterPods=true"
LISTING_LIMIT: Final = timedelta(seconds=60)
PAGES_MAX: Final = 200
QUEUE_LIMIT: Final = timedelta(seconds=10)
"""A queue that does not answer must not hold up what bills now."""
NO_QUEUE: Final = frozenset({404, 405})
"""The API knows no queue."""


class ListingReader:
    """Reads one listing after another; remembers when the queue was looked at, and nothing of a listing."""

    def __init__(self, account: Account, reader: wire.Reader, models: Mapping[str, RunpodModel]) -> None:
        self._account = account
        self._clock = account.clock
        self._reader = reader
        self._models = models
        self._queue = _Queue(account)

    async def read(self) -> Listing:
        began_at = self._clock.now()
        walk = _Walk()
        with anyio.move_on_after(LISTING_LIMIT.total_seconds()) as limit:
            await self._walk(walk)
            if walk.problem is None and self._queue.due():
                walk.queue_readable = False
                await self._walk_queue(walk)
        if limit.cancelled_caught:
            walk.problem = f"not read to its end within {LISTING_LIMIT.total_seconds():g} s"
        if walk.problem is None:
            self._reader.starts.keep_only(walk.pods)
        return walk.listing(began_at=began_at, ended_at=self._clock.now())

    async def _walk(self, walk: "_Walk") -> None:
        """Read page after page into `walk`, to the stated end or the first fault."""
        cursors: set[str] = set()
        path = LISTING_PATH
        for _ in range(PAGES_MAX):
            try:
                answer = await self._account.call(Kind.READ, "GET", path)
            except (ProviderError, TransportError) as error:
                walk.problem = str(error)
                return
            if answer.code != 200:
                walk.problem = self._account.words(answer)
                return
            page = self._reader.page(answer.body, now=self._clock.now())
            page = replace(page, pods=tuple(self._compared(pod) for pod in page.pods))
            walk.add(page, said_at=wire.said_at(answer.headers))
            if page.next_cursor is None:
                return
            if page.next_cursor in cursors:
                walk.problem = "the listing goes in a circle"
                return
            cursors.add(page.next_cursor)
            path = f"{LISTING_PATH}&cursor={quote(page.next_cursor, safe='')}"
        walk.problem = f"the listing has more than {PAGES_MAX} pages"

    def _compared(self, pod: wire.Pod) -> wire.Pod:
        """What a lost create made is compared with what it ordered when it is found (RP-21)."""
        self._account.note_lock(pod.seen.key.incarnation, pod.locked)
        model = self._models.get(pod.seen.alias or "") if pod.ours else None
        return pod if model is None else replace(pod, seen=replace(pod.seen, fits=fitting(pod, model)))

    async def _walk_queue(self, walk: "_Walk") -> None:
        """Add what waits under our name; what cannot be read leaves it open what a lost create made."""
        found: list[wire.Pod] = []
        with anyio.move_on_after(QUEUE_LIMIT.total_seconds()):
            walk.queue_readable = await self._read_queue(found)
        problem = None
        if self._queue.holds_ours and not walk.queue_readable:
            problem = "the queue, in which something of ours waited, could not be read"
        walk.add(wire.Page(pods=tuple(found), problem=problem), said_at=None)
        waiting = any(pod.seen.state is not ProviderState.TERMINATED for pod in found)
        self._queue.looked(readable=walk.queue_readable, waiting=waiting)

    async def _read_queue(self, found: list[wire.Pod]) -> bool:
        """Read page after page into `found`; True if all of it could be read and told apart."""
        cursor, readable = "", True
        for _ in range(PAGES_MAX):
            page = await self._queue_page(queue.QUEUE_PATH + (f"?cursor={quote(cursor, safe='')}" if cursor else ""))
            found += page.pods
            readable = readable and page.readable and page.problem is None
            if page.next_cursor is None or page.problem is not None:
                return readable
            cursor = page.next_cursor
        return False

    async def _queue_page(self, path: str) -> queue.QueuePage:
        try:
            answer = await self._account.call(Kind.READ, "GET", path)
        except (ProviderError, TransportError) as error:
            return queue.QueuePage(problem=str(error))
        if answer.code in NO_QUEUE and wire.problem_in(answer.code, answer.headers, answer.body) is not None:
            return queue.QueuePage(readable=True)
        if answer.code != 200:
            return queue.QueuePage(problem=self._account.words(answer))
        return queue.read_page(answer.body, self._reader, now=self._clock.now())


class _Queue:
    """When is the queue worth a call? After a create of which nobody knows what it made, while something of ours waits
    in it or it could not be read, and else now and then."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._looked_at: timedelta | None = None
        self._readable = False
        self.holds_ours = False

    def due(self) -> bool:
        now, doubted_at = self._account.clock.boot(), self._account.doubted_at
        if self._looked_at is None or self.holds_ours or not self._readable:
            return True
        if doubted_at is not None and now < doubted_at + queue.AFTER_A_LOST_CREATE:
            return True
        return now >= self._looked_at + queue.LOOKED_AT_EVERY

    def looked(self, *, readable: bool, waiting: bool) -> None:
        self._looked_at = self._account.clock.boot()
        self._readable = readable
        self.holds_ours = waiting or (self.holds_ours and not readable)


class _Walk:
    """What the pages read so far showed."""

    def __init__(self) -> None:
        self.pods: dict[str, wire.Pod] = {}
        self.problem: str | None = None
        self.queue_readable = True
        """As far as it was looked at."""
        self._said_at: datetime | None = None

    def add(self, page: wire.Page, *, said_at: datetime | None) -> None:
        # The order is newest first, so a pod made meanwhile repeats an entry on the next page: one id, one pod.
        for pod in page.pods:
            earlier = self.pods.get(pod.seen.key.incarnation)
            # Two entries that contradict each other do not end a pod.
            if earlier is None or pod.seen.state is not ProviderState.TERMINATED:
                self.pods[pod.seen.key.incarnation] = pod
        self.problem = self.problem or page.problem
        self._said_at = said_at or self._said_at

    def listing(self, *, began_at: datetime, ended_at: datetime) -> Listing:
        complete = self.problem is None
        return Listing(
            began_at=began_at,
            ended_at=ended_at,
            complete=complete,
            resources=tuple(pod.seen for pod in self.pods.values()),
            requests_readable=complete
            and self.queue_readable
            and all(pod.seen.tags.request is not None for pod in self.pods.values() if pod.ours),
            problem=self.problem,
            provider_time=self._said_at,
        )
