"""What is true of open requests, told apart from what the gateway counts?

A daemon that grants leases and remembers each grant, and machines that hold every request until they are told how to
end it. Which deployment and which epoch a request was sent under stands in its address, so that the machines know
without asking the gateway.
"""

import asyncio
import json
import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from controller.http1 import WireError
from tests.gateway.stub_server import DONE, EVENTS, JSON, Message, Receive, Send, event
from tests.support.asgi_wire import App, AsgiAnswer
from tests.support.fake_daemon import FakeDaemon

Key = tuple[str, int]
ANSWER = json.dumps({"choices": [{"index": 0, "message": {"content": "hello"}}]}).encode()


class GrantingDaemon(FakeDaemon):
    """It grants what does not stop, under its present epoch, and keeps what it was told and what it granted."""

    def __init__(self, *aliases: str) -> None:
        super().__init__(*aliases)
        self.epochs: dict[str, int] = {}
        self.told: Counter[Key] = Counter()
        """Open requests, by the latest list."""
        self.granted: set[Key] = set()
        """What may be given requests, by the latest answer."""
        self._away_until = -1.0
        self._loop = asyncio.get_running_loop()
        self.heard_at = 0.0
        self.answering = False

    @property
    def was_away(self) -> bool:
        """Leases were granted without it, up to the moment at which the gateway hears from it again."""
        return self._loop.time() <= self._away_until

    def go_down(self) -> None:
        super().go_down()
        self._away_until, self.answering = math.inf, False

    def _take_leases(self, asked: dict[str, Any]) -> None:
        super()._take_leases(asked)
        self.answering = True
        self.heard_at = self._loop.time()
        self.told = Counter({(lease["deployment"], lease["epoch"]): lease["open"] for lease in asked["leases"]})
        self.granted &= {key for key, count in self.told.items() if count}  # what was given back may be stopped

    def _refusals(self, leases: list[dict[str, Any]]) -> set[str]:
        names = {lease["deployment"] for lease in leases}
        newest = {name: max(lease["epoch"] for lease in leases if lease["deployment"] == name) for name in names}
        refused = self.refused | {name for name, epoch in newest.items() if epoch != self.epochs.get(name)}
        keys = {(lease["deployment"], lease["epoch"]) for lease in leases if lease["open"]}
        self.granted = {key for key in keys if key[0] not in refused}
        self._away_until, self.answering = min(self._away_until, self._loop.time()), False
        return refused


@dataclass(eq=False)
class Held:
    """One request at a machine."""

    key: Key
    stream: bool
    orders: "asyncio.Queue[str]" = field(default_factory=asyncio.Queue)
    begun: bool = False


class Machines:
    """All machines behind one address each; `epochs` of their requests are read from the path."""

    def __init__(self, daemon: GrantingDaemon) -> None:
        self._daemon = daemon
        self.held: list[Held] = []
        self.ungranted: list[Key] = []
        """Requests that came without a lease."""

    async def app(self, scope: Message, receive: Receive, send: Send) -> None:
        asked = json.loads((await receive())["body"])
        if asked.get("max_tokens") == 1:
            return await _answer(send, JSON, ANSWER)
        _, name, epoch, *_ = scope["path"].split("/")
        held = Held((name, int(epoch)), bool(asked.get("stream")))
        if held.key not in self._daemon.granted and not self._daemon.was_away:
            self.ungranted.append(held.key)
        self.held.append(held)
        try:
            await self._until_ended(held, scope, receive, send)
        finally:
            self.held.remove(held)

    async def _until_ended(self, held: Held, scope: Message, receive: Receive, send: Send) -> None:
        gone = asyncio.ensure_future(receive())
        try:
            while True:
                order = asyncio.ensure_future(held.orders.get())
                await asyncio.wait({order, gone}, return_when=asyncio.FIRST_COMPLETED)
                if not order.done():
                    order.cancel()
                    return
                match order.result():
                    case "die":
                        return scope["extensions"]["gpuwarden.abort"]()  # type: ignore[no-any-return]  # of a dict
                    case "speak" if held.stream:
                        await self._speak(held, send)
                    case "end" if held.stream:
                        await self._speak(held, send)
                        return await send({"type": "http.response.body", "body": DONE, "more_body": False})
                    case "end":
                        return await _answer(send, JSON, ANSWER)
                    case _:
                        pass  # a plain answer says nothing before it is whole
        finally:
            gone.cancel()

    async def _speak(self, held: Held, send: Send) -> None:
        if not held.begun:
            await send({"type": "http.response.start", "status": 200, "headers": EVENTS})
        held.begun = True
        await send({"type": "http.response.body", "body": event("word"), "more_body": True})


async def _answer(send: Send, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    headers = [*headers, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


class Client:
    """Reads its answer to the end, or leaves."""

    def __init__(self, app: App, request: Any) -> None:
        self.answer = AsgiAnswer(app, request)
        self._reading = asyncio.ensure_future(self._read())

    @property
    def live(self) -> bool:
        return not self.answer.task.done()

    async def _read(self) -> None:
        try:
            async for _ in self.answer:
                pass
        except WireError:
            pass

    def leave(self) -> None:
        self.answer.close()
        self._reading.cancel()

    async def cancel_twice(self) -> None:
        """As a server does whose own end comes twice, with one turn of the loop between (B49)."""
        self.answer.task.cancel()
        await asyncio.sleep(0)
        self.answer.task.cancel()
        self._reading.cancel()
