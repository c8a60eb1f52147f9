"""What is this pod doing at this moment?

A pod's status, the age of its container and whether its model server answers are computed from the clock and from
when it was made; no task moves them on. A container that crashes in a loop is the same arithmetic: every so many
seconds it starts anew, spends a quarter of the time on starting, and its uptime falls back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from controller.emulators.runpod.money import NOTHING, Meter, Rate, running_rate, stopped_rate
from controller.emulators.runpod.open_requests import OpenRequests

PROVISIONING: Final = "PROVISIONING"
STARTING: Final = "STARTING"
RUNNING: Final = "RUNNING"
EXITED: Final = "EXITED"
ERROR: Final = "ERROR"
TERMINATED: Final = "TERMINATED"

ACTIONS: Final = {
    PROVISIONING: ("stop", "terminate"),
    STARTING: ("stop", "terminate"),
    RUNNING: ("stop", "restart", "terminate"),
    EXITED: ("start", "terminate"),
    ERROR: ("start", "terminate"),
    TERMINATED: (),
}
_UNBILLED: Final = (EXITED, TERMINATED)
_STANDS_STILL: Final = (PROVISIONING, STARTING, EXITED, ERROR, TERMINATED)
"""Any other word is only said."""
_PROVISIONING_SHARE: Final = 0.25
_STARTING_SHARE: Final = 0.25
_CRASH_EVERY: Final = 40.0

AUTO: Final = "auto"
DOWN: Final = "down"
LOADING: Final = "loading"
UP: Final = "up"
UPSTREAM_STATES: Final = ("booting", "ready", "hung", "refusing-key", "open", "wrong-model", "crashing", AUTO)
_UP_BY_ORDER: Final = ("ready", "hung", "refusing-key", "open", "wrong-model")


@dataclass(slots=True, kw_only=True)
class Boot:
    """One life of a pod between a start and a stop: when it was asked for and how long the steps take."""

    at: float
    boot_seconds: float
    ready_seconds: float
    first: bool = True
    said_at_once: bool = False

    @property
    def container_at(self) -> float:
        return self.at + self.boot_seconds


@dataclass(slots=True, kw_only=True)
class Upstream:
    """What the tests ordered of the model server, and what it has seen."""

    state: str = AUTO
    crash_every: float | None = None
    crash_from: float = 0.0
    respawn_every: float | None = None
    """The server's process starts anew so often inside a container that stays: the provider sees nothing of it."""
    respawn_from: float = 0.0
    frozen_running: int = 0
    """What an engine that hangs goes on saying of its requests: it counted them last when it hung."""
    token_rate: float | None = None
    first_token_seconds: float = 0.0
    die_after_chunks: int | None = None
    open: OpenRequests = field(default_factory=OpenRequests)
    aborted: int = 0
    requests: int = 0
    words: int = 0
    prompt_words: int = 0


@dataclass(slots=True, kw_only=True)
class Pod:
    """One pod as Runpod keeps it. `usd_per_hour` is what the whole pod costs while it runs."""

    id: str
    number: int
    account: str
    name: str
    image: str
    gpu_id: str | None
    gpu_count: int
    cpu: dict[str, Any] | None
    cloud: str
    place: str | None
    disk: int
    mounts: dict[str, Any]
    ports: list[str]
    env: dict[str, str]
    args: str
    entrypoint: list[str] | None
    cmd: list[str] | None
    registry: str | None
    global_network: bool
    cluster: dict[str, Any] | None = None
    """Where it is a member of one, it is listed on request only and cannot be changed by itself."""
    locked: bool = False
    bills_on: bool = False
    """Its end does not end its bill."""
    created_at: float
    listed_from: float
    readable_from: float
    usd_per_hour: float
    boot: Boot
    meter: Meter
    stated: str | None = None
    cost_shown: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    shown_until: float = 0.0
    upstream: Upstream = field(default_factory=Upstream)
    log: list[tuple[float, str, str]] = field(default_factory=list)

    @property
    def alive(self) -> bool:
        return self.ended_at is None

    def volume_gb(self) -> int:
        return int(self.mounts.get("persistent", {}).get("size", 0))


def status(pod: Pod, now: float) -> str:
    if pod.stated is not None:
        return pod.stated
    boot = pod.boot
    if now < boot.container_at:
        if boot.said_at_once:
            return RUNNING
        provisioning = boot.first and now < boot.at + boot.boot_seconds * _PROVISIONING_SHARE
        return PROVISIONING if provisioning else STARTING
    if boot.said_at_once or container_since(pod, now) is not None:
        return RUNNING
    return STARTING


def container_since(pod: Pod, now: float) -> float | None:
    """When the container that runs now was started; None while none runs."""
    if not pod.alive or pod.stated in _STANDS_STILL or now < pod.boot.container_at:
        return None
    every = pod.upstream.crash_every
    begin = max(pod.boot.container_at, pod.upstream.crash_from)
    if every is None or now < begin + every:
        return pod.boot.container_at
    crashed_at = begin + every * int((now - begin) / every)
    started = crashed_at + every * _STARTING_SHARE
    return started if now >= started else None


def server_since(pod: Pod, now: float) -> float | None:
    """When the process of the model server that runs now was started; None while none runs."""
    since, every = container_since(pod, now), pod.upstream.respawn_every
    if since is None or every is None:
        return since
    begin = max(since, pod.upstream.respawn_from)
    return since if now < begin + every else begin + every * int((now - begin) / every)


def dies_at(pod: Pod, now: float) -> float | None:
    """When the server that runs now will crash, alone or with its container; None if it will not."""
    ends = [
        begin + every * (int(max(0.0, now - begin) / every) + 1)
        for every, begin in (
            (pod.upstream.crash_every, max(pod.boot.container_at, pod.upstream.crash_from)),
            (pod.upstream.respawn_every, max(pod.boot.container_at, pod.upstream.respawn_from)),
        )
        if every is not None
    ]
    return min(ends, default=None)


def first_started_at(pod: Pod, now: float, *, moves: bool) -> float | None:
    """`startedAt`: of the present container, or of the first since the last start, as the settings say."""
    if pod.stated in (PROVISIONING, STARTING) or now < pod.boot.container_at:
        return pod.started_at
    since = container_since(pod, now)
    if moves and since is not None:
        return since
    return pod.started_at if pod.started_at is not None else pod.boot.container_at


def model_server(pod: Pod, now: float) -> str:
    """DOWN: nothing listens. LOADING: the container runs, the model is not loaded. UP: it answers."""
    since = server_since(pod, now)
    if since is None or (pod.gpu_id is not None and pod.gpu_count == 0):
        return DOWN
    if pod.upstream.state == "booting":
        return LOADING
    if pod.upstream.state in _UP_BY_ORDER:
        return UP
    return UP if now >= since + pod.boot.ready_seconds else LOADING


def rate(pod: Pod, *, bills_after_end: bool) -> Rate:
    if pod.ended_at is not None and not (bills_after_end or pod.bills_on):
        return NOTHING
    if pod.ended_at is None and pod.stated in _UNBILLED:
        return stopped_rate(volume_gb=pod.volume_gb()) if pod.stated == EXITED else NOTHING
    return running_rate(usd_per_hour=pod.usd_per_hour, disk_gb=pod.disk, volume_gb=pod.volume_gb())


def order_crashes(pod: Pod, every: float | None, now: float) -> None:
    pod.upstream.crash_every = every
    since = container_since(pod, now)
    pod.upstream.crash_from = since if since is not None else now


def order_respawns(pod: Pod, every: float | None, now: float) -> None:
    pod.upstream.respawn_every = every
    pod.upstream.respawn_from = now


def order_state(pod: Pod, state: str, now: float) -> None:
    """Take a state of the model server as ordered; all but booting and crashing need a container that runs."""
    if state == "hung" and pod.upstream.state != "hung":
        pod.upstream.frozen_running = len(pod.upstream.open)
    pod.upstream.state = state
    if state == "crashing" and pod.upstream.crash_every is None:
        order_crashes(pod, _CRASH_EVERY, now)
    if state != "crashing":
        pod.upstream.crash_every = None
    if state in _UP_BY_ORDER and pod.boot.container_at > now:
        pod.boot.boot_seconds = max(0.0, now - pod.boot.at)
    if state in _UP_BY_ORDER and pod.stated in (PROVISIONING, STARTING):
        pod.stated = None


def restart_container(pod: Pod, now: float, *, after: float = 0.0) -> None:
    """The container starts anew inside the same pod: nothing bills otherwise, uptime falls to 0, requests are cut."""
    before = first_started_at(pod, now, moves=False)
    pod.boot = Boot(
        at=now,
        boot_seconds=after,
        ready_seconds=pod.boot.ready_seconds,
        first=False,
        said_at_once=pod.boot.said_at_once,
    )
    pod.started_at = before
    pod.upstream.open.cut()
