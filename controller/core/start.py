"""May this model be started now, and if not, what are those who wait told?

Every condition under which a create is not sent, in the order in which they are told. `final` means that waiting is of
no use. Unknown never leads to a create: without a fresh complete listing, a price, or trust in the account, nothing
starts (RP-44).
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from controller.core import restoration
from controller.core.book import Book, ModelMemory
from controller.core.errors import Code
from controller.core.identity import DeploymentId
from controller.core.orphans import ended
from controller.core.policy import HostingPolicy, ModelPolicy
from controller.core.schedule import ALWAYS_OPEN, Off, Stance
from controller.core.spend import ceiling
from controller.core.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """Everything that a start depends on, except money, which is checked where it is reserved."""

    now: datetime
    memory: ModelMemory
    fingerprint: str
    barred: str | None
    """Why this daemon starts nothing at all, if so: it only stops, or goes on with a config that was replaced."""
    clock_sound: bool
    matching: bool
    """The store is an old copy, and what it forgot is not on record again; or the listing shows that it may be."""
    account_trusted: bool
    copied: bool
    """Another installation's resource of our owner is there."""
    owed: bool
    """An earlier resource of this slot owes its stop or is unresolved."""
    listing_fresh: bool
    priced: bool
    starts_per_hour: int
    starts_per_day: int
    stance: Stance = ALWAYS_OPEN
    """What the model's schedule says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Nothing stands in the way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """Not now: why, whether waiting helps, and when to try again where that is known."""

    code: Code
    reason: str
    final: bool
    retry_at: datetime | None = None
    detail: str | None = None
    """The provider's words, for operators alone (CX-5)."""


def decide(case: Situation) -> Start | Refuse:
    """Decide in the order of weight: what an operator must mend first, what time alone mends last."""
    if case.barred is not None:
        return Refuse(code=Code.REFUSED, reason=case.barred, final=True)
    if (held := hold(case.memory, fingerprint=case.fingerprint, now=case.now)) is not None:
        return held
    if (closed := off(case.stance)) is not None:
        return closed
    if (beside := _beside(case)) is not None:
        return beside
    if not case.account_trusted or not case.listing_fresh:
        return Refuse(code=Code.PROVIDER_UNAVAILABLE, reason="no fresh, complete look at the provider", final=False)
    if not case.clock_sound:
        return Refuse(code=Code.REFUSED, reason="the clock is not to be trusted yet; nothing is created", final=False)
    if not case.priced:
        return Refuse(code=Code.PROVIDER_UNAVAILABLE, reason="no price is known for any declared offer", final=False)
    return _rate(case)


def _beside(case: Situation) -> Refuse | None:
    """Is something there, or may it be, beside which nothing may start?"""
    if case.copied:
        return Refuse(
            code=Code.REFUSED,
            reason="another installation of this owner has resources; claim it or end it",
            final=False,
        )
    if case.owed:
        return Refuse(code=Code.MODEL_STOPPING, reason="an earlier resource is not proven gone", final=False)
    if case.matching:
        reason = "an old copy of the store was put back; first everything that exists is matched"
        return Refuse(code=Code.PROVIDER_UNAVAILABLE, reason=reason, final=False)
    return None


def hold(memory: ModelMemory, *, fingerprint: str, now: datetime) -> Refuse | None:
    """Is the model held? A changed config ends a hold, and so does its time."""
    if memory.hold_reason is None or memory.hold_fingerprint != fingerprint:
        return None
    if memory.hold_until is not None and now >= memory.hold_until:
        return None
    code = Code.NO_FUNDS if memory.hold_reason == Code.NO_FUNDS else Code.MODEL_BLOCKED
    return Refuse(
        code=code, reason=memory.hold_reason, final=True, retry_at=memory.hold_until, detail=memory.round_detail
    )


def off(stance: Stance) -> Refuse | None:
    """Is the model off by its schedule?"""
    if not isinstance(stance, Off):
        return None
    reason = f"off by its schedule until {stance.until.isoformat(sep=' ', timespec='minutes')}"
    return Refuse(code=Code.MODEL_BLOCKED, reason=reason, final=True, retry_at=stance.until)


def _rate(case: Situation) -> Start | Refuse:
    memory, now = case.memory, case.now
    if memory.next_round_at is not None and now < memory.next_round_at:
        return Refuse(
            code=Code.NO_CAPACITY,
            reason="every declared offer was refused",
            final=False,
            retry_at=memory.next_round_at,
            detail=memory.round_detail,
        )
    for most, span in ((case.starts_per_hour, timedelta(hours=1)), (case.starts_per_day, timedelta(days=1))):
        recent = sorted(at for at in memory.starts if at > now - span)
        if len(recent) >= most:
            retry_at = recent[-most] + span
            return Refuse(code=Code.MODEL_BLOCKED, reason="too many starts of late", final=True, retry_at=retry_at)
    return Start()


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """All that a situation is read from, at one moment."""

    book: Book
    view: View
    policy: HostingPolicy
    epochs_known: int
    """The highest epoch that former runs granted, as far as known."""
    barred: str | None
    clock_sound: bool
    now: datetime
    spans_now: datetime
    """On the clock that nobody sets, by which the age of a listing is told."""


def situation(
    model: ModelPolicy, slot: int, around: Surroundings, *, replaces: DeploymentId | None = None
) -> Situation:
    """What a start in this slot depends on now. What it `replaces` owes its stop only later, and is not in the way."""
    book, view, policy = around.book, around.view, around.policy
    judged = view.vouched(None if view.completed is None else view.completed.began_at)
    return Situation(
        now=around.now,
        memory=book.memory(model.alias),
        fingerprint=model.fingerprint,
        barred=around.barred,
        clock_sound=around.clock_sound,
        matching=book.matching_since is not None or _forgotten(model, around),
        account_trusted=book.account.trusted and judged,
        copied=_copied(model, around),
        owed=any(
            duty.model == model.alias and duty.slot == slot and duty.open and duty.deployment != (replaces or "")
            for duty in book.obligations.values()
        ),
        listing_fresh=view.fresh(policy, now=around.spans_now),
        priced=ceiling(model, view.usd_per_hour) is not None,
        starts_per_hour=policy.starts_per_hour,
        starts_per_day=policy.starts_per_day,
        stance=model.stance(book.memory(model.alias).cold_start, now=around.now),
    )


def _copied(model: ModelPolicy, around: Surroundings) -> bool:
    """Nothing starts beside what somebody else of our name may be running: for its model, or for any if untold."""
    view, owner = around.view, around.book.owner
    return any(
        owner.copied(seen.tags) and not ended(seen) and seen.alias in {None, model.alias}
        for listing in (view.listing, view.completed)
        if listing is not None
        for seen in listing.resources
    )


def _forgotten(model: ModelPolicy, around: Surroundings) -> bool:
    """Does the listing show something that only a lost record can have made, perhaps for this model?"""
    book = around.book
    found = restoration.strangers(around.view.resources, book)
    return any(
        seen.alias in {None, model.alias} and restoration.betrays(seen, book, granted=around.epochs_known)
        for seen in found
    )
