"""How do the two ports speak to Runpod?

Each method makes its calls, reads the answers through `wire` and says what is certain; nothing is repeated here,
nothing is remembered but the pace and the container starts. What a whole listing takes is in `listing`.

Whether a locked pod refuses its stop is not known: it is unlocked before.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from controller.core.billing import Bill
from controller.core.identity import ResourceKey, Tags
from controller.core.inventory import Listing, NotFound, Present, Read, Unreadable
from controller.core.machine_log import Log
from controller.core.storage import Storage
from controller.core.unlisted import Unlisted
from controller.providers.errors import BadOrder, HeldBack, ProviderError
from controller.providers.reading import Prices, Stock
from controller.providers.runpod import document, queue, wire
from controller.providers.runpod.account import Account
from controller.providers.runpod.billing import read_bill
from controller.providers.runpod.catalog import (
    CATALOG_PATH,
    clouds_wanted,
    prices_in,
    read_none_left,
    types_in,
    unlisted_in,
)
from controller.providers.runpod.listing import ListingReader
from controller.providers.runpod.log_stream import read_log
from controller.providers.runpod.order import (
    Ordered,
    RunpodModel,
    create_body,
    declared,
    difference,
    kept_out,
    resource_name,
)
from controller.providers.runpod.pace import Kind
from controller.providers.runpod.paths import PODS_PATH, resource_path
from controller.providers.runpod.volumes import read_storage
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
        self._listing = ListingReader(account, self._reader, self._models)
        self._cards = {offer: machine.gpu for model in models for offer, machine in model.machines().items()}

    async def list_resources(self) -> Listing:
        return await self._listing.read()

    async def read_resource(self, key: ResourceKey) -> Read:
        began_at = self._clock.now()
        try:
            answer = await self._account.call(Kind.READ, "GET", resource_path(key))
        except (ProviderError, TransportError) as error:
            return Unreadable(problem=str(error), at=began_at)
        if answer.code == 404 and wire.problem_in(answer.code, answer.headers, answer.body) is not None:
            return NotFound(reference=f"runpod-get-404-{key.incarnation}", began_at=began_at)
        if answer.code != 200:
            return Unreadable(problem=self._account.words(answer), at=began_at)
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
                    return Prices(
                        usd_per_hour=prices | offered,
                        observed_at=self._clock.now(),
                        unlisted=self._unlisted(answer.body),
                    )
                problem = prices.what
            else:
                problem = self._account.words(answer)
        except (ProviderError, TransportError) as error:
            problem = str(error)
        return Prices(usd_per_hour={}, observed_at=self._clock.now(), problem=problem)

    def _unlisted(self, body: bytes) -> Mapping[str, tuple[Unlisted, ...]] | None:
        """A catalog without any type is no word about one."""
        types = types_in(body)
        return unlisted_in(types, self._models.values()) if types else None

    async def read_log(self, key: ResourceKey) -> Log | Unreadable:
        return await read_log(self._account, resource_path(key))

    async def read_bill(self, since: datetime) -> Bill:
        return await read_bill(self._account, since)

    async def read_storage(self) -> Storage:
        return await read_storage(self._account, self._models.values())

    async def read_stock(self, model: str) -> Stock:
        found, at = await read_none_left(self._account, self._models[model]), self._clock.now()
        if isinstance(found, document.Unreadable):
            return Stock(none_left=frozenset(), observed_at=at, problem=found.what)
        return Stock(none_left=found, observed_at=at)


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
        outcome = await self._create(order)
        if isinstance(outcome, CreateUnknown):
            self._account.doubted_at = self._clock.boot()
        return outcome

    async def _create(self, order: Order) -> CreateOutcome:
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
        shown = self._account.places.get(model.alias, {})
        body = create_body(
            kept_out(model, order.offer, avoid=order.avoid, shown=shown),
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
        words = self._account.words(answer, secrets=order.launch.environment.values())
        what = REJECTIONS.get(answer.code)
        if what is None or wire.problem_in(answer.code, answer.headers, answer.body) is None:
            return CreateUnknown(detail=words)
        return CreateRejected(what=what, detail=words, retry_after=self._wait(answer, Kind.CREATE))

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
        words = self._account.words(answer)
        if wire.problem_in(answer.code, answer.headers, answer.body) is None:
            return StopUnknown(detail=words)
        if answer.code == 404:
            return StopNotFound(detail=words)
        if answer.code in STOP_REFUSALS:
            return StopRefused(detail=words, retry_after=self._wait(answer, Kind.STOP))
        return StopUnknown(detail=words)

    async def _unlock(self, key: ResourceKey) -> None:
        """The one change of a pod that we ever ask for (RP-50): whatever comes of it, the stop is sent. Raises
        HeldBack."""
        if key.incarnation in self._account.locked:
            with suppress(TransportError):
                await self._account.call(Kind.STOP, "PATCH", resource_path(key), body=UNLOCK)

    def _wait(self, answer: Answer, kind: Kind) -> timedelta | None:
        return self._account.wait(kind) if answer.code == 429 else None


def _answers(read_back: Tags, ordered: Tags) -> bool:
    """Does the pod carry what we ordered? Our request id must be there; the other marks may be missing, not differ."""
    return (
        read_back.request == ordered.request
        and read_back.owner in {None, ordered.owner}
        and read_back.installation in {None, ordered.installation}
        and read_back.epoch in {None, ordered.epoch}
    )
