"""What ends the wait of a caller of a cold model, other than the model?

A start that failed after the caller came; a refusal that the daemon calls final; a daemon that was away before the
caller came and stays away; the end of the caller's own patience. Whoever comes after a failure waits for the next
start. Rules only.
"""

from dataclasses import dataclass
from datetime import timedelta
from math import ceil
from typing import Final

from controller.core.errors import Code
from controller.gateway.refusals import Refused
from controller.gateway.routes import View

RETRY_AFTER_UNKNOWN: Final = timedelta(seconds=30)
RETURN_MOST: Final = timedelta(hours=6)
"""No start takes longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiter:
    """Instants are seconds on the loop's clock."""

    alias: str
    joined_at: float
    until: float
    controller: str | None
    version: int
    told: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What is known at the moment of deciding."""

    view: View | None
    controller: str | None
    first_version: int
    """With which this daemon's run was first heard."""
    answered: bool
    """The daemon has answered a start since the room opened, so refusals are about this demand."""
    unknown: bool
    down: bool
    daemon_seen_at: float | None
    draining: bool
    down_grace: timedelta


@dataclass(frozen=True, slots=True)
class WaitOn:
    until: float


def decide(waiter: Waiter, scene: Scene, now: float) -> Refused | WaitOn:
    view = scene.view
    if scene.draining:
        return _starting(view, "this gateway is restarting")
    if scene.unknown:
        return Refused(Code.UNKNOWN_MODEL, f"there is no model {waiter.alias!r}")
    if view is not None and view.failure is not None and _predates(waiter, scene, view.failure.version):
        return Refused(
            Code.START_FAILED,
            f"the start of {waiter.alias!r} failed: {view.failure.reason}",
            retry_after=view.failure.retry_after,
            extra={"reason": view.failure.reason},
        )
    if view is not None and view.refusal is not None and scene.answered and (view.refusal.final or waiter.told):
        return _refusal(view)
    if waiter.told and scene.answered:
        return _starting(view, f"{waiter.alias!r} is starting")
    return _by_time(waiter, scene, now)


def _by_time(waiter: Waiter, scene: Scene, now: float) -> Refused | WaitOn:
    alone = scene.down and (scene.daemon_seen_at is None or scene.daemon_seen_at < waiter.joined_at)
    grace_until = waiter.joined_at + (0.0 if waiter.told else scene.down_grace.total_seconds())
    if alone and now >= grace_until:
        return _controller_down()
    if now < waiter.until:
        return WaitOn(min(waiter.until, grace_until) if now < grace_until else waiter.until)
    if scene.down:
        return _controller_down()
    if scene.view is not None and scene.view.refusal is not None:
        return _refusal(scene.view)
    return _starting(scene.view, f"{waiter.alias!r} is still starting")


def not_running(alias: str, view: View | None) -> Refused:
    """To what wakes nothing. It is worth coming back only where somebody else has woken the model."""
    if view is None:
        return _controller_down()
    if view.starting is not None:
        return _starting(view, f"{alias!r} is starting")
    words = f"{alias!r} is not running, and this starts nothing"
    return Refused(Code.NOT_SERVED, words, status=503, extra={"phase": view.phase})


def _predates(waiter: Waiter, scene: Scene, failure_version: int) -> bool:
    """A daemon that restarted counts anew; what it brought with it failed before it could be asked."""
    joined = waiter.version if waiter.controller == scene.controller else scene.first_version
    return joined < failure_version


def _controller_down() -> Refused:
    return Refused(
        Code.CONTROLLER_DOWN,
        "the controller cannot be reached, and the model is not running",
        retry_after=timedelta(seconds=10),
    )


def _refusal(view: View) -> Refused:
    refusal = view.refusal
    assert refusal is not None  # noqa: S101 - the callers looked
    try:
        code = Code(refusal.code)
    except ValueError:  # a newer daemon's word
        code = Code.REFUSED
    return Refused(
        code,
        refusal.reason or f"{view.alias!r} is not started",
        retry_after=refusal.retry_after,
        extra={"reason": refusal.reason},
    )


def _starting(view: View | None, message: str) -> Refused:
    starting, eta = None if view is None else view.starting, eta_of(view)
    return Refused(
        Code.MODEL_STARTING,
        message,
        retry_after=RETRY_AFTER_UNKNOWN if eta is None else eta,
        extra={
            "phase": starting.phase if starting is not None else (view.phase if view is not None else "off"),
            "eta_seconds": None if eta is None else eta.total_seconds(),
            "usd_so_far": None if starting is None else starting.usd_so_far,
        },
    )


def eta_of(view: View | None) -> timedelta | None:
    """As long as starts take by the daemon's history, less what this one has taken; unknown before the first."""
    if view is None:
        return None
    return view.cold_start if view.starting is None else view.starting.eta


def queue_full(view: View) -> Refused:
    eta = eta_of(view)
    return Refused(
        Code.QUEUE_FULL,
        f"{view.queue} callers wait for {view.alias!r} already",
        retry_after=RETRY_AFTER_UNKNOWN if eta is None else eta,
    )


def back_within(refused: Refused) -> timedelta:
    """How long may it be until a client comes back that was told this? As long as it was told that it takes."""
    if refused.code not in (Code.MODEL_STARTING, Code.QUEUE_FULL):
        return timedelta(0)
    eta = timedelta(seconds=refused.extra.get("eta_seconds") or 0.0)
    return min(max(eta, refused.retry_after or timedelta(0)), RETURN_MOST)


def progress(view: View | None) -> str:
    """One line for people, for a comment in an event stream."""
    if view is None or view.starting is None:
        return "waiting for the model"
    eta, spent = view.starting.eta, view.starting.usd_so_far
    left = "" if eta is None else f", about {ceil(eta.total_seconds())} s left"
    cost = "" if spent is None else f", ${spent} so far"
    return f"the model is starting ({view.starting.phase}{left}{cost})"
