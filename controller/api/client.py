"""How do the gateway and the CLI ask the daemon?

JSON over one of the daemon's sockets. An answer is either the object asked for, a refusal with a fixed code
(`Problem`), or none at all (`Unreachable`), and then nothing is known about what the daemon did. Reads and whole-list
writes are asked once more when a kept connection turns out dead, as they may be repeated; anything else is the
caller's to repeat.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from urllib.parse import quote

from controller.http1 import Disconnected, Outgoing, Pool, TooLarge, Wire, WireError

ANSWER_LIMIT: Final = timedelta(seconds=10)
ANSWER_BYTES: Final = 32 * 1024 * 1024
JSON_HEADERS: Final = ((b"content-type", b"application/json"), (b"accept", b"application/json"))

Body = dict[str, Any]


class Unreachable(Exception):
    """No answer that can be read; the daemon may have acted or not."""


class Problem(Exception):
    """The daemon answered with a refusal."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(f"{status} {code}: {detail}")
        self.status = status
        self.code = code
        self.detail = detail


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenStreams:
    """What one gateway says about one deployment."""

    deployment: str
    epoch: int
    open: int
    idle: timedelta
    bytes_seen: bool

    def as_json(self) -> Body:
        return {
            "deployment": self.deployment,
            "epoch": self.epoch,
            "open": self.open,
            "idle_seconds": round(self.idle.total_seconds(), 3),
            "bytes_seen": self.bytes_seen,
        }


@dataclass(frozen=True, slots=True)
class Granted:
    """Which of the deployments just listed may be given new requests."""

    granted: frozenset[str]
    refused: frozenset[str]


class DaemonClient:
    """`root` is what comes before the path: `unix:/run/x/api.sock:`, or `http://host:port`."""

    def __init__(self, wire: Wire, root: str) -> None:
        self._wire = wire
        self._root = root

    @classmethod
    def at_socket(cls, path: str) -> "DaemonClient":
        return cls(Pool(), f"unix:{path}:")

    async def start(
        self, alias: str, *, gateway: str, waiting: int, returning: timedelta = timedelta(0), left: bool = False
    ) -> Body:
        """The model's view. `returning`: for so long may those come back who were told to; `left`: nothing is asked
        for, the last who waited has left. Raises `Problem` with `unknown_model`, or `Unreachable`."""
        body: Body = {"gateway": gateway, "waiting": waiting, "returning_seconds": round(returning.total_seconds(), 3)}
        answer = await self.post(f"/v1/models/{quote(alias, safe='')}/start", body | ({"left": True} if left else {}))
        return _object(answer.get("model"))

    async def routes(self, *, after: int | None, wait: timedelta) -> Body:
        """Answers when the version is beyond `after`, at the latest after `wait`; at once if `after` is None."""
        path = "/v1/routes" if after is None else f"/v1/routes?after={after}&wait={int(wait.total_seconds())}"
        return await self.get(path, limit=wait + ANSWER_LIMIT)

    async def put_stream_leases(self, gateway: str, leases: Sequence[OpenStreams]) -> Granted:
        """The whole list; it replaces the one before."""
        body = {"leases": [lease.as_json() for lease in leases]}
        answer = await self._ask("PUT", f"/v1/stream-leases/{quote(gateway, safe='')}", body, ANSWER_LIMIT)
        return Granted(_names(answer.get("granted")), _names(answer.get("refused")))

    async def report(self, *, gateway: str, deployment: str, epoch: int, kind: str, detail: str) -> None:
        body = {"gateway": gateway, "deployment": deployment, "epoch": epoch, "kind": kind, "detail": detail}
        await self.post("/v1/reports", body)

    async def get(self, path: str, *, limit: timedelta = ANSWER_LIMIT) -> Body:
        return await self._ask("GET", path, None, limit)

    async def post(self, path: str, body: Mapping[str, Any] | None = None, *, limit: timedelta = ANSWER_LIMIT) -> Body:
        return await self._ask("POST", path, body or {}, limit)

    async def text(self, path: str, *, limit: timedelta = ANSWER_LIMIT) -> str:
        """For what is no JSON: metrics, readiness."""
        _, content = await self._fetch("GET", path, None, limit)
        return content.decode(errors="replace")

    async def _ask(self, method: str, path: str, body: Mapping[str, Any] | None, limit: timedelta) -> Body:
        status, content = await self._fetch(method, path, body, limit)
        try:
            answer = _object(json.loads(content))
        except ValueError as error:
            raise Unreachable(f"the daemon's answer ({status}) is not what was expected") from error
        if status >= 400:
            raise Problem(status, str(answer.get("code", "")), str(answer.get("detail") or answer.get("title") or ""))
        return answer

    async def _fetch(
        self, method: str, path: str, body: Mapping[str, Any] | None, limit: timedelta
    ) -> tuple[int, bytes]:
        request = Outgoing(
            method=method,
            url=f"{self._root}{path}",
            headers=JSON_HEADERS,
            body=b"" if body is None else json.dumps(body).encode(),
            head_limit=limit,
            silence_limit=ANSWER_LIMIT,
        )
        try:
            return await self._exchange(request)
        except Disconnected as error:
            if method == "POST":
                raise Unreachable(str(error)) from error
        except (WireError, TooLarge) as error:
            raise Unreachable(str(error)) from error
        try:
            return await self._exchange(request)
        except WireError as error:
            raise Unreachable(str(error)) from error

    async def _exchange(self, request: Outgoing) -> tuple[int, bytes]:
        answer = await self._wire.send(request)
        try:
            return answer.status, await answer.read(ANSWER_BYTES)
        finally:
            answer.close()


def _object(value: object) -> Body:
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value


def _names(value: object) -> frozenset[str]:
    return frozenset(str(name) for name in value) if isinstance(value, list) else frozenset()
