"""What waits in Runpod's queue under our name?

A queued pod is none yet, and becomes one that bills without a further call (published on 2026-11-13; how one is asked
for is not). We never queue: what carries one of our request ids there was made otherwise than ordered, and is
cancelled. Little more than its name is shown, so that only the name tells whose it is, and one without a name may be
anybody's: nobody then knows that a lost create made nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import quote

from controller.core.deployment import ProviderState
from controller.core.evidence import StopReason
from controller.core.identity import ResourceKey
from controller.providers.runpod.document import Unreadable, document
from controller.providers.runpod.wire import Pod, Reader, following

QUEUE_PATH: Final = "/queued-pods"
MARK: Final = "queued:"
"""Before its id, to tell it from the pod that it becomes; no pod's id has a colon."""
WAITING: Final = "QUEUED"
OVER: Final = frozenset({"DEPLOYED", "FAILED", "EXPIRED", "CANCELLED"})

LOOKED_AT_EVERY: Final = timedelta(minutes=10)
"""What waits there does not bill yet."""
AFTER_A_LOST_CREATE: Final = timedelta(minutes=15)
"""So long every listing looks at the queue; it is one call more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePage:
    """`readable`: everything that waits in it has a name. `problem` says why it is no page."""

    pods: tuple[Pod, ...] = ()
    readable: bool = False
    next_cursor: str | None = None
    problem: str | None = None


def is_queued(key: ResourceKey) -> bool:
    return key.incarnation.startswith(MARK)


def queued_path(key: ResourceKey) -> str:
    return f"{QUEUE_PATH}/{quote(key.incarnation.removeprefix(MARK), safe='').replace('.', '%2E')}"


def read_page(body: bytes, reader: Reader, *, now: datetime) -> QueuePage:
    envelope = document(body)
    entries = envelope.get("queuedPods") if isinstance(envelope, dict) else None
    if not isinstance(entries, list):
        return QueuePage(problem="the answer has no list of queued pods")
    cursor, problem = following(envelope.get("pagination"), empty=not entries)
    found = [_read(entry, reader, now=now) for entry in entries]
    return QueuePage(
        pods=tuple(pod for pod in found if isinstance(pod, Pod) and pod.ours),
        readable=_all_named(entries),
        next_cursor=cursor,
        problem=problem,
    )


def read_one(body: bytes, reader: Reader, *, now: datetime) -> Pod | Unreadable:
    return _read(document(body), reader, now=now)


def _all_named(entries: Iterable[Any]) -> bool:
    """Of all that may still become a pod. What became one is in the listing that the next look begins with."""
    return all(isinstance(entry, dict) and (_is_over(entry) or _is_named(entry)) for entry in entries)


def _is_named(entry: dict[str, Any]) -> bool:
    return isinstance(entry.get("name"), str) and bool(entry["name"])


def _is_over(entry: dict[str, Any]) -> bool:
    word = entry.get("status")
    return isinstance(word, str) and word in OVER


def _read(entry: Any, reader: Reader, *, now: datetime) -> Pod | Unreadable:
    if not isinstance(entry, dict) or not isinstance(entry.get("id"), str) or not entry["id"]:
        return Unreadable(what="the answer describes no queued pod")
    word = entry.get("status")
    pod = reader.one({"id": f"{MARK}{entry['id']}", "name": entry.get("name"), "status": word}, now=now)
    if isinstance(pod, Unreadable):
        return pod
    state = ProviderState.TERMINATED if _is_over(entry) else ProviderState.PENDING if word == WAITING else None
    fault = None if state is ProviderState.TERMINATED else StopReason.WRONG_RESOURCE
    return replace(pod, seen=replace(pod.seen, state=state, fault=fault), plain=True)
