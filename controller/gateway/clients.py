"""Who is asking, and what may that client do?

Whoever sends a key whose SHA-256 is known, as a bearer or as `x-api-key`. What is looked up is a keyed hash of that
digest, under a secret of this process: how long the search takes tells nothing about any known key, though it does not
look at all of them. What a known client sent is known again by a keyed hash of its own, until any key changes. The
keys that were handed out are looked at anew every few seconds, by whoever asks then; a file that went bad leaves the
former ones. Once any key is known, none is no answer any more: a gateway that began open to everybody closes with the
first key, and stays closed when the last one is taken back.
"""

import hashlib
import hmac
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

from controller.core.errors import Code
from controller.gateway.refusals import Refused
from controller.ids import SystemRandomness

Headers = Mapping[bytes, bytes]

LOOK_EVERY_S: Final = 2.0
SENT_MOST: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """What was agreed with whoever holds one key. What is None has no limit."""

    name: str
    digest: str
    """SHA-256 of the key, in hex."""
    models: frozenset[str] | None = None
    """Aliases, each with all its adapters, or ALIAS:ADAPTER."""
    requests_per_minute: int | None = None
    concurrent: int | None = None
    usd_per_day: Decimal | None = None
    limited: bool = field(init=False)
    """In any way but by models."""

    def __post_init__(self) -> None:
        limits = (self.requests_per_minute, self.concurrent, self.usd_per_day)
        object.__setattr__(self, "limited", any(limit is not None for limit in limits))

    def may_use(self, alias: str, adapter: str | None = None) -> bool:
        if self.models is None or alias in self.models:
            return True
        return adapter is not None and f"{alias}:{adapter}" in self.models

    def require(self, alias: str, adapter: str | None) -> None:
        """Raises `Refused`."""
        if not self.may_use(alias, adapter):
            raise Refused(Code.MODEL_NOT_ALLOWED, f"this key may not use {alias!r}")


ANYBODY: Final = Client(name="", digest="")
"""Where no key was ever asked for."""


class Sender:
    """Who sent these headers, as of a version of what is known of clients."""

    __slots__ = ("client", "headers", "version")

    def __init__(self, headers: Headers) -> None:
        self.headers = headers
        self.client = ANYBODY
        self.version = -1


ReadClients = Callable[[], tuple[Client, ...] | None]
"""All clients, if they changed since they were last read; else None, as for an address that is open to everybody."""


class Clients:
    """`now` is the loop's time, in seconds."""

    def __init__(self, *, fixed: Iterable[str], read: ReadClients | None, now: Callable[[], float]) -> None:
        self._secret = SystemRandomness().token_hex(32).encode()
        self._fixed = tuple(Client(name=f"sha256-{digest[:12]}", digest=digest) for digest in fixed)
        self._read = read
        self._now = now
        self._look_at = 0.0
        self._open = True
        self._version = 0
        self.budgets = False
        """Somebody has one."""
        self._known: dict[bytes, Client] = {}
        self._sent: dict[bytes, Client] = {}
        """Who sent what, of those that were let in."""
        if self._fixed:
            self._take(self._fixed)

    def again(self, sender: Sender, now: float) -> Client:
        """`of`, for whoever sent these very headers before. Raises `Refused`."""
        if self._read is not None and now >= self._look_at:
            self._look()
        if sender.version != self._version:
            sender.client, sender.version = self.of(sender.headers), self._version
        return sender.client

    def of(self, headers: Headers) -> Client:
        """Raises `Refused`."""
        self._look()
        if self._open:
            return ANYBODY
        sent = self._place(b"%b\n%b" % (headers.get(b"authorization", b""), headers.get(b"x-api-key", b"")))
        client = self._sent.get(sent)
        if client is None:
            client = self._found(_key(headers))
            if len(self._sent) == SENT_MOST:
                self._sent.clear()
            self._sent[sent] = client
        return client

    def _found(self, key: bytes) -> Client:
        digest = hashlib.sha256(key).hexdigest()
        client = self._known.get(self._place(digest.encode()), ANYBODY)
        if not hmac.compare_digest(digest, client.digest) or not key:
            raise Refused(Code.WRONG_KEY, "this key may not use this address")
        return client

    def _look(self) -> None:
        """What the operator changed, every few seconds."""
        if self._read is not None and (now := self._now()) >= self._look_at:
            self._look_at = now + LOOK_EVERY_S
            if (found := self._read()) is not None:
                self._take((*self._fixed, *found))

    def _take(self, clients: tuple[Client, ...]) -> None:
        self._version += 1
        self.budgets = any(client.usd_per_day is not None for client in clients)
        self._known = {self._place(client.digest.encode()): client for client in clients}
        self._sent.clear()
        self._open = False

    def _place(self, words: bytes) -> bytes:
        return hashlib.blake2b(words, key=self._secret, digest_size=16).digest()


def _key(headers: Headers) -> bytes:
    """The key that was sent; empty if none was."""
    scheme, _, key = headers.get(b"authorization", b"").partition(b" ")
    if scheme.lower() == b"bearer" and key.strip():
        return key.strip()
    return headers.get(b"x-api-key", b"")
