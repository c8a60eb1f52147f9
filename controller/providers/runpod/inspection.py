"""Is this Runpod account fit for what is configured?

Answers the port that examines an account, each question by one call that reads. The balance is asked of the old
GraphQL door, as v2 does not show it (reference of November 2026; that door closes in 2027): the one POST here, and a
query. The pace is the account's own, shared by all.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final
from urllib.parse import urlsplit

from controller.core.identity import ResourceKey
from controller.providers.errors import HeldBack
from controller.providers.inspecting import Failed, Funds, Offer, Offers, Stock, Trouble
from controller.providers.runpod import wire
from controller.providers.runpod.account import Account
from controller.providers.runpod.catalog import CATALOG_PATH, levels, stock_path
from controller.providers.runpod.document import document
from controller.providers.runpod.order import Cloud
from controller.providers.runpod.pace import Kind
from controller.providers.runpod.paths import PODS_PATH, resource_path
from controller.transport import Answer, TransportError

GREETING_PATH: Final = f"{PODS_PATH}?limit=1"
BILLING_PATH: Final = "/billing/pods?bucketSize=hour&lastN=1"
SECRETS_PATH: Final = "/account/secrets"
REGISTRIES_PATH: Final = "/registries"
NOBODYS: Final = "gpuwardendoctor"
"""An id that no pod has: theirs have at most 14 characters."""
FUNDS_QUERY: Final = b'{"query":"{ myself { clientBalance currentSpendPerHr spendLimit } }"}'
USD_MAX: Final = Decimal(1_000_000_000)
_TROUBLES: Final = {401: Trouble.CREDENTIAL, 403: Trouble.PERMISSION, 429: Trouble.HELD_BACK}


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What one model would ask for."""

    cards: int
    cloud: Cloud
    places: tuple[str, ...] = ()
    """Only in these data centres; empty: any."""


def graphql_address(api_url: str) -> str:
    """Where the old door is, beside the API."""
    found = urlsplit(api_url)
    return f"{found.scheme}://{found.netloc}"


class RunpodInspection:
    """`old_door` speaks to `graphql_address` with the same key; it answers on one path."""

    def __init__(self, account: Account, *, old_door: Account, needs: Mapping[str, Need]) -> None:
        self._account = account
        self._old_door = old_door
        self._needs = needs

    async def greet(self) -> Failed | None:
        answer = await self._asked(GREETING_PATH)
        return answer if isinstance(answer, Failed) else None

    async def open_billing(self) -> Failed | None:
        answer = await self._asked(BILLING_PATH)
        return answer if isinstance(answer, Failed) else None

    async def open_log(self, key: ResourceKey | None) -> Failed | None:
        path = f"{PODS_PATH}/{NOBODYS}" if key is None else resource_path(key)
        try:
            answer = await self._account.open(f"{path}/logs?tail=1")
        except (HeldBack, TransportError) as error:
            return unanswered(error)
        # Not found is an answer too: who may not ask is told that first.
        return None if answer.code in {200, 404} else failed(answer)

    async def read_secret_names(self) -> frozenset[str] | Failed:
        answer = await self._asked(SECRETS_PATH)
        if isinstance(answer, Failed):
            return answer
        entries = _list_in(answer, "secrets")
        return odd("the answer has no list of secrets") if entries is None else _texts(entries, "name")

    async def read_registries(self) -> frozenset[str] | Failed:
        answer = await self._asked(REGISTRIES_PATH)
        if isinstance(answer, Failed):
            return answer
        entries = _list_in(answer, "registries")
        return odd("the answer has no list of credentials") if entries is None else _texts(entries, "id")

    async def read_types(self) -> frozenset[str] | Failed:
        answer = await self._asked(CATALOG_PATH)
        if isinstance(answer, Failed):
            return answer
        entries = _list_in(answer, "gpus")
        return odd("the answer has no list of GPU types") if entries is None else _texts(entries, "id")

    async def read_offers(self, alias: str) -> Offers | Failed:
        need = self._needs[alias]
        answer = await self._asked(stock_path(cloud=need.cloud, cards=need.cards))
        if isinstance(answer, Failed):
            return answer
        entries = _list_in(answer, "gpus")
        if entries is None:
            return odd("the answer has no list of GPU types")
        named = [entry for entry in entries if isinstance(entry, dict) and isinstance(entry.get("id"), str)]
        return {entry["id"]: _offer(entry, need) for entry in named}

    async def read_funds(self) -> Funds | Failed:
        try:
            answer = await self._old_door.call(Kind.READ, "POST", "/graphql", body=FUNDS_QUERY)
        except (HeldBack, TransportError) as error:
            return unanswered(error)
        return _funds(answer) if answer.code == 200 else failed(answer)

    async def _asked(self, path: str) -> Answer | Failed:
        try:
            answer = await self._account.call(Kind.READ, "GET", path)
        except (HeldBack, TransportError) as error:
            return unanswered(error)
        return answer if answer.code == 200 else failed(answer)


def unanswered(error: HeldBack | TransportError) -> Failed:
    return Failed(trouble=Trouble.HELD_BACK if isinstance(error, HeldBack) else Trouble.SILENT, text=str(error))


def failed(answer: Answer) -> Failed:
    """By its number alone: the words that come with it may repeat anything."""
    text = f"HTTP {answer.code}"
    if answer.code == 403 and wire.problem_in(answer.code, answer.headers, answer.body) is None:
        return odd(f"{text}, and not by the API itself: something in between refuses us")
    return Failed(trouble=_TROUBLES.get(answer.code, Trouble.ODD), text=text)


def odd(text: str) -> Failed:
    return Failed(trouble=Trouble.ODD, text=text)


def _list_in(answer: Answer, name: str) -> list[Any] | None:
    found = document(answer.body)
    entries = found.get(name) if isinstance(found, dict) else None
    return entries if isinstance(entries, list) else None


def _texts(entries: list[Any], name: str) -> frozenset[str]:
    found = (entry.get(name) for entry in entries if isinstance(entry, dict))
    return frozenset(text for text in found if isinstance(text, str))


def _offer(entry: Mapping[str, Any], need: Need) -> Offer:
    price = entry.get("price")
    card = wire.usd(price.get(need.cloud.value.lower())) if isinstance(price, dict) else None
    return Offer(stock=_stock(entry, need.places), usd_per_hour=card * need.cards if card else None)


def _stock(entry: Mapping[str, Any], places: tuple[str, ...]) -> Stock | None:
    """Of all data centres, or the best of those that the model names."""
    words = levels(entry, places)
    found = [level for word in words if (level := _level(word)) is not None]
    best = max(found, key=list(Stock).index, default=None)
    # A word that nobody knows may mean that there are some.
    return None if best is Stock.NONE and len(found) < len(words) else best


def _level(word: Any) -> Stock | None:
    return Stock(word.lower()) if isinstance(word, str) and word in Stock.__members__ else None


def _funds(answer: Answer) -> Funds | Failed:
    found = document(answer.body)
    data = found.get("data") if isinstance(found, dict) else None
    if not isinstance(data, dict):
        return odd("the answer names no account")
    myself = data.get("myself")
    if myself is None:
        return Failed(trouble=Trouble.CREDENTIAL, text="the key belongs to nobody there")
    shown = myself if isinstance(myself, dict) else {}
    balance, rate = _amount(shown.get("clientBalance")), wire.usd(shown.get("currentSpendPerHr"))
    if balance is None or rate is None:
        return odd("the answer has no balance")
    return Funds(balance_usd=balance, usd_per_hour=rate, usd_per_hour_max=wire.usd(shown.get("spendLimit")))


def _amount(value: Any) -> Decimal | None:
    """A sum of money; one that is owed is negative."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    amount = Decimal(value)
    return amount if -USD_MAX <= amount <= USD_MAX else None
