"""What must a gateway be told before it can serve?

Plain values: the composition root reads the config file, the credentials and the listen address. With no client keys
anybody who reaches the address may use it, so the composition root refuses to listen beyond loopback then.
"""

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from controller.gateway.access_log import WriteLines
from controller.gateway.clients import ReadClients
from controller.gateway.day_book import DayBook

ReadKey = Callable[[], str]
Job = Callable[[], Coroutine[Any, Any, None]]
Start = Callable[[Job], None]
"""Runs a job beside the requests, for as long as the gateway runs."""

CLIENT_LIMIT: Final = timedelta(seconds=110)


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What the config says of one model: who is refused by it has woken nothing, with or without a daemon."""

    wires: tuple[str, ...]
    tools: bool
    adapters: tuple[str, ...] = ()
    """Asked for as ALIAS:NAME."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayConfig:
    models: Mapping[str, ReadKey] = field(repr=False)
    """Alias → how to read the model server's key, asked every few seconds at most; an empty key sends none."""
    declared: Mapping[str, Declared] = field(default_factory=dict)
    client_keys: frozenset[str] = frozenset()
    """SHA-256 of each client's key, in hex: of those that may do everything."""
    read_clients: ReadClients | None = None
    """The clients as the operator has them now, with what each may do."""
    access_log: WriteLines | None = None
    """Writes the lines of requests that ended; None: nothing is written."""
    day_book: DayBook | None = None
    """Where it is kept what clients with a budget spent; None: nowhere."""
    join_metrics: Callable[[bytes], Awaitable[bytes]] | None = None
    """Makes of this worker's metrics those of all; None where it is the only one."""
    body_limit: int = 10 * 1024 * 1024
    body_wait: timedelta = timedelta(seconds=120)
    """A client that has not sent its whole body by then is dropped."""
    lease_interval: timedelta = timedelta(seconds=10)
    ask_interval: timedelta = timedelta(seconds=10)
    sign_of_life: timedelta = timedelta(seconds=10)
    routes_wait: timedelta = timedelta(seconds=300)
    """As long as the daemon lets one wait. A daemon that ends cuts the poll, and one that hangs is met by the first
    start or renewal: a shorter one only asks for the same answer again."""
    down_grace: timedelta = timedelta(seconds=5)
    """How long a cold caller waits for a daemon that was away when it came."""
    head_limit: timedelta = timedelta(seconds=600)
    """Until a model server's first byte of an answer: a plain one is computed whole before it, and a streamed one waits
    for its turn and its prompt. Lower cuts off long answers."""
    silence_limit: timedelta = timedelta(seconds=120)
    """Between two bytes after that; there is no limit for a whole answer."""
    proof_limit: timedelta = timedelta(seconds=60)
    client_limit: timedelta = CLIENT_LIMIT
    """A client that takes no byte for so long has gone without saying so."""
    drain_limit: timedelta = timedelta(seconds=10)
