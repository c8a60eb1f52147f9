"""Which pods wait for a machine, to become pods that bill?

Runpod lists them apart from pods (2026-11-13) and says little of them: a name, a state, and until when they wait. How
one is asked for was never seen, so that tests put them there. One that is cancelled, or whose time is over, is shown
with that word and becomes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from controller.emulators.exchange import Answer, in_json
from controller.emulators.runpod import bodies
from controller.emulators.runpod.api_call import Ask
from controller.emulators.runpod.bodies import Refused
from controller.emulators.runpod.shown import in_rfc3339

if TYPE_CHECKING:
    from controller.emulators.runpod.emulator import Emulator

QUEUED: Final = "QUEUED"
DEPLOYED: Final = "DEPLOYED"
EXPIRED: Final = "EXPIRED"
CANCELLED: Final = "CANCELLED"
STATES: Final = (QUEUED, DEPLOYED, "FAILED", EXPIRED, CANCELLED)


@dataclass(slots=True, kw_only=True)
class QueuedPod:
    """`asked` is the body of the pod that it becomes."""

    id: str
    account: str
    name: str
    asked: dict[str, Any]
    state: str
    expires_at: float
    pod: str | None = None
    failure: str | None = None


def put_queued(emulator: Emulator, asked: dict[str, Any], now: float) -> str:
    """`asked` as read by the controls: it may say when the pod comes, and when the wait is over."""
    account = asked.get("account") or emulator.settings.account
    queued = QueuedPod(
        id=asked.get("id") or emulator.new_id(),
        account=account,
        name=asked["name"],
        asked={key: asked[key] for key in ("name", "image", "env", "gpu", "ports") if key in asked}
        | {"account": account},
        state=asked.get("state", QUEUED),
        expires_at=now + asked.get("expires_in_seconds", 3600.0),
        failure=asked.get("failure"),
    )
    emulator.queued[queued.id] = queued
    emulator.later(queued.expires_at, lambda at: _expire(queued))
    if "deploys_in_seconds" in asked:
        emulator.later(now + asked["deploys_in_seconds"], lambda at: _deploy(emulator, queued, at))
    return queued.id


def list_queued(ask: Ask, _: str) -> Answer:
    bodies.read_list_query(ask.request.parameters())
    found = [_shown(entry) for entry in ask.emulator.queued.values() if entry.account == ask.account]
    return in_json(200, {"queuedPods": found, "pagination": {"nextCursor": None, "hasNextPage": False}})


def get_queued(ask: Ask, queued_id: str) -> Answer:
    return in_json(200, _shown(_find(ask, queued_id)))


def cancel_queued(ask: Ask, queued_id: str) -> Answer:
    queued = _find(ask, queued_id)
    if queued.state != QUEUED:
        raise Refused(409, f"queued pod is {queued.state}")
    if ask.ignore:
        return Answer(status=204)
    queued.state = CANCELLED
    return Answer(status=204, effect="cancelled", pod=queued.id)


def _find(ask: Ask, queued_id: str) -> QueuedPod:
    queued = ask.emulator.queued.get(queued_id)
    if queued is None or queued.account != ask.account:
        raise Refused(404, "queued pod not found")
    return queued


def _expire(queued: QueuedPod) -> None:
    if queued.state == QUEUED:
        queued.state = EXPIRED


def _deploy(emulator: Emulator, queued: QueuedPod, at: float) -> None:
    if queued.state == QUEUED:
        body = {"image": "example/image:1", "ports": ["8000/http"], "gpu": {"id": "NVIDIA A40", "count": 1}}
        queued.pod = emulator.add_pod(body | queued.asked, at).id
        queued.state = DEPLOYED


def _shown(queued: QueuedPod) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": queued.id,
        "name": queued.name,
        "status": queued.state,
        "queue": {"expiresAt": in_rfc3339(queued.expires_at)},
    }
    if queued.pod is not None:
        shown["podId"] = queued.pod
    if queued.failure is not None:
        shown["failureReason"] = queued.failure
    return shown
