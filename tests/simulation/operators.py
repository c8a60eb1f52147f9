"""What do the people do who run it?

At the daemon's API: start, restart, prefetch, stop, unblock. In the provider's console: delete, stop and restart
pods. And one who looks in now and then, and does what alarms ask for after having looked at the truth: claims,
confirmations.
"""

import random
from collections.abc import Coroutine
from typing import Any, Final

import anyio

from controller.api.client import Problem, Unreachable
from tests.simulation.machine import Machine
from tests.simulation.provider_faults import DELETE
from tests.simulation.stage import Act, Kind, Stage, spread

LOOKS_IN_S: Final = (600.0, 7200.0)
LOOKS_AT_LAST_S: Final = 60.0
UNBLOCKS: Final = 0.5
CONFIRMS: Final = 0.3
WAITS_FOR_POD_S: Final = 60


def _posted(kind: str, path: str, body: dict[str, Any]) -> Act:
    """An act on one model, or on all: it begins when it is sent and ends when it is answered."""

    def act(stage: Stage, draw: random.Random) -> bool:
        machine = stage.a_machine(draw)
        chosen = (draw.choice(stage.town.models),) if "{alias}" in path else stage.town.models
        stage.town.clients.start(_post(stage, machine, kind, path.format(alias=chosen[0]), (chosen, body)))
        return True

    return act


async def _post(
    stage: Stage, machine: Machine, kind: str, path: str, more: tuple[tuple[str, ...], dict[str, Any]]
) -> None:
    models, body = more
    trouble = stage.trouble(kind, *models, lasts=60.0, text=f"at {machine.name}")
    await _heard(stage, machine, stage.town.operators(machine).post(path, body))
    stage.end(trouble)


async def _heard(stage: Stage, machine: Machine, asked: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
    try:
        return await asked
    except Unreachable:
        return {}
    except Problem as problem:
        stage.kernel.tell("operator", f"{machine.name}: {problem}")
        return {}


def _young(stage: Stage, draw: random.Random) -> bool:
    """A model is started, and stopped before the provider shows its pod anywhere; so the delete finds nothing."""
    machine, alias = stage.main, draw.choice(stage.town.models)
    if machine.daemon is None or stage.ours() or stage.staged.now("listing-lags"):
        return False
    lag = spread(draw, 20, 100)
    settings = stage.settings.lay({"list_lag_seconds": lag, "get_lag_seconds": lag})
    order = stage.provider.add_faults([{"match": DELETE, "times": 1, "do": {"answer": 404}}])

    def undo() -> None:
        settings()
        stage.provider.remove_faults(order)

    stage.trouble("young-unseen", alias, lasts=600.0, undo=undo, text=f"for {lag:.0f} s")
    stage.town.clients.start(_start_and_stop(stage, machine, alias, spread(draw, 1, lag / 2)))
    return True


async def _start_and_stop(stage: Stage, machine: Machine, alias: str, after_s: float) -> None:
    operators = stage.town.operators(machine)
    await _heard(stage, machine, operators.post(f"/v1/models/{alias}/start", {}))
    waited = 0
    while not stage.ours() and waited < WAITS_FOR_POD_S:
        await anyio.sleep(1)
        waited += 1
    await anyio.sleep(after_s)
    trouble = stage.trouble("operator-stop-now", alias, lasts=60.0, text=f"at {machine.name}")
    await _heard(stage, machine, operators.post(f"/v1/models/{alias}/stop", {"now": True}))
    stage.end(trouble)


def _console(kind: str, method: str) -> Act:
    """By hand, in the provider's console."""

    def act(stage: Stage, draw: random.Random) -> bool:
        pod = stage.one_of_ours(draw)
        if pod is None:
            return False
        stage.staged.once(kind, pod.id)
        change: dict[str, dict[str, Any]] = {
            "delete": {"vanish": True},
            "stop": {"status": "EXITED"},
            "restart": {"restart": True},
        }
        stage.provider.change_pod(pod.id, change[method])
        return True

    return act


class Watch:
    """Somebody who looks in, at every machine, and does what is asked for where it is right to."""

    def __init__(self, stage: Stage, seed: int) -> None:
        self._stage = stage
        self._draw = random.Random(f"watch {seed}")
        stage.kernel.after(self._draw.uniform(*LOOKS_IN_S), self._look)

    def _look(self) -> None:
        stage = self._stage
        for machine in stage.in_use:
            stage.town.clients.start(self._round(machine))
        stage.kernel.after(LOOKS_AT_LAST_S if stage.honest else self._draw.uniform(*LOOKS_IN_S), self._look)

    def be_near(self) -> None:
        """At the end of a run nobody waits for hours until somebody looks in."""
        self._stage.kernel.after(LOOKS_AT_LAST_S, self._look)

    async def _round(self, machine: Machine) -> None:
        operators = self._stage.town.operators(machine)
        seen = await _heard(self._stage, machine, operators.get("/v1/status"))
        for alarm in seen.get("alarms", []):
            await self._answer(machine, alarm["name"], alarm["subject"])
        for model in seen.get("models", []):
            if model.get("blocked") and self._draw.random() < UNBLOCKS:
                await self._unblock(machine, model["alias"])
        if seen.get("owed") and not self._stage.honest:
            await self._confirm(machine)

    async def _unblock(self, machine: Machine, alias: str) -> None:
        self._stage.staged.once("hold-ended", alias)
        operators = self._stage.town.operators(machine)
        await _heard(self._stage, machine, operators.post(f"/v1/models/{alias}/unblock"))

    async def _answer(self, machine: Machine, alarm: str, subject: str) -> None:
        stage, operators = self._stage, self._stage.town.operators(machine)
        if alarm == "account-changed" and self._account_is_right(machine):
            stage.staged.once("account-claimed", machine.name)
            await _heard(stage, machine, operators.post("/v1/account/claim"))
        elif alarm == "copied-installation" and not self._runs_elsewhere(machine):
            stage.staged.once("installation-claimed", machine.name, text=subject)
            await _heard(stage, machine, operators.post(f"/v1/installations/{subject}/claim"))

    def _account_is_right(self, machine: Machine) -> bool:
        stage = self._stage
        return not stage.staged.now("account-swapped") and all(pod.account == "main" for pod in stage.ours())

    def _runs_elsewhere(self, machine: Machine) -> bool:
        return any(other is not machine and other.program is not None for other in self._stage.town.machines.values())

    async def _confirm(self, machine: Machine) -> None:
        """Vouch for the end of what was owed for long, having seen in the console that it is gone."""
        stage, operators = self._stage, self._stage.town.operators(machine)
        owed = await _heard(stage, machine, operators.get("/v1/obligations"))
        gone = {pod.id for pod in stage.provider.pods.values() if not pod.alive}
        for duty in owed.get("obligations", []):
            resource = duty["resource"]
            if not duty["due"] or resource is None or resource["incarnation"] not in gone:
                continue
            if self._draw.random() < CONFIRMS:
                stage.staged.once("stop-confirmed", resource["incarnation"], text=duty["id"])
                path = f"/v1/obligations/{duty['id']}/confirm"
                await _heard(stage, machine, operators.post(path, {"reference": "seen in the console to be gone"}))


KINDS: Final[dict[str, Kind]] = {
    "operator-start": Kind(
        "an operator starts a model", _posted("operator-start", "/v1/models/{alias}/start", {}), 1, 3
    ),
    "operator-stop": Kind("an operator stops a model", _posted("operator-stop", "/v1/models/{alias}/stop", {}), 0.7, 2),
    "operator-stop-now": Kind(
        "an operator stops a model without draining",
        _posted("operator-stop-now", "/v1/models/{alias}/stop", {"now": True}),
        0.4,
        1.5,
    ),
    "operator-stop-all": Kind("an operator stops everything", _posted("operator-stop-all", "/v1/stop", {}), 0.2, 0.6),
    "operator-restart": Kind(
        "an operator restarts a model", _posted("operator-restart", "/v1/models/{alias}/restart", {}), 0.7, 2.0
    ),
    "operator-prefetch": Kind(
        "an operator has a model's volumes filled",
        _posted("operator-prefetch", "/v1/models/{alias}/prefetch", {}),
        1.0,
        3.0,
    ),
    "operator-unblock": Kind(
        "an operator ends a hold", _posted("operator-unblock", "/v1/models/{alias}/unblock", {}), 1.0, 3.0
    ),
    "young-unseen": Kind("a model is stopped before the provider shows its pod", _young, 0.5, 1.0),
    "console-delete": Kind("somebody deletes a pod of ours by hand", _console("console-delete", "delete"), 0.3, 1.0),
    "console-stop": Kind("somebody stops a pod of ours by hand", _console("console-stop", "stop"), 0.3, 1.0),
    "console-restart": Kind(
        "somebody restarts a pod of ours by hand", _console("console-restart", "restart"), 0.3, 1.0
    ),
}
