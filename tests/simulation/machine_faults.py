"""What may befall an operator's machine, and what is run on it?

Daemons and gateways that end, die and stand still; clocks, disks and files; a second daemon on the same store, and a
second machine with a copy of the config.
"""

import os
import random
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Final

from controller.store.database import FileLock
from tests.simulation.kernel import BEGIN, Program
from tests.simulation.machine import Machine, copy_store, replace_store
from tests.simulation.provider_faults import DAY, HOUR, MINUTE
from tests.simulation.stage import Act, Kind, Stage, spread
from tests.simulation.town import OWNER

GATEWAY_RESTART_S: Final = 2.0


def _daemon_restart(stage: Stage, draw: random.Random) -> bool:
    machine = stage.a_machine(draw)
    stage.hold(machine)
    lasts = draw.choice((1.0, spread(draw, 2, 2 * HOUR)))
    stage.trouble("daemon-restart", machine.name, lasts=lasts, undo=partial(stage.release, machine))
    stage.end_daemon(machine)
    return True


def _daemon_killed(stage: Stage, draw: random.Random) -> bool:
    machine = stage.a_machine(draw)
    stage.hold(machine)
    lasts = draw.choice((1.0, spread(draw, 2, 6 * HOUR)))
    stage.trouble("daemon-killed", machine.name, lasts=lasts, undo=partial(stage.release, machine))
    machine.kill_daemon()
    return True


def _reboot(stage: Stage, draw: random.Random) -> bool:
    """The power fails: everything on the machine is gone at once, and boot time begins anew."""
    machine = stage.a_machine(draw)
    if stage.staged.now("take-over") or any(program.stopped for program in machine.programs()):
        return False
    stage.hold(machine)

    def undo() -> None:
        _start_gateway(stage, machine)
        stage.release(machine)

    machine.kill_daemon()
    machine.kill_gateway()
    machine.clock.reboot()
    stage.trouble("reboot", machine.name, lasts=draw.choice((40.0, spread(draw, 10, 12 * HOUR))), undo=undo)
    return True


def _daemon_crash(stage: Stage, draw: random.Random) -> bool:
    """At any await, which may be much later; systemd starts it again."""
    machine = stage.a_machine(draw)
    program = machine.program
    if program is None or program.dying:
        return False
    program.dies_in(int(spread(draw, 1, 50_000)))
    program.at_death(_daemon_crash, lambda: stage.staged.once("daemon-crash", machine.name) if program.dying else None)
    return True


def _gateway_restart(stage: Stage, draw: random.Random) -> bool:
    machine = stage.a_machine(draw)
    if machine.gateway_program is None:
        return False
    lasts = draw.choice((GATEWAY_RESTART_S, spread(draw, 3, HOUR)))
    machine.kill_gateway()
    stage.trouble("gateway-killed", machine.name, lasts=lasts, undo=partial(_start_gateway, stage, machine))
    return True


def _start_gateway(stage: Stage, machine: Machine) -> None:
    if machine.gateway_program is None:
        machine.start_gateway(list(stage.town.models))


def _gateway_crash(stage: Stage, draw: random.Random) -> bool:
    machine = stage.a_machine(draw)
    program = machine.gateway_program
    if program is None or program.dying:
        return False

    def died() -> None:
        if machine.gateway_program is program and program.dying:
            machine.gateway_program = machine.gateway = machine.front.app = None
            undo = partial(_start_gateway, stage, machine)
            stage.trouble("gateway-crash", machine.name, lasts=GATEWAY_RESTART_S, undo=undo)

    program.dies_in(int(spread(draw, 1, 50_000)))
    program.at_death(_gateway_crash, died)
    return True


def _stopped(kind: str, programs: Callable[[Machine], list[Program]], least: float, most: float) -> Act:
    def act(stage: Stage, draw: random.Random) -> bool:
        machine = stage.a_machine(draw)
        chosen = programs(machine)
        if not chosen:
            return False
        stage.trouble(kind, machine.name, lasts=spread(draw, least, most), undo=stage.stop(*chosen))
        return True

    return act


def _daemon_of(machine: Machine) -> list[Program]:
    return [] if machine.program is None else [machine.program]


def _gateway_of(machine: Machine) -> list[Program]:
    return [] if machine.gateway_program is None else [machine.gateway_program]


def _clock_jump(stage: Stage, draw: random.Random) -> bool:
    machine = stage.a_machine(draw)
    by = timedelta(seconds=draw.choice((-1, 1)) * spread(draw, 2, draw.choice((HOUR, DAY, 5 * 365 * DAY))))
    machine.clock.ahead += by

    def back() -> None:
        machine.clock.ahead -= by

    stage.trouble("clock-jump", machine.name, lasts=spread(draw, 10, DAY), undo=back, text=str(by))
    return True


def _disk(kind: str, most: float) -> Act:
    """Full or locked, as long as any such trouble lasts, from when something is there that may have to be stopped: who
    asks for a model meanwhile comes later."""

    def act(stage: Stage, draw: random.Random) -> bool:
        if not stage.ours():
            return False
        machine = stage.a_machine(draw)
        word = kind.removeprefix("disk-").removeprefix("store-")
        setattr(machine.disk, word, True)

        def undo() -> None:
            setattr(machine.disk, word, stage.staged.more_than_one(kind, machine.name))

        stage.trouble(kind, machine.name, lasts=spread(draw, 2, most), undo=undo)
        return True

    return act


def _network_out(stage: Stage, draw: random.Random) -> bool:
    machine = stage.a_machine(draw)
    machine.provider.refusing += 1

    def undo() -> None:
        machine.provider.refusing -= 1

    stage.trouble("network-out", machine.name, lasts=spread(draw, 10, 6 * HOUR), undo=undo)
    return True


def _store_restored(stage: Stage, draw: random.Random) -> bool:
    """A copy is taken; later it is copied back over the store of a daemon that was ended or killed."""
    machine = stage.a_machine(draw)
    if not machine.store.exists() or machine.disk.locked:
        return False
    backup = machine.folder / f"backup-{stage.staged.counts['store-copied']}.db"
    copy_store(machine.store, backup)
    stage.staged.once("store-copied", machine.name)
    lasts, killed = draw.choice((1.0, spread(draw, 2, HOUR))), draw.random() < 0.5

    def put_back() -> None:
        if stage.honest:
            return
        stage.hold(machine)
        trouble = stage.trouble("store-restored", machine.name, lasts=1e9, undo=partial(stage.release, machine))

        def replace() -> None:
            if not trouble.over:
                replace_store(machine, backup)
                stage.kernel.after(lasts, partial(stage.end, trouble))

        if killed:
            machine.kill_daemon()
        stage.end_daemon(machine, replace)

    stage.kernel.after(spread(draw, MINUTE, 2 * DAY), put_back)
    return True


def _take_over(stage: Stage, draw: random.Random) -> bool:
    """The first daemon stands still and its lock is gone; a second one takes the store; the first goes on."""
    machine = stage.main
    first = machine.program
    lock = None if first is None else vars(first).get("lock")
    if first is None or first.stopped or not isinstance(lock, FileLock) or stage.staged.now("take-over"):
        return False
    first.stopped += 1
    first.spare(lock)
    FileLock.give_back(lock)
    first.spare(machine)  # it may end as it likes: the machine's daemon is another one

    def awake() -> None:
        first.stopped -= 1

    def end() -> None:
        first.die()

    machine.start_daemon()
    asleep = spread(draw, 1, 6 * HOUR)
    stage.kernel.after(asleep, awake)
    stage.trouble("take-over", machine.name, lasts=asleep + spread(draw, 10, DAY), undo=end, text=f"by {asleep:.0f} s")
    return True


def _twin(stage: Stage, draw: random.Random) -> bool:
    """Somebody copied the config to another machine, which has a store of its own."""
    name = f"twin{stage.staged.counts['copied-config'] + 1}"
    if stage.staged.now("copied-config"):
        return False
    machine = stage.town.machine(name)
    stage.town.configure(machine, *stage.town.models)
    plain = stage.files.plain(stage.main.config)
    machine.config.write_text(plain.replace(str(stage.main.state), str(machine.state)))
    machine.start_daemon()
    machine.start_gateway(list(stage.town.models))
    stage.in_use.append(machine)

    def undo() -> None:
        stage.in_use.remove(machine)
        machine.kill_gateway()
        if not stage.honest:  # what it left is its own to stop
            stage.hold(machine)
            stage.at_honesty.append(partial(stage.release, machine))
            stage.end_daemon(machine)

    stage.trouble("copied-config", name, lasts=spread(draw, 10 * MINUTE, DAY), undo=undo)
    return True


def _account_swapped(stage: Stage, draw: random.Random) -> bool:
    """The key is another account's for a while. Who swaps it back looks first that nothing of ours is left there."""
    machine, key = stage.main, stage.main.folder / "keys" / "runpod"
    if not stage.ours():
        return False
    lift = stage.files.lay(key, OTHER_KEY)

    def tidy() -> None:
        for pod in stage.ours():
            if pod.account == OTHER_ACCOUNT:
                stage.staged.once("console-delete", pod.id)
                stage.provider.change_pod(pod.id, {"vanish": True})

    def undo() -> None:
        lift()
        stage.hold(machine)

        def ended() -> None:
            tidy()
            stage.release(machine)

        stage.end_daemon(machine, ended)

    stage.trouble("account-swapped", machine.name, lasts=spread(draw, 2 * MINUTE, 12 * HOUR), undo=undo)
    stage.cycle(machine)
    return True


OTHER_KEY: Final = "another-canary-0816"
OTHER_ACCOUNT: Final = "other"


def _rotated(stage: Stage, draw: random.Random) -> bool:
    machine = stage.a_machine(draw)
    path = machine.state / "evidence.jsonl"
    if not path.exists():
        return False
    number = stage.staged.counts["evidence-rotated"] + 1
    target = path.with_name(f"{path.name}.{number}")
    path.rename(target)
    at = BEGIN.timestamp() + stage.kernel.time
    os.utime(target, (at, at))  # the newest rotation is known by its time
    stage.staged.once("evidence-rotated", machine.name)
    return True


KINDS: Final[dict[str, Kind]] = {
    "daemon-restart": Kind("the daemon is ended, and started later", _daemon_restart, 0.6, 2.0),
    "reboot": Kind("the machine's power fails, and comes back", _reboot, 0.3, 1.5),
    "daemon-killed": Kind("the daemon is killed, and started later", _daemon_killed, 0.5, 2.0),
    "daemon-crash": Kind("the daemon dies at any await", _daemon_crash, 1.5, 6.0),
    "gateway-killed": Kind("the gateway is killed, and started later", _gateway_restart, 0.5, 2.0),
    "gateway-crash": Kind("the gateway dies at any await", _gateway_crash, 0.5, 2.0),
    "daemon-stopped": Kind("the daemon stands still", _stopped("daemon-stopped", _daemon_of, 2, 6 * HOUR), 0.5, 2.0),
    "gateway-stopped": Kind(
        "the gateway stands still", _stopped("gateway-stopped", _gateway_of, 2, 2 * HOUR), 0.4, 1.5
    ),
    "suspend": Kind("the machine sleeps", _stopped("suspend", Machine.programs, 10, 12 * HOUR), 0.3, 1.0),
    "clock-jump": Kind("the machine's clock is wrong", _clock_jump, 0.4, 1.5),
    "disk-full": Kind("the machine's disk is full", _disk("disk-full", 6 * HOUR), 0.3, 1.0),
    "store-locked": Kind("somebody holds a lock on the store", _disk("store-locked", 2 * HOUR), 0.3, 1.0),
    "network-out": Kind("the machine has no way to the outside", _network_out, 0.3, 1.0),
    "store-restored": Kind("an old copy of the store is put back", _store_restored, 0.2, 0.6),
    "take-over": Kind("a second daemon takes the store of one that stands still", _take_over, 0.2, 0.6),
    "copied-config": Kind(f"a second machine runs as {OWNER}, with a store of its own", _twin, 0.1, 0.3),
    "account-swapped": Kind("the key is another account's", _account_swapped, 0.3, 0.6),
    "evidence-rotated": Kind("the evidence file is rotated", _rotated, 0.5, 1.0),
}
