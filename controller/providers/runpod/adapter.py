"""How do the two ports speak to Runpod?

Each method makes its calls, reads the answers through `wire` and says what is certain; nothing is repeated here,
nothing is remembered but the pace and the container starts. A listing counts as complete only when every page was
read to an end that was stated, and each entry that may be ours could be described.

Pods that wait in Runpod's queue are part of a listing as far as they are under our name. Whether a locked pod refuses
its stop is not known: it is unlocked before.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import quote

import anyio

from controller.core.billing import Bill
from controller.core.deployment import ProviderState
from controller.core.identity import ResourceKey, Tags
from controller.core.inventory import Listing, NotFound, Present, Read, Unreadable
from controller.core.machine_log import Log
from controller.providers.errors import BadOrder, HeldBack, ProviderError
from controller.providers.reading import Prices, Stock
from controller.providers.runpod import document, queue, wire
from controller.providers.runpod.account import Account, Kind, wait_asked
from controller.providers.runpod.billing import read_bill
from controller.providers.runpod.catalog import CATALOG_PATH, clouds_wanted, prices_in, read_none_left
from controller.providers.runpod.log_stream import read_log
from controller.providers.runpod.order import (
    Ordered,
    RunpodModel,
    create_body,
    declared,
    difference,
    fitting,
    resource_name,
)
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
from controller.transport import Answer, NotSent, TransportError

PODS_PATH: Final = "/pods"
# Unknown parameters are ignored by the API, so none is used to narrow what is seen.
LISTING_PATH: Final = f"{PODS_PATH}?limit=1000&includeClusterPods=true"
LISTING_LIMIT: Final = timedelta(seconds=60)
PAGES_MAX: Final = 200
QUEUE_LIMIT: Final = timedelta(seconds=10)
"""A queue that does not answer must not hold up what bills now."""

REJECTIONS: Final = {
    400: RejectedFor.OFFER,
    401: RejectedFor.CREDENTIAL,
    402: RejectedFor.FUNDS,
    403: RejectedFor.OFFER,
    404: RejectedFor.ORDER,
    409: RejectedFor.ORDER,
    413: RejectedFor.ORDER,
    422: RejectedFor.ORDER,
    429: RejectedFor.RATE,
}
NO_QUEUE: Final = frozenset({404, 405})
"""The API knows no queue."""
UNLOCK: Final = b'{"locked": false}'
STOP_REFUSALS: Final = frozenset({401, 403, 409, 429})


class RunpodReading:
    """The port that looks. Allocates nothing."""

    def __init__(self, account: Account, *, namespace: wire.Namespace, models: Iterable[RunpodModel] = ()) -> None:
        self._account = account
        self._clock = account.clock
        self._reader = wire.Reader(namespace)
        models = tuple(models)
        self._models = {model.alias: model for model in models}
        self._wanted = clouds_wanted(models)
        self._queue = _Queue(account)
        self._cards = {offer: machine.gpu for model in models for offer, machine in model.machines().items()}

    async def list_resources(self) -> Listing:
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
                walk.problem = _words(self._account, answer)
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
            return queue.QueuePage(problem=_words(self._account, answer))
        return queue.read_page(answer.body, self._reader, now=self._clock.now())

    async def read_resource(self, key: ResourceKey) -> Read:
        began_at = self._clock.now()
        try:
            answer = await self._account.call(Kind.READ, "GET", resource_path(key))
        except (ProviderError, TransportError) as error:
            return Unreadable(problem=str(error), at=began_at)
        if answer.code == 404 and wire.problem_in(answer.code, answer.headers, answer.body) is not None:
            return NotFound(reference=f"runpod-get-404-{key.incarnation}", began_at=began_at)
        if answer.code != 200:
            return Unreadable(problem=_words(self._account, answer), at=began_at)
        if queue.is_queued(key):
            pod = queue.read_one(answer.body, self._reader, now=self._clock.now())
        else:
            pod = self._reader.pod(answer.body, now=self._clock.now())
        if isinstance(pod, document.Unreadable) or pod.seen.key.incarnation != key.incarnation:
            return Unreadable(problem="the answer does not describe this resource", at=began_at)
        self._account.note_lock(key.incarnation, pod.locked)
        return Present(resource=pod.seen, observed_at=self._clock.now())

    async def read_prices(self) -> Prices:
        problem: str | None = None
        try:
            answer = await self._account.call(Kind.READ, "GET", CATALOG_PATH)
            if answer.code == 200:
                prices = prices_in(answer.body, wanted=self._wanted)
                if not isinstance(prices, document.Unreadable):
                    offered = {offer: prices[gpu] for offer, gpu in self._cards.items() if gpu in prices}
                    return Prices(usd_per_hour=prices | offered, observed_at=self._clock.now())
                problem = prices.what
            else:
                problem = _words(self._account, answer)
        except (ProviderError, TransportError) as error:
            problem = str(error)
        return Prices(usd_per_hour={}, observed_at=self._clock.now(), problem=problem)

    async def read_log(self, key: ResourceKey) -> Log | Unreadable:
        return await read_log(self._account, resource_path(key))

    async def read_bill(self, since: datetime) -> Bill:
        return await read_bill(self._account, since)

    async def read_stock(self, model: str) -> Stock:
        found, at = await read_none_left(self._account, self._models[model]), self._clock.now()
        if isinstance(found, document.Unreadable):
            return Stock(none_left=frozenset(), observed_at=at, problem=found.what)
        return Stock(none_left=found, observed_at=at)


class _Queue:
    """When is the queue worth a call? After a create, while something of ours waits in it or it could not be read, and
    else now and then."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._looked_at: timedelta | None = None
        self._readable = False
        self.holds_ours = False

    def due(self) -> bool:
        now, created_at = self._account.clock.boot(), self._account.created_at
        if self._looked_at is None or self.holds_ours or not self._readable:
            return True
        if created_at is not None and now < created_at + queue.AFTER_A_CREATE:
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


class RunpodWriting:
    """The port that costs or stops."""

    idempotent = False
    """There is no idempotency key: a repeated create makes a second pod."""

    def __init__(self, account: Account, *, namespace: wire.Namespace, models: Mapping[str, RunpodModel]) -> None:
        self._account = account
        self._clock = account.clock
        self._namespace = namespace
        self._reader = wire.Reader(namespace)
        self._models = models

    async def create(self, order: Order) -> CreateOutcome:
        try:
            model = declared(order.spec, self._models.get(order.spec.model))
            body = self._body(order, model)
            answer = await self._account.call(Kind.CREATE, "POST", PODS_PATH, body=body)
        except HeldBack as held:
            return CreateRejected(what=RejectedFor.RATE, detail=str(held), retry_after=held.retry_after)
        except (BadOrder, NotSent) as error:
            return CreateNotSent(detail=str(error))
        except TransportError as error:
            return CreateUnknown(detail=str(error))
        if answer.code == 201:
            return self._made(answer, order, model)
        return self._refused(answer, order)

    def _body(self, order: Order, model: RunpodModel) -> bytes:
        if order.spec.scope != self._namespace.scope or not self._namespace.owner.holds(order.tags):
            raise BadOrder("the order is for another account or owner")
        launch, beside = order.launch, model.machine(order.offer).volume is not None
        body = create_body(
            model,
            name=resource_name(self._namespace.prefix, model.alias, order.tags.request or ""),
            offer=order.offer,
            tags=order.tags,
            argv=launch.argv,
            environment={**launch.environment, **(launch.beside_volume if beside else {})},
        )
        if self._account.http.carries_key(body.decode()):
            raise BadOrder("the order carries the account's own key")
        return body

    def _made(self, answer: Answer, order: Order, model: RunpodModel) -> CreateOutcome:
        pod = self._reader.pod(answer.body, now=self._clock.now())
        if isinstance(pod, document.Unreadable):
            return CreateUnknown(detail=f"accepted, but {pod.what}")
        if not _answers(pod.seen.tags, order.tags):
            return CreateUnknown(detail="ownership: what was made is described with other tags than ordered")
        asked = Ordered(offer=order.offer, argv=order.launch.argv, usd_per_hour_max=order.usd_per_hour_max)
        found = difference(pod, model, asked)
        return CreateAccepted(resource=pod.seen, mismatch=None if found is None else self._account.http.redacted(found))

    def _refused(self, answer: Answer, order: Order) -> CreateOutcome:
        """Only a well-formed refusal is one (RP-5); whatever the text says, the rest is unknown."""
        words = _words(self._account, answer, secrets=order.launch.environment.values())
        what = REJECTIONS.get(answer.code)
        if what is None or wire.problem_in(answer.code, answer.headers, answer.body) is None:
            return CreateUnknown(detail=words)
        return CreateRejected(what=what, detail=words, retry_after=self._wait(answer))

    async def stop(self, key: ResourceKey) -> StopOutcome:
        if key.scope != self._namespace.scope:
            return StopRefused(detail="the resource is in another account")
        try:
            await self._unlock(key)
            answer = await self._account.call(Kind.STOP, "DELETE", resource_path(key))
        except HeldBack as held:
            return StopRefused(detail=str(held), retry_after=held.retry_after)
        except TransportError as error:
            return StopUnknown(detail=str(error))
        if answer.code == 204:
            return StopAccepted(reference=f"runpod-terminated-{key.incarnation}")
        words = _words(self._account, answer)
        if wire.problem_in(answer.code, answer.headers, answer.body) is None:
            return StopUnknown(detail=words)
        if answer.code == 404:
            return StopNotFound(detail=words)
        if answer.code in STOP_REFUSALS:
            return StopRefused(detail=words, retry_after=self._wait(answer))
        return StopUnknown(detail=words)

    async def _unlock(self, key: ResourceKey) -> None:
        """The one change of a pod that we ever ask for (RP-50): whatever comes of it, the stop is sent. Raises
        HeldBack."""
        if key.incarnation in self._account.locked:
            with suppress(TransportError):
                await self._account.call(Kind.STOP, "PATCH", resource_path(key), body=UNLOCK)

    def _wait(self, answer: Answer) -> timedelta | None:
        return wait_asked(answer.headers, now=self._clock.now()) if answer.code == 429 else None


def _answers(read_back: Tags, ordered: Tags) -> bool:
    """Does the pod carry what we ordered? Our request id must be there; the other marks may be missing, not differ."""
    return (
        read_back.request == ordered.request
        and read_back.owner in {None, ordered.owner}
        and read_back.installation in {None, ordered.installation}
        and read_back.epoch in {None, ordered.epoch}
    )


def resource_path(key: ResourceKey) -> str:
    if queue.is_queued(key):
        return queue.queued_path(key)
    # A dot is escaped too: `..` is a step up in a path, whatever it is as an id.
    return f"{PODS_PATH}/{quote(key.incarnation, safe='').replace('.', '%2E')}"


def _words(account: Account, answer: Answer, *, secrets: Iterable[str] = ()) -> str:
    """What was answered, for people: the number, and the provider's words if they are a well-formed refusal."""
    problem = wire.problem_in(answer.code, answer.headers, answer.body)
    return account.http.redacted(f"HTTP {answer.code}" + (f": {problem.detail}" if problem else ""), secrets=secrets)
