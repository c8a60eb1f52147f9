"""What does the daemon say to a gateway, as far as a gateway can tell?

An ASGI app that speaks the gateways' socket: starts, routes by long poll, stream leases, reports. What it was asked
is kept for tests to read, and what it says is set by them.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qs

import anyio

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


def view(alias: str, **fields: Any) -> dict[str, Any]:
    return {
        "alias": alias,
        "phase": "off",
        "served_name": f"org/{alias}",
        "server": "vllm",
        "wires": ["chat", "completions", "embeddings"],
        "wait_seconds": 570.0,
        "queue": 64,
        "cold_start_seconds": None,
        "key_file": None,
        "routes": [],
        "starting": None,
        "refusal": None,
        "failure": None,
        **fields,
    }


def route(
    deployment: str,
    endpoint: str,
    *,
    epoch: int = 1,
    proven: bool = True,
    doubted: bool = False,
    usd_per_hour: str | None = "3.6",
) -> dict[str, Any]:
    return {
        "deployment": deployment,
        "epoch": epoch,
        "endpoint": endpoint,
        "proven": proven,
        "doubted": doubted,
        "usd_per_hour": usd_per_hour,
    }


class FakeDaemon:
    def __init__(self, *aliases: str) -> None:
        self.models = {alias: view(alias) for alias in aliases}
        self.version = 1
        self.controller = "run-1"
        self.starts: list[tuple[float, str, int]] = []
        """(loop time, alias, waiting)"""
        self.left: list[tuple[float, str, int, float]] = []
        """(loop time, alias, waiting, returning), as the last one left."""
        self.leases: list[tuple[float, dict[str, dict[str, Any]]]] = []
        self.reports: list[dict[str, Any]] = []
        self.refused: set[str] = set()
        self.refuse_open: set[str] = set()
        """Deployments for which no open request is taken any more."""
        self.on_start: Callable[[str], None] = lambda alias: None
        self.down = False
        self.hangs = False
        """Takes requests and never answers."""
        self.lease_answer_s = 0.0
        self._changed = anyio.Event()
        self._ended = anyio.Event()

    def change(self, alias: str, **fields: Any) -> None:
        self.models[alias] = {**self.models[alias], **fields}
        self.version += 1
        self._wake()

    def fail(self, alias: str, reason: str) -> None:
        failure = {
            "version": self.version + 1,
            "deployment": f"{alias}-x",
            "code": "start_failed",
            "reason": reason,
            "retry_after_seconds": None,
        }
        self.change(alias, failure=failure, phase="off", starting=None)

    def go_down(self) -> None:
        self.down = True
        self._ended.set()
        self._ended = anyio.Event()
        self._wake()

    def return_(self, controller: str = "run-2") -> None:
        self.down = False
        self.controller = controller
        self.version = 1

    @property
    def listed(self) -> dict[str, dict[str, Any]]:
        """The stream leases as last told."""
        return self.leases[-1][1] if self.leases else {}

    def kinds(self) -> list[str]:
        return [report["kind"] for report in self.reports]

    async def app(self, scope: Message, receive: Receive, send: Send) -> None:
        if self.down:
            scope["extensions"]["gpuwarden.abort"]()
            return
        if self.hangs:
            await anyio.sleep_forever()
        body = (await receive())["body"]
        asked = json.loads(body) if body else {}
        match scope["method"], scope["path"].strip("/").split("/"):
            case "GET", ["v1", "routes"]:
                await self._routes(scope, send)
            case "POST", ["v1", "models", alias, "start"]:
                await self._start(alias, asked, send)
            case "PUT", ["v1", "stream-leases", _]:
                self._take_leases(asked)
                ended = self._ended
                with anyio.move_on_after(self.lease_answer_s):
                    await ended.wait()
                if ended.is_set():
                    scope["extensions"]["gpuwarden.abort"]()
                    return
                names, refused = {lease["deployment"] for lease in asked["leases"]}, self._refusals(asked["leases"])
                said = {"granted": sorted(names - refused), "refused": sorted(names & refused)}
                await _json(send, 200, {"schema": 1, **said, "lease_seconds": 30.0})
            case "POST", ["v1", "reports"]:
                self.reports.append(asked)
                await _json(send, 202, {"schema": 1})
            case _:
                await _json(send, 404, {"type": "about:blank", "status": 404, "code": "not_found", "detail": "?"})

    async def _routes(self, scope: Message, send: Send) -> None:
        query = parse_qs(scope["query_string"].decode())
        after = int(query["after"][0]) if "after" in query else None
        with anyio.move_on_after(float(query.get("wait", ["25"])[0])):
            while after is not None and self.version <= after and not self.down:
                await self._changed.wait()
        if self.down:
            scope["extensions"]["gpuwarden.abort"]()
            return
        answer = {
            "schema": 1,
            "version": self.version,
            "controller": self.controller,
            "stream_lease_seconds": 30,
            "models": self.models,
        }
        await _json(send, 200, answer)

    async def _start(self, alias: str, asked: dict[str, Any], send: Send) -> None:
        if asked.get("left"):
            at = asyncio.get_running_loop().time()
            self.left.append((at, alias, asked["waiting"], asked["returning_seconds"]))
            await _json(send, 202, {"schema": 1, "model": self.models[alias]})
            return
        self.starts.append((asyncio.get_running_loop().time(), alias, asked["waiting"]))
        if alias not in self.models:
            await _json(send, 404, {"type": "about:blank", "status": 404, "code": "unknown_model", "detail": "?"})
            return
        self.on_start(alias)
        await _json(send, 202, {"schema": 1, "model": self.models[alias]})

    def _refusals(self, leases: list[dict[str, Any]]) -> set[str]:
        """Which deployments take no new requests, as it answers."""
        return self.refused | {lease["deployment"] for lease in leases if lease["open"]} & self.refuse_open

    def _take_leases(self, asked: dict[str, Any]) -> None:
        listed = {lease["deployment"]: lease for lease in asked["leases"]}
        self.leases.append((asyncio.get_running_loop().time(), listed))

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


async def _json(send: Send, status: int, content: object) -> None:
    body = json.dumps(content).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
