"""How do the bytes of one request and its answer pass?

The body goes out as the client wrote it but for the model's name (and, for llama.cpp, the adapter, and system messages
first). An event stream comes back piece by piece as it arrives, a plain answer at once: status, content type, bytes.
The client sees no byte before the model server's first, so a server that dies before it is a plain 502. Whatever
happens, the answer of the model server is closed here.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from typing import Any, Final

from controller.core.errors import Code
from controller.gateway import pages
from controller.gateway.admission import Demand
from controller.gateway.assembly import STREAMED, Assembly, TooMuch, can_be_streamed
from controller.gateway.events import Events, StreamFailed
from controller.gateway.passage import loop_time
from controller.gateway.placement import Place
from controller.gateway.refusals import Refused
from controller.gateway.reply import Reply
from controller.gateway.routes import Key
from controller.gateway.signs import CHAT_SIGNS
from controller.gateway.straight import Straight
from controller.gateway.system_first import rearranged
from controller.gateway.upstream import Upstream
from controller.http1 import Exchanging, Incoming, NotConnected, Outgoing, Overdue, WireError

PAGE_BYTES: Final = 256 * 1024
KEPT_BYTES: Final = 1024 * 1024
AFTER_REPLACEMENT: Final = timedelta(seconds=60)
PASSED_ON: Final = frozenset(
    {b"content-type", b"content-length", b"content-encoding", b"cache-control", b"retry-after"}
)

Report = Callable[[Key, str, str], None]
Headed = list[tuple[bytes, bytes]]
Plain = tuple[int, Headed, bytes]
"""Status, headers and body of a whole answer."""


class Proxy:
    def __init__(self, upstream: Upstream, report: Report) -> None:
        self._upstream = upstream
        self._report = report
        self.open = 0
        """Answers of model servers that are not closed."""

    async def relay(self, demand: Demand, place: Place, reply: Reply, begun: Exchanging | None = None) -> None:
        """Raises `Refused` for any ending but a whole answer, and `NotConnected` if it may be tried elsewhere. What was
        begun already goes on."""
        if begun is None:
            body = rewritten(demand, place)
            sent: Awaitable[Incoming] = self._upstream.send(self.request(demand, place, loop_time()).carrying(body))
        else:
            self.open -= 1
            sent = _arrived(begun)
        await self._follow(sent, demand, place, reply)

    def request(self, demand: Demand, place: Place, now: float) -> Outgoing:
        """All of it but the body."""
        return self._upstream.request(demand.alias, place.route, demand.shape, now=now, wish=demand.wish)

    # A request that no task follows.

    def kept(self, request: Outgoing) -> Exchanging | None:
        """A connection that stands. Whoever gets it gives it back, or has `relay` go on with it."""
        begun = self._upstream.kept(request.url)
        if begun is not None:
            self.open += 1
        return begun

    def give_back(self, begun: Exchanging | None) -> None:
        if begun is not None:
            self.open -= 1
            begun.close()

    def hear(self, begun: Exchanging, place: Place) -> None:
        """Something came, not all of it: a byte of the model's own, or only a head, or a proxy's words."""
        if begun.came_in_part() and pages.plainly(begun.status, begun.headers):
            place.use.byte_came()

    def plain(self, begun: Exchanging, demand: Demand, place: Place) -> Plain | None:
        """A plain answer as it is passed on, once it ended well; None, and nothing is taken of it, where it is none.
        Raises `Refused`."""
        if not pages.plainly(begun.status, begun.headers):
            return None
        body = begun.taken()
        if body:
            place.use.byte_came()
        signs = demand.shape.signs
        if signs is not None and signs.plain_hint in body:
            self._require_unbroken(body, demand, place)
        return begun.status, _passed_on(begun), body

    def _require_unbroken(self, answer: bytes, demand: Demand, place: Place) -> None:
        signs = demand.shape.signs
        if signs is not None and signs.failed_plainly(answer):
            raise self._cut_short(place, "the model server broke its answer off")

    async def _follow(self, sent: Awaitable[Incoming], demand: Demand, place: Place, reply: Reply) -> None:
        self.open += 1
        incoming: Incoming | None = None
        try:
            incoming = await sent
            await self._answer(incoming, demand, place, reply)
        except NotConnected as error:
            self._report(place.route.key, "unreachable", str(error))
            raise
        except WireError as error:
            kind = "broken-stream" if error.got_head else "unreachable"
            self._report(place.route.key, kind, f"{type(error).__name__}: {error}")
            raise broken(error) from error
        finally:
            self.open -= 1
            if incoming is not None:
                incoming.close()

    async def _answer(self, incoming: Incoming, demand: Demand, place: Place, reply: Reply) -> None:
        if incoming.status >= 400 or pages.from_proxy(incoming.status, incoming.headers):
            await self._complaint(incoming, place, reply)
        elif pages.content_type(incoming.headers) == pages.EVENTS:
            if _asked_as_stream(demand, place):
                return await self._assembled(incoming, demand, place, reply)
            await self._events(incoming, demand, place, reply)
        elif reply.begun:
            raise Refused(Code.UPSTREAM_DISCONNECTED, "the model server answered no event stream")
        else:
            await self._plain(incoming, demand, place, reply)

    async def _events(self, incoming: Incoming, demand: Demand, place: Place, reply: Reply) -> None:
        signs = demand.shape.signs
        events = Events(signs or CHAT_SIGNS)
        way = Straight(events, reply, place.use, partial(_pass_events, reply, incoming))
        try:
            await incoming.pour(way.take, way)
            rest = events.rest()
        except StreamFailed as failure:
            if failure.before:
                await _pass_events(reply, incoming, failure.before)
            raise self._cut_short(place, str(failure)) from failure
        if signs is not None and not events.said_done:
            raise self._cut_short(place, "the stream ended without its last event")
        if rest:
            await _pass_events(reply, incoming, rest)
        await reply.finish()

    async def _assembled(self, incoming: Incoming, demand: Demand, place: Place, reply: Reply) -> None:
        events, answer = Events(demand.shape.signs or CHAT_SIGNS), Assembly(demand.shape)
        try:
            async for piece in incoming.chunks():
                place.use.byte_came()
                answer.take(events.take(piece))
            answer.take(events.rest())
        except (StreamFailed, TooMuch, ValueError, TypeError) as failure:
            raise self._cut_short(place, f"no answer can be made of the stream: {type(failure).__name__}") from failure
        if not events.said_done:
            raise self._cut_short(place, "the stream ended without its last event")
        body = answer.answer()
        await reply.start(200, [(b"content-type", pages.JSON), (b"content-length", b"%d" % len(body))])
        await reply.last_piece(body)

    async def _plain(self, incoming: Incoming, demand: Demand, place: Place, reply: Reply) -> None:
        """Kept until it is whole, up to a limit: computed whole it comes at once, and it may say that it is none."""
        reply.plain = True
        left = _announced(incoming)
        kept = b""
        async for piece in incoming.chunks():
            place.use.byte_came()
            left -= len(piece)
            if reply.begun:
                await (reply.piece(piece) if left else reply.last_piece(piece))
            elif len(kept := kept + piece) > KEPT_BYTES and left:
                await _begin(reply, incoming, events=False)
                await reply.piece(kept)
            if not left:
                break
        if reply.begun:
            return None if reply.done else await reply.finish()
        self._require_unbroken(kept, demand, place)
        await _begin(reply, incoming, events=False)
        await reply.last_piece(kept)

    def _cut_short(self, place: Place, detail: str) -> Refused:
        self._report(place.route.key, "broken-stream", detail)
        return Refused(Code.UPSTREAM_DISCONNECTED, detail)

    async def _complaint(self, incoming: Incoming, place: Place, reply: Reply) -> None:
        """An answer with an error: the model's own is passed on, a proxy's page never is."""
        body = self._upstream.without_key(place.view.alias, await incoming.read(PAGE_BYTES))
        status = incoming.status
        if pages.from_proxy(status, incoming.headers) or pages.robot_refused(status, body):
            self._report(place.route.key, "unreachable", f"the provider's proxy answered {status}")
            code = Code.UPSTREAM_TIMEOUT if status in pages.OVERDUE_STATUSES else Code.UPSTREAM_DISCONNECTED
            raise Refused(code, f"the provider's proxy answered {status} in place of the model server")
        if status in (401, 403):
            self._upstream.forget_key(place.view.alias)
            self._report(place.route.key, "key-refused", f"the model server answered {status}")
            raise Refused(Code.UPSTREAM_DISCONNECTED, "the model server refused the gateway's own key")
        place.use.byte_came()
        if reply.begun:
            raise Refused(Code.UPSTREAM_DISCONNECTED, f"the model server answered {status}", extra=_told(body))
        headers = [pair for pair in incoming.headers if pair[0] in PASSED_ON and pair[0] != b"content-length"]
        await reply.whole(status, headers, body)


def rewritten(demand: Demand, place: Place) -> bytes:
    """What the model server gets. Raises `Refused` where the machine that serves lacks what was asked for."""
    values: dict[str, Any] = {"model": place.view.served_name or demand.alias}
    llama = place.view.server == "llama_cpp"
    if demand.adapter is not None:
        values |= _chosen_by_place(demand.adapter, place) if llama else {"model": demand.adapter}
    if llama and (shape := demand.shape).conversation:
        values |= rearranged(
            demand.document.members,
            conversation=shape.conversation,
            standing=shape.standing,
            merge=place.view.merge_system,
        )
    if _asked_as_stream(demand, place):
        values |= STREAMED
    return demand.document.replaced(values)


def _asked_as_stream(demand: Demand, place: Place) -> bool:
    """The client wants it plain, and the model's operator wants it to come byte by byte."""
    asked = demand.document.members
    return place.view.stream_plain and not demand.stream and can_be_streamed(demand.shape, asked)


def _chosen_by_place(adapter: str, place: Place) -> dict[str, Any]:
    """llama.cpp knows its adapters by their place on its command line alone, so that a machine with another list would
    answer with another adapter."""
    if not place.route.current or adapter not in place.view.adapters:
        raise Refused(
            Code.MODEL_STARTING, f"the machine that serves was made before {adapter!r}", retry_after=AFTER_REPLACEMENT
        )
    return {"lora": [{"id": place.view.adapters.index(adapter), "scale": 1.0}]}


def broken(error: WireError) -> Refused:
    """What a client is told when the model server's answer did not come, or not whole."""
    if isinstance(error, Overdue):
        return Refused(Code.UPSTREAM_TIMEOUT, "the model server sent nothing within the limit")
    return Refused(Code.UPSTREAM_DISCONNECTED, "the connection to the model server ended before its answer did")


async def _pass_events(reply: Reply, incoming: Incoming, data: bytes) -> None:
    if not reply.begun:
        await _begin(reply, incoming, events=True)
    await reply.piece(data)


async def _begin(reply: Reply, incoming: Incoming, *, events: bool) -> None:
    if not reply.begun:
        await reply.start(incoming.status, _passed_on(incoming), events=events)


def _passed_on(incoming: Incoming) -> Headed:
    return [pair for pair in incoming.headers if pair[0] in PASSED_ON]


async def _arrived(begun: Exchanging) -> Incoming:
    await begun.head()
    return begun


def _announced(incoming: Incoming) -> int:
    """The body's length, or a number that no body reaches."""
    for name, value in incoming.headers:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return -1


def _told(body: bytes) -> dict[str, str]:
    return {"upstream": body[:4096].decode(errors="replace")}
