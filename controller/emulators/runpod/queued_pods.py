"""Which pods wait for a machine, to become pods that bill?

Runpod lists them apart from pods (2026-11-13) and says little of them: a name, a state, and until when they wait. How
one is asked for was never seen, so that tests put them there, or order that a create comes to one. One that is
cancelled, or whose time is over, is shown with that word and becomes nothing.
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
_ROOM_SECONDS: Final = 60.0
_OF_THE_WAIT: Final = frozenset({"id", "nameless", "state", "failure", "expires_in_seconds", "deploys_in_seconds"})
STATES: Final = (QUEUED, DEPLOYED, "FAILED", EXPIRED, CANCELLED)


@dataclass(slots=True, kw_only=True)
class QueuedPod:
    """`asked` is the body of the pod that it becomes; some are shown without a `name`."""

    id: str
    account: str
    name: str | None
    asked: dict[str, Any]
    state: str
    put_at: float
    expires_at: float
    pod: str | None = None
    failure: str | None = None


def put_queued(emulator: Emulator, asked: dict[str, Any], now: float) -> str:
    """`asked` as read by the controls: it may say when the pod comes, and when the wait is over."""
    account = asked.get("account") or emulator.settings.account
    queued = QueuedPod(
        id=asked.get("id") or emulator.new_id(),
        account=account,
        name=None if asked.get("nameless") else asked["name"],
        asked={key: value for key, value in asked.items() if key not in _OF_THE_WAIT} | {"account": account},
        state=asked.get("state", QUEUED),
        put_at=now,
        expires_at=now + asked.get("expires_in_seconds", 3600.0),
        failure=asked.get("failure"),
    )
    emulator.queued[queued.id] = queued
    emulator.later(queued.expires_at, lambda at: _expire(queued))
    if "deploys_in_seconds" in asked:
        emulator.later(now + asked["deploys_in_seconds"], lambda at: _deploy(emulator, queued, at))
    return queued.id


def queue_create(ask: Ask, asked: dict[str, Any], *, after: float) -> Answer:
    """A create of a pod that waits instead. What is answered then was never seen: who orders this spoils it."""
    wait = {"account": ask.account, "deploys_in_seconds": after, "expires_in_seconds": after + _ROOM_SECONDS}
    queued = put_queued(ask.emulator, asked | wait, ask.now)
    answer = in_json(202, _shown(ask.emulator.queued[queued]))
    return Answer(status=answer.status, headers=answer.headers, body=answer.body, effect="queued", pod=queued)


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
        "status": queued.state,
        "queue": {"expiresAt": in_rfc3339(queued.expires_at)},
    }
    if queued.name is not None:
        shown["name"] = queued.name
    if queued.pod is not None:
        shown["podId"] = queued.pod
    if queued.failure is not None:
        shown["failureReason"] = queued.failure
    return shown
