"""What did one machine show of what no document settles?

The open questions OU-2 to OU-7 of the requirements, each answered by yes, no, or not at all: what a run did not show
stays open, and the answer says what it rests on.
"""

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Final

from controller.core.costs import below_list
from controller.core.deployment import SeenResource
from controller.core.evidence import StopReason
from controller.core.identity import Owner
from controller.providers.inspecting import Failed, Funds
from controller.providers.qualifying import Echo, Inside

ASKED: Final = {
    "OU-2": "the listing shows environments",
    "OU-3": "a reference to a secret is replaced by its value",
    "OU-4": "a delete stops the bill",
    "OU-5": "startedAt moves when the container restarts",
    "OU-6": "the price is the catalog's, as for a machine on demand",
    "OU-7": "all cards are in one machine",
}


class Said(StrEnum):
    YES = "yes"
    NO = "no"
    OPEN = "open"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    question: str
    said: Said
    text: str


def listing(seen: SeenResource | None, us: Owner, inside: Inside | Failed | None) -> Answer:
    """OU-2, and how a secret's variable is shown."""
    if seen is None:
        return _open("OU-2", "it was never listed")
    echo = inside.echo.value if isinstance(inside, Inside) else "not read"
    words = {
        Echo.VALUE.value: "its value is shown, which must not be logged",
        Echo.REFERENCE.value: "the reference is shown",
    }
    shown = f"the secret's variable: {words.get(echo, echo)}"
    if us.holds(seen.tags):
        return Answer(question="OU-2", said=Said.YES, text=f"our tags are shown; {shown}")
    return Answer(question="OU-2", said=Said.NO, text=f"our tags are not shown; {shown}")


def substitution(*, served: bool, reason: StopReason | None) -> Answer:
    """OU-3: it serves only once it refused the literal reference as a key."""
    if served:
        return Answer(question="OU-3", said=Said.YES, text="it serves, and refuses the literal reference as a key")
    if reason is StopReason.SECRET_UNSUBSTITUTED:
        return Answer(question="OU-3", said=Said.NO, text="it takes the literal reference for the key")
    return _open("OU-3", f"it never served ({'no reason told' if reason is None else reason.value})")


def billing(during: Funds | Failed | None, after: Funds | Failed | None, *, usd_per_hour: Decimal | None) -> Answer:
    """OU-4, by what the whole account costs an hour: others on it can hide or feign a change."""
    if not isinstance(during, Funds) or not isinstance(after, Funds) or not usd_per_hour:
        return _open("OU-4", "what the account costs could not be read before and after")
    if during.usd_per_hour < usd_per_hour / 2:
        return _open("OU-4", "what the account costs did not show the machine")
    fell = during.usd_per_hour - after.usd_per_hour
    text = f"the account's rate went from ${during.usd_per_hour}/h to ${after.usd_per_hour}/h, the machine's was"
    said = Said.YES if fell >= usd_per_hour / 2 else Said.NO
    return Answer(question="OU-4", said=said, text=f"{text} ${usd_per_hour}/h")


def on_the_bill(billed: Decimal | Failed) -> str:
    """Beside the answer: the bill is written later, and says nothing yet by what it lacks."""
    return "its bill could not be read" if isinstance(billed, Failed) else f"on its bill so far: ${billed:.4f}"


def restart(before: Inside | Failed | None, after: Inside | Failed | None) -> Answer:
    """OU-5, for a restart that was asked for: one that happens by itself may differ."""
    if not isinstance(before, Inside) or not isinstance(after, Inside):
        return _open("OU-5", "it could not be restarted and read")
    if before.started_at is not None and after.started_at is not None and after.started_at > before.started_at:
        return Answer(question="OU-5", said=Said.YES, text="it moved forward after a restart that was asked for")
    if restarted(before, after) and before.started_at is not None and after.started_at == before.started_at:
        return Answer(question="OU-5", said=Said.NO, text="it stood still while the uptime fell")
    return _open("OU-5", "no restart was seen after one was asked for")


def restarted(before: Inside, after: Inside) -> bool:
    fell = before.uptime is not None and after.uptime is not None and after.uptime < before.uptime
    moved = before.started_at is not None and after.started_at is not None and after.started_at > before.started_at
    return fell or moved


def price(seen: SeenResource | None, *, listed: Decimal) -> Answer:
    """OU-6: a machine that can be taken away again is cheaper."""
    if seen is None or seen.usd_per_hour is None:
        return _open("OU-6", "its price was never shown")
    text = f"${seen.usd_per_hour}/h, and the catalog says ${listed}/h"
    return Answer(question="OU-6", said=Said.NO if below_list(seen.usd_per_hour, listed) else Said.YES, text=text)


def cards(inside: Inside | Failed | None, *, wanted: int) -> Answer:
    if wanted < 2:
        return _open("OU-7", "one card was asked for: name a model of more with --model")
    if not isinstance(inside, Inside) or inside.cards is None:
        return _open("OU-7", "its cards were not shown")
    text = f"{inside.cards} of {wanted} cards are in one container"
    return Answer(question="OU-7", said=Said.YES if inside.cards == wanted else Said.NO, text=text)


def _open(question: str, text: str) -> Answer:
    return Answer(question=question, said=Said.OPEN, text=text)


def lasting(limit: Decimal, usd_per_hour: Decimal, *, share: Decimal) -> timedelta:
    """How long a machine of this price may live within this share of the limit."""
    return timedelta(hours=float(min(limit * share / usd_per_hour, Decimal(24))))
