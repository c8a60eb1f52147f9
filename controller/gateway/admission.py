"""Is this a request that a machine may be woken for?

Who asks is known already (`clients`). In this order: how much, is it readable, for which model, may this client use
it, does its server speak that. What is refused here has woken nothing and counts as no use (IM-3, B25).
"""

import re
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Self

from controller.core.errors import Code
from controller.gateway import document
from controller.gateway.clients import Client, Headers
from controller.gateway.config import GatewayConfig
from controller.gateway.document import Document
from controller.gateway.refusals import Refused, bad_request, not_served, unknown_model
from controller.gateway.routes import RouteTable
from controller.gateway.wires import Shape

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]

WAIT: Final = re.compile(rb"(?:^|[,;\s])wait=(\d{1,5})(?:$|[,;\s])")
WAIT_MOST: Final = timedelta(hours=1)


class ClientGone(Exception):
    """The client left before its request was whole."""


@dataclass(slots=True)
class Wish:
    """What the head of a request says of its answer."""

    kind: bytes
    """What its body is."""
    accept: bytes
    patience: timedelta | None
    """As the client prefers; None if it said nothing."""

    @classmethod
    def of(cls, headers: Headers) -> Self:
        return cls(
            headers.get(b"content-type", b"application/json"),
            headers.get(b"accept", b"*/*"),
            preferred_wait(headers[b"prefer"]) if b"prefer" in headers else None,
        )


@dataclass(slots=True, kw_only=True)
class Demand:
    """One admitted request. Not frozen, for what that costs each of them; nobody changes one."""

    alias: str
    adapter: str | None
    """The LoRA adapter that was asked for, by name; its base is what is woken and used."""
    shape: Shape
    document: Document
    stream: bool
    wish: Wish
    size: int
    """Bytes of its body as it came."""


def demanded(
    body: bytes, wish: Wish, shape: Shape, *, client: Client, config: GatewayConfig, table: RouteTable
) -> Demand:
    """Of a body that is here. Raises `Refused`."""
    if len(body) > config.body_limit:
        raise _too_large(config.body_limit)
    try:
        asked = document.parse(body)
    except document.Unreadable as error:
        raise bad_request(str(error)) from error
    model = asked.members.get("model")
    if not isinstance(model, str):
        raise bad_request("the body names no model")
    alias, adapter = named(model, config)
    client.require(alias, adapter)
    _require_served(alias, shape, asked, config, table)
    return Demand(
        alias=alias,
        adapter=adapter,
        shape=shape,
        document=asked,
        stream=shape.signs is not None and asked.members.get("stream") is True,
        wish=wish,
        size=len(body),
    )


def preferred_wait(prefer: bytes) -> timedelta | None:
    """`wait=N` of a Prefer header, in seconds (RFC 7240)."""
    found = WAIT.search(prefer)
    return None if found is None else min(timedelta(seconds=int(found[1])), WAIT_MOST)


def named(model: str, config: GatewayConfig) -> tuple[str, str | None]:
    """Alias and adapter of `ALIAS` or `ALIAS:ADAPTER`: no alias has a colon. Raises `Refused`."""
    alias, colon, adapter = model.partition(":")
    declared = config.declared.get(alias)
    if alias not in config.models or (colon and (declared is None or adapter not in declared.adapters)):
        raise unknown_model(model)
    return alias, adapter if colon else None


def _require_served(alias: str, shape: Shape, asked: Document, config: GatewayConfig, table: RouteTable) -> None:
    """By the daemon's word, or the config's while it has said none."""
    said = table.views.get(alias) or config.declared.get(alias)
    if said is None:
        return
    if shape.name not in said.wires:
        raise not_served(400)
    if asked.members.get("tools") and not said.tools:
        raise Refused(Code.NOT_SERVED, f"{alias!r} calls no tools", status=400)
    if asked.members.get("background"):
        # It would be computed after its request has ended, and nobody could fetch it here.
        raise Refused(Code.NOT_SERVED, "nothing is computed in the background here", status=400)


async def read(headers: Headers, receive: Receive, config: GatewayConfig) -> bytes:
    """The whole body. Raises `Refused`, or `ClientGone`."""
    limit = config.body_limit
    announced = headers.get(b"content-length", b"")
    if announced.isdigit() and int(announced) > limit:
        raise _too_large(limit)
    pieces: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientGone
        piece = message.get("body", b"")
        size += len(piece)
        if size > limit:
            raise _too_large(limit)
        pieces.append(piece)
        if not message.get("more_body", False):
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _too_large(limit: int) -> Refused:
    return Refused(Code.BODY_TOO_LARGE, f"a body may have {limit} bytes")
