"""What exists on this emulated Runpod, and what has happened there?

Holds the pods, the money, the settings and the record of calls. All of it follows from the clock it is given: before
each look, what has become due since the last one (a delayed effect, an empty account) is made to have happened at its
own time. What tests may order is in `control`; what clients may ask is in `api`.
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from controller.emulators.exchange import Request
from controller.emulators.runpod import catalog, control, pods
from controller.emulators.runpod.cards import meeting
from controller.emulators.runpod.children import Children
from controller.emulators.runpod.echoing import first_words
from controller.emulators.runpod.faults import Deed, Faults, Order
from controller.emulators.runpod.money import HOUR, NOTHING, Meter, Purse
from controller.emulators.runpod.network_volumes import Volume
from controller.emulators.runpod.orders import take_orders
from controller.emulators.runpod.pods import Boot, Pod
from controller.emulators.runpod.prices import hourly
from controller.emulators.runpod.queued_pods import QueuedPod
from controller.emulators.runpod.settings import Settings, changed
from controller.emulators.runpod.windows import CallCount

_ID_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz0123456789"
_ID_LENGTH: Final = 14
_CALLS_KEPT: Final = 200_000
INJECTED_KEY: Final = "rpa_pod_"


@dataclass(slots=True, kw_only=True)
class Call:
    """One call to the API as it arrived; `status` stays None where the client got no answer."""

    at: float
    method: str
    path: str
    status: int | None = None
    effect: str = "none"
    pod: str | None = None
    body: str | None = None
    """Of an order for a pod: what it held."""


class Emulator:
    """One Runpod. Give it a clock (unix seconds) and a seeded random, and it does the same again."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.time,
        rng: random.Random | None = None,
        settings: Settings | None = None,
    ) -> None:
        self._clock = clock
        self._rng = rng or random.Random()
        self.settings = settings or Settings()
        self.pods: dict[str, Pod] = {}
        self.volumes: dict[str, Volume] = {}
        self.queued: dict[str, QueuedPod] = {}
        self.faults = Faults()
        self.calls: deque[Call] = deque(maxlen=_CALLS_KEPT)
        self.children = Children()
        self.began_at = clock()
        self._purse = Purse(usd=self.settings.balance, since=self.began_at)
        self.counted = CallCount()
        self._later: list[tuple[float, Callable[[float], None]]] = []

    # What tests order: the same in process and over HTTP.

    def truth(self) -> dict[str, Any]:
        """Everything, deleted pods too, as it is now."""
        return control.truth(self, self.settle())

    def add_faults(self, rules: list[dict[str, Any]]) -> Order:
        """Rules as in the HTTP surface. Raises BadControl, and then adds none."""
        return self.faults.add(rules)

    def remove_faults(self, order: Order) -> None:
        self.faults.remove(order)

    def clear_faults(self) -> None:
        self.faults.clear()

    def change_settings(self, change: dict[str, Any]) -> None:
        """Raises BadControl, and then changes nothing."""
        now = self.settle()
        self.settings = changed(self.settings, change)
        if "balance" in change:
            self._purse.fill(self.settings.balance, now)
        if "delete_stops_billing" in change:
            for pod in self.pods.values():
                self.rebill(pod, now)

    def put_pod(self, given: dict[str, Any]) -> str:
        """A pod that nobody asked for. Returns its id; raises BadControl."""
        return control.put_pod(self, given, self.settle())

    def put_volume(self, given: dict[str, Any]) -> str:
        """A network volume, as the API would be asked for one. Returns its id; raises BadControl."""
        return control.put_volume(self, given, self.settle())

    def put_queued(self, given: dict[str, Any]) -> str:
        """A pod that waits for a machine. Returns the id under which it waits; raises BadControl."""
        return control.put_queued(self, given, self.settle())

    def change_pod(self, pod_id: str, change: dict[str, Any]) -> str:
        """Make something happen to a pod. Returns its id, which `migrate` makes a new one; raises BadControl."""
        return control.change_pod(self, pod_id, change, self.settle())

    def catch_up(self) -> None:
        """Let what is late happen now: effects of delayed calls, and what pods are not yet, or still, shown of."""
        now = self.settle()
        late, self._later = sorted(self._later, key=lambda entry: entry[0]), []
        for _, effect in late:
            effect(now)
        for pod in self.pods.values():
            pod.listed_from, pod.readable_from = min(pod.listed_from, now), min(pod.readable_from, now)
            if pod.stated != pods.TERMINATED:
                pod.shown_until = min(pod.shown_until, now)

    async def close(self) -> None:
        """End every program that was started behind a pod."""
        await self.children.close()

    # What the other files of the emulator build on.

    def now(self) -> float:
        return self._clock()

    def settle(self) -> float:
        """Make everything happen that is due by now; returns now."""
        now = self._clock()
        if self._later:
            due = sorted((entry for entry in self._later if entry[0] <= now), key=lambda entry: entry[0])
            self._later = [entry for entry in self._later if entry[0] > now]
            for at, effect in due:
                effect(at)
        empty_at = self._purse.empty_at()
        if empty_at is not None and empty_at <= now:
            self._end_for_want_of_money(empty_at)
        return now

    def later(self, at: float, effect: Callable[[float], None]) -> None:
        """An effect that comes though its client has gone."""
        self._later.append((at, effect))

    def balance(self, now: float) -> float:
        return self._purse.at(now)

    def spend(self, more: float, now: float) -> None:
        """From now on so many USD a second more."""
        self._purse.change(more, now)

    def spend_per_hour(self) -> float:
        return self._purse.rate * HOUR

    def take_fault(self, request: Request) -> Deed | None:
        """What was ordered to go wrong with this call."""

        def name_of(pod_id: str) -> str | None:
            pod = self.pods.get(pod_id)
            return pod.name if pod is not None else None

        return self.faults.take(request, name_of)

    def open_call(self, request: Request, now: float) -> Call:
        call = Call(at=now, method=request.method, path=request.path)
        if (request.method, request.path) == ("POST", "/v2/pods"):
            call.body = request.body.decode(errors="replace")
        self.calls.append(call)
        self.counted.count(now)
        return call

    def new_id(self) -> str:
        return "".join(self._rng.choices(_ID_LETTERS, k=_ID_LENGTH))

    def pick(self, among: list[str]) -> str:
        return self._rng.choice(among)

    def secrets(self) -> dict[str, str] | None:
        """What references are replaced with; None: they are not."""
        return self.settings.secrets if self.settings.substitute_secrets else None

    def owner_of(self, bearer: str) -> str | None:
        """The pod that a pod's own key belongs to."""
        return bearer.removeprefix(INJECTED_KEY) if bearer.startswith(INJECTED_KEY) else None

    def injected_key(self, pod: Pod) -> str:
        """The key that Runpod gives to the pod itself."""
        return f"{INJECTED_KEY}{pod.id}"

    def new_boot(self, now: float, *, first: bool) -> Boot:
        settings = self.settings
        return Boot(
            at=now,
            boot_seconds=settings.boot_seconds,
            ready_seconds=settings.ready_seconds,
            first=first,
            said_at_once=not settings.provisioning,
        )

    def add_pod(self, asked: dict[str, Any], now: float, *, lags: bool = True) -> Pod:
        """Make a pod of a body that was found right. It bills from this moment."""
        pod = _new_pod(self, asked, now, lags=lags)
        self.pods[pod.id] = pod
        catalog.move_stock(self.settings, pod.gpu_id, -pod.gpu_count)
        take_orders(pod, self.settings.upstream, now)
        pod.log += [(now, "container", line) for line in meeting(pod)]
        if self.settings.echo_errors:
            pod.log += [(now, "container", line) for line in first_words(self, pod)]
        self.rebill(pod, now)
        return pod

    def rebill(self, pod: Pod, now: float) -> None:
        """Follow a change of what the pod costs. To be called after every change that may touch it."""
        rate = pods.rate(pod, bills_after_end=not self.settings.delete_stops_billing)
        self.spend(rate.usd - pod.meter.rate.usd, now)
        pod.meter.change(rate, now)

    def end_pod(self, pod: Pod, now: float, *, shown_for: float = 0.0) -> None:
        if pod.ended_at is not None:
            return
        pod.ended_at = now
        pod.shown_until = now + shown_for
        pod.upstream.open.cut()
        catalog.move_stock(self.settings, pod.gpu_id, pod.gpu_count)
        self.rebill(pod, now)

    def stop_pod(self, pod: Pod, now: float) -> None:
        pod.stated = pods.EXITED
        pod.upstream.open.cut()
        self.rebill(pod, now)

    def start_pod(self, pod: Pod, now: float) -> None:
        pod.stated = None
        pod.started_at = None
        pod.boot = self.new_boot(now, first=False)
        self.rebill(pod, now)

    def account_of(self, bearer: str) -> str:
        """Whose pods a key shows."""
        pod = self.pods.get(self.owner_of(bearer) or "")
        return pod.account if pod is not None else self.settings.accounts.get(bearer, self.settings.account)

    def listed(self, account: str, now: float) -> list[Pod]:
        """What a listing shows, newest first."""
        shown = [pod for pod in self.pods.values() if now >= pod.listed_from and self._is_shown(pod, account, now)]
        shown = [pod for pod in shown if pod.stated != pods.TERMINATED]
        return sorted(shown, key=lambda pod: (pod.created_at, pod.number), reverse=True)

    def readable(self, pod_id: str, account: str, now: float) -> Pod | None:
        pod = self.pods.get(pod_id)
        return pod if pod is not None and now >= pod.readable_from and self._is_shown(pod, account, now) else None

    def _is_shown(self, pod: Pod, account: str, now: float) -> bool:
        return pod.account == account and (pod.alive or now < pod.shown_until)

    def _end_for_want_of_money(self, at: float) -> None:
        """Runpod stops every pod then, and deletes those without a network volume."""
        for pod in self.pods.values():
            if pod.alive and pod.mounts.get("network"):
                self.stop_pod(pod, at)
            else:
                self.end_pod(pod, at)
        for pod in self.pods.values():
            self.spend(-pod.meter.rate.usd, at)
            pod.meter.change(NOTHING, at)


def _new_pod(emulator: Emulator, asked: dict[str, Any], now: float, *, lags: bool) -> Pod:
    settings = emulator.settings
    gpu = asked.get("gpu") or {}
    gpu_id, cloud = gpu.get("id"), asked.get("cloud", "SECURE")
    count = int(gpu.get("count", 1)) if gpu_id else 0
    places = catalog.places_for(settings, gpu_id if gpu_id in catalog.BY_ID else None, asked.get("dataCenterIds") or [])
    held = [
        emulator.volumes[entry["volumeId"]].place
        for entry in asked.get("mounts", {}).get("network", [])
        if entry["volumeId"] in emulator.volumes
    ]
    return Pod(
        id=asked.get("id") or emulator.new_id(),
        number=len(emulator.pods),
        account=asked.get("account") or settings.account,
        name=asked["name"],
        image=asked.get("image", ""),
        gpu_id=gpu_id,
        gpu_count=count,
        cpu=asked.get("cpu"),
        cloud=cloud,
        place=emulator.pick([place for place in held if place in places] or places) if places else None,
        disk=asked.get("disk", 20),
        mounts=asked.get("mounts", {}),
        ports=list(asked.get("ports", [])),
        env=dict(asked.get("env", {})),
        args=asked.get("args", ""),
        entrypoint=asked.get("entrypoint"),
        cmd=asked.get("cmd"),
        registry=asked.get("registry"),
        global_network=asked.get("globalNetworking", False),
        cluster=asked.get("cluster"),
        created_at=now,
        listed_from=now + (settings.list_lag_seconds if lags else 0.0),
        readable_from=now + (settings.get_lag_seconds if lags else 0.0),
        usd_per_hour=hourly(settings, asked) * settings.price_jump,
        boot=emulator.new_boot(now, first=True),
        meter=Meter(since=now),
    )
