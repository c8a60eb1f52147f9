"""How does this emulated Runpod behave?

Values that tests and the demo change while it runs. A change is checked as a whole before any of it is taken; what is
wrong is named by its key.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

from controller.emulators.runpod.orders import read_orders
from controller.emulators.runpod.reading import (
    BadControl,
    flag,
    not_negative,
    number,
    positive,
    table,
    text,
    texts,
    whole,
    word_of,
)
from controller.emulators.runpod.windows import WINDOWS

Stock = dict[str, int | str]
Prices = dict[str, float | dict[str, float]]

LEVELS = ("NONE", "LOW", "MEDIUM", "HIGH")
FAULTY = ("ERROR", "EXITED")
ECHOES = ("full", "none", "resolved")


@dataclass(slots=True, kw_only=True)
class Settings:
    """Seconds, US dollars, gigabytes. What already exists keeps the lags and boot times it was made with."""

    list_lag_seconds: float = 0.0
    """A new pod is missing from listings for so long."""
    get_lag_seconds: float = 0.0
    """A new pod answers 404 for so long."""
    stop_lag_seconds: float = 0.0
    """A pod is still shown for so long after its deletion was accepted."""
    page_size: int = 1000
    """Most pods a page of a listing holds, whatever `limit` says."""
    boot_seconds: float = 20.0
    """From creation to a running container."""
    ready_seconds: float = 30.0
    """From a running container to a model server that answers."""
    token_rate: float = 50.0
    """Words a second that a model server writes."""
    stock: Stock = field(default_factory=dict)
    """GPUs left per type, or a level (NONE, LOW, MEDIUM, HIGH); a type that is not named has plenty."""
    sold_out: dict[str, list[str]] = field(default_factory=dict)
    """By data centre, the GPU types of which it has none now; `*` is every type."""
    prices: Prices = field(default_factory=dict)
    """USD per GPU-hour that replace the catalog's: {type: usd} or {type: {"secure": usd, "community": usd}}."""
    price_jump: float = 1.0
    """Factor between the catalog's price and what a new pod really costs."""
    made_otherwise: dict[str, Any] = field(default_factory=dict)
    """What a create makes whatever was asked: fields of its body (gpu, mounts, disk, cloud, dataCenterIds, cmd)."""
    balance: float = 1000.0
    """USD on the account. Read it in the truth; it falls while pods bill."""
    provisioning: bool = True
    """False: RUNNING is said from the moment of creation, as was seen in August 2026."""
    echo_env: str = "full"
    """`full`: environments are shown as sent; `none`: as empty; `resolved`: with the secrets' values."""
    echo_errors: bool = False
    """True: refusals of the API and of model servers quote the request with its headers, and programs print their
    environment when they start."""
    substitute_secrets: bool = True
    """False: the model server gets the literal references."""
    started_at_moves: bool = False
    """True: `startedAt` moves when a container restarts by itself."""
    cards_together: bool = True
    """False: the container of a pod with several cards has one of them."""
    delete_stops_billing: bool = True
    """False: a deleted pod bills on, though it is shown no more."""
    billing_delay_seconds: float = 0.0
    """What the billing records leave out at their end."""
    billing_quantum_seconds: float = 0.0
    """Seconds are billed in steps of this, rounded up."""
    injected_key_may_delete: bool = True
    """Whether the key that each pod gets may end that pod."""
    quotas: dict[str, int] = field(default_factory=dict)
    """Calls of the API in a window (`minute`, `hour`, `day`); one more is answered with 429. Else 1000 a minute."""
    clock_offset_seconds: float = 0.0
    """Runpod's clock is ahead by so much: Date headers and times in answers."""
    secrets: dict[str, str] = field(default_factory=dict)
    """Name to value."""
    registries: dict[str, str] = field(default_factory=dict)
    """Credentials for private images: id to name."""
    exec: dict[str, list[str]] = field(default_factory=dict)
    """A program to run behind pods, per image or `*`; `{port}` and `{model}` are filled in. Empty: the emulated one."""
    upstream: dict[str, Any] = field(default_factory=dict)
    """What every new pod's model server is ordered to do, as in a change of one pod."""
    bad_places: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What befalls every new pod of a data centre: its `status` or `upstream`, as in a change of one pod."""
    account: str = "main"
    """Whose pods the API shows; a pod belongs to the account that was set at its creation."""
    accounts: dict[str, str] = field(default_factory=dict)
    """Keys of other accounts: key to account. Every other key is of `account`."""
    api_key: str | None = None
    """The only key the API takes; None: any."""

    def __post_init__(self) -> None:
        """Raises BadControl."""
        for entry in fields(self):
            setattr(self, entry.name, _READ[entry.name](entry.name, getattr(self, entry.name)))


def changed(settings: Settings, change: dict[str, Any]) -> Settings:
    """The settings after `change`. Raises BadControl; `settings` itself is not touched."""
    values = {entry.name: getattr(settings, entry.name) for entry in fields(settings)}
    for key, value in change.items():
        if key not in _READ:
            raise BadControl(key=key, why="there is no such setting")
        values[key] = value
    return Settings(**values)


def _page_size(key: str, value: object) -> int:
    if not 1 <= (read := whole(key, value)) <= 1000:
        raise BadControl(key=key, why="must be from 1 to 1000")
    return read


def _stock(key: str, value: object) -> Stock:
    read = table(key, value)
    for gpu, left in read.items():
        if left not in LEVELS:
            whole(f"{key}.{gpu}", left)
    return read


def _prices(key: str, value: object) -> Prices:
    read: Prices = {}
    for gpu, price in table(key, value).items():
        if isinstance(price, dict):
            read[gpu] = {cloud: not_negative(f"{key}.{gpu}.{cloud}", usd) for cloud, usd in price.items()}
        else:
            read[gpu] = not_negative(f"{key}.{gpu}", price)
    return read


def _types_by_place(key: str, value: object) -> dict[str, list[str]]:
    read = table(key, value)
    for place, types in read.items():
        if not isinstance(types, list) or not all(isinstance(gpu, str) for gpu in types):
            raise BadControl(key=f"{key}.{place}", why="must be a list of texts")
    return read


def _faults_by_place(key: str, value: object) -> dict[str, dict[str, Any]]:
    known = {"status": word_of(FAULTY), "upstream": read_orders}
    read: dict[str, dict[str, Any]] = {}
    for place, faults in table(key, value).items():
        given = table(f"{key}.{place}", faults)
        if strange := sorted(given.keys() - known):
            raise BadControl(key=f"{key}.{place}.{strange[0]}", why="there is no such key")
        read[place] = {name: known[name](f"{key}.{place}.{name}", fault) for name, fault in given.items()}
    return read


def _programs(key: str, value: object) -> dict[str, list[str]]:
    read = table(key, value)
    for image, argv in read.items():
        if not isinstance(argv, list) or not argv or not all(isinstance(word, str) for word in argv):
            raise BadControl(key=f"{key}.{image}", why="must be a list of texts")
    return read


def _quotas(key: str, value: object) -> dict[str, int]:
    read = table(key, value)
    for window, quota in read.items():
        if window not in WINDOWS or whole(f"{key}.{window}", quota) < 1:
            raise BadControl(key=f"{key}.{window}", why="must be a whole number above 0, for minute, hour or day")
    return read


def _key_or_none(key: str, value: object) -> str | None:
    return None if value is None else text(key, value)


_READ: dict[str, Callable[[str, object], object]] = {
    "list_lag_seconds": not_negative,
    "get_lag_seconds": not_negative,
    "stop_lag_seconds": not_negative,
    "page_size": _page_size,
    "boot_seconds": not_negative,
    "ready_seconds": not_negative,
    "token_rate": positive,
    "stock": _stock,
    "sold_out": _types_by_place,
    "prices": _prices,
    "price_jump": positive,
    "made_otherwise": table,
    "balance": number,
    "provisioning": flag,
    "echo_env": word_of(ECHOES),
    "echo_errors": flag,
    "substitute_secrets": flag,
    "started_at_moves": flag,
    "cards_together": flag,
    "delete_stops_billing": flag,
    "billing_delay_seconds": not_negative,
    "billing_quantum_seconds": not_negative,
    "injected_key_may_delete": flag,
    "quotas": _quotas,
    "clock_offset_seconds": number,
    "secrets": texts,
    "registries": texts,
    "exec": _programs,
    "upstream": read_orders,
    "bad_places": _faults_by_place,
    "account": text,
    "accounts": texts,
    "api_key": _key_or_none,
}
