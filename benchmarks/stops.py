"""How late is a stop?

After the idle deadline, as the daemon itself told it, and after a daemon was killed while it owed stops that the
provider kept refusing. A stop counts when its call arrives at the provider.
"""

import time
from datetime import datetime
from typing import Any, Final

from benchmarks.rows import Row, at_most, p50, spread
from benchmarks.scene import Scene, until
from controller.children import Child

IDLE: Final = ("idle0", "idle1", "idle2", "idle3")
OWED: Final = ("owed0", "owed1", "owed2")
REFUSALS: Final = 2
"""Tries that the provider refuses before the daemon is killed: the pause before the next is then ten seconds."""

LATE_S: Final = 5.0


async def measure_idle(stage: Scene) -> Row:
    """Machines that nobody asks anything, each from the deadline that the daemon last told."""
    await stage.order("PATCH", "settings", {"boot_seconds": 0.3, "ready_seconds": 0.3})
    for alias in IDLE:
        await stage.daemon.post(f"/v1/models/{alias}/start")
    deadlines: dict[str, float] = {}
    machines: dict[str, str] = {}

    async def all_stopped() -> dict[str, float]:
        for told in (await stage.daemon.get("/v1/status"))["models"]:
            if told["alias"] in IDLE and told["idle_stop_at"] is not None:
                deadlines[told["alias"]] = datetime.fromisoformat(told["idle_stop_at"]).timestamp()
        machines.update(await _machines(stage, IDLE))
        stopped = await _first_stops(stage)
        return stopped if len(machines) == len(IDLE) and set(machines.values()) <= set(stopped) else {}

    stopped = await until(all_stopped, within=60, every=0.2, what="idle stops")
    late = [stopped[machines[alias]] - deadlines[alias] for alias in IDLE]
    note = f"{spread(late)}; {len(late)} machines, real processes, 3 s of idleness"
    return at_most("idle deadline → stop submitted", max(late), LATE_S, "s", note=note, p50_s=p50(late))


async def measure_restart(stage: Scene, daemon: Child) -> Row:
    """From the new process's start to the last of the owed stops."""
    await stage.order("PATCH", "settings", {"boot_seconds": 600})
    for alias in OWED:
        await stage.daemon.post(f"/v1/models/{alias}/start")

    async def all_made() -> dict[str, str]:
        found = await _machines(stage, OWED)
        return found if len(found) == len(OWED) else {}

    machines = await until(all_made, within=30, what="machines to owe a stop of")
    await stage.order("POST", "faults", [{"match": {"method": "DELETE"}, "do": {"answer": 500}}])
    for alias in OWED:
        await stage.daemon.post(f"/v1/models/{alias}/stop", {"now": True})

    async def refused() -> bool:
        tries = [_machine(call) for call in await stage.calls("DELETE")]
        return all(tries.count(machine) >= REFUSALS for machine in machines.values())

    await until(refused, within=40, what=f"{REFUSALS} refused stops each")
    await stage.running.kill(daemon)
    await stage.order("DELETE", "faults")
    return await _restarted(stage, set(machines.values()))


async def _restarted(stage: Scene, owed: set[str]) -> Row:
    began = time.time()
    _, ready = await stage.begin_daemon()

    async def all_asked() -> dict[str, float]:
        asked = await _first_stops(stage, since=began)
        return asked if owed <= set(asked) else {}

    asked = await until(all_asked, within=60, what="the owed stops")
    late = [asked[machine] - began for machine in owed]
    note = f"{spread(late)}; ready after {ready:.1f}; {len(owed)} stops, {REFUSALS} times refused before the kill"
    return at_most("restart → owed stops submitted", max(late), LATE_S, "s", note=note, p50_s=p50(late))


async def _machines(stage: Scene, aliases: tuple[str, ...]) -> dict[str, str]:
    """Which machine was made for each model, as the provider names them."""
    made = (await stage.truth())["pods"]
    return {alias: machine["id"] for machine in made for alias in aliases if f"-{alias}" in machine["name"]}


async def _first_stops(stage: Scene, *, since: float = 0.0) -> dict[str, float]:
    """When the first stop of each machine arrived."""
    calls: list[dict[str, Any]] = [call for call in await stage.calls("DELETE") if call["at"] >= since]
    return {_machine(call): call["at"] for call in reversed(calls)}


def _machine(call: dict[str, Any]) -> str:
    return str(call["path"].rpartition("/")[2])
