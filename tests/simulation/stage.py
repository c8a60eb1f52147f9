"""How does a trouble begin, and how does it surely end?

Every trouble is a span of the record with an undo. Troubles overlap as they were drawn, so nothing here sets back what
it found: settings, faults, configs and the clock are layers, and what counts is what lies on top; a machine is up again
when nobody holds it down any more. `make_honest` ends everything that is open.
"""

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from controller.emulators.runpod.faults import Order
from controller.emulators.runpod.pods import Pod
from tests.simulation.kernel import Program
from tests.simulation.machine import Machine
from tests.simulation.staged import Span
from tests.simulation.town import OWNER, Provider, Town

TICK_S: Final = 60.0
TRIED_AGAIN: Final = 0.2
"""So likely, at a tick, an act is tried that had nothing to act on."""
STOP_LIMIT_S: Final = 90.0
"""Who does not end by then is killed."""
LATE_S: Final = 31.0
"""A call that is under way ends within so long: the daemon's own limit, and a second."""

Undo = Callable[[], None]
Act = Callable[["Stage", random.Random], bool]
"""Begins one trouble; False where there is nothing that it could befall."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of trouble. How often a day it is tried, in the standard mix and in the busiest."""

    meaning: str
    act: Act
    standard: float
    busiest: float


@dataclass(slots=True, eq=False)
class Trouble:
    spans: list[Span]
    undo: Undo
    slack: float
    """What was done under it has its effect so much later, at most."""
    over: bool = False


def spread(draw: random.Random, least: float, most: float) -> float:
    """As often between 1 and 10 as between 10 and 100."""
    return math.exp(draw.uniform(math.log(least), math.log(most)))


def nothing() -> None:
    """Needs no undo."""


class Layers:
    """The provider's settings under several troubles at once."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._plain: dict[str, Any] = {}
        self._layers: list[dict[str, Any]] = []

    def lay(self, change: dict[str, Any]) -> Undo:
        for key in change:
            self._plain.setdefault(key, getattr(self._provider.settings, key))
        self._layers.append(change)
        self._apply(change)

        def lift() -> None:
            self._layers = [layer for layer in self._layers if layer is not change]
            self._apply(change)

        return lift

    def _apply(self, keys: dict[str, Any]) -> None:
        self._provider.change_settings({key: self._value(key) for key in keys})

    def _value(self, key: str) -> Any:
        values = [self._plain[key], *(layer[key] for layer in self._layers if key in layer)]
        return {name: entry for value in values for name, entry in value.items()} if values[0] == {} else values[-1]


class Files:
    """A file that several troubles want otherwise: the latest of them has it."""

    def __init__(self) -> None:
        self._plain: dict[Path, str] = {}
        self._layers: list[tuple[Path, str]] = []

    def plain(self, path: Path) -> str:
        """As it is while nothing is wrong."""
        return self._plain.setdefault(path, path.read_text())

    def lay(self, path: Path, text: str) -> Undo:
        self.plain(path)
        layer = (path, text)
        self._layers.append(layer)
        path.write_text(text)

        def lift() -> None:
            self._layers = [other for other in self._layers if other is not layer]
            path.write_text(next((text for at, text in reversed(self._layers) if at == path), self._plain[path]))

        return lift


class Stage:
    """What the actors of one run share."""

    def __init__(self, town: Town, *, until: float) -> None:
        self.town, self.kernel, self.staged, self.provider = town, town.kernel, town.staged, town.provider
        self.until = until
        self.honest = False
        self.open: list[Trouble] = []
        self.settings, self.files = Layers(town.provider), Files()
        self.main = next(iter(town.machines.values()))
        self.in_use: list[Machine] = [self.main]
        """Machines that somebody means to run now."""
        self.at_honesty: list[Undo] = []
        """What the actors do when the run ends."""
        self._held: Counter[str] = Counter()
        self._armed: list[tuple[Order, Trouble]] = []
        self._waiting: list[tuple[Act, random.Random]] = []
        self.kernel.after(TICK_S, self._tick)

    # Troubles

    def trouble(
        self,
        kind: str,
        *subjects: str,
        lasts: float,
        undo: Undo = nothing,
        slack: float = 0.0,
        text: str = "",
    ) -> Trouble:
        """Something is wrong from now on, for so many seconds."""
        spans = [self.staged.begin(kind, subject, text=text) for subject in subjects or (None,)]
        made = Trouble(spans, undo, slack)
        self.open.append(made)
        self.kernel.after(lasts, lambda: self.end(made))
        return made

    def end(self, trouble: Trouble) -> None:
        if trouble.over:
            return
        trouble.over = True
        self.open.remove(trouble)
        trouble.undo()
        late = min(trouble.slack, LATE_S) if self.honest else trouble.slack
        if late:
            self.kernel.after(late, lambda: self._close(trouble))
        else:
            self._close(trouble)

    def _close(self, trouble: Trouble) -> None:
        for span in trouble.spans:
            self.staged.end(span)

    def rules(
        self, kind: str, rules: Sequence[dict[str, Any]], *subjects: str, lasts: float, slack: float = 0, text: str = ""
    ) -> Trouble:
        """Faults of the provider's answers; over earlier where all were had."""
        order = self.provider.add_faults(list(rules))
        made = self.trouble(
            kind,
            *subjects,
            lasts=lasts,
            slack=slack,
            undo=lambda: self.provider.remove_faults(order),
            text=text or ", ".join(f"{name}={value!s:.60}" for rule in rules for name, value in rule["do"].items()),
        )
        self._armed.append((order, made))
        return made

    def setting(self, kind: str, change: dict[str, Any], *, lasts: float) -> Trouble:
        """The provider behaves otherwise."""
        words = ", ".join(f"{name}={value}" for name, value in change.items())
        return self.trouble(kind, lasts=lasts, undo=self.settings.lay(change), text=words)

    def attempt(self, act: Act, draw: random.Random) -> None:
        """Begin one trouble, now or when there is something that it can befall."""
        if not self.honest and not act(self, draw):
            self._waiting.append((act, draw))

    def _tick(self) -> None:
        if self.honest:
            return
        self.kernel.after(TICK_S, self._tick)
        spent = [trouble for order, trouble in self._armed if order.spent]
        self._armed = [(order, trouble) for order, trouble in self._armed if not order.spent and not trouble.over]
        for trouble in spent:
            self.end(trouble)
        waiting, self._waiting = self._waiting, []
        for act, draw in waiting:
            if draw.random() < TRIED_AGAIN:
                self.attempt(act, draw)
            else:
                self._waiting.append((act, draw))

    def be_honest(self) -> None:
        """End all that is open, for good."""
        self.honest = True
        for act in self.at_honesty:
            act()
        for trouble in reversed(list(self.open)):
            self.end(trouble)
        self.provider.clear_faults()
        self.provider.catch_up()
        self.kernel.after(LATE_S, self.provider.catch_up)
        for machine in self.town.machines.values():
            self.bring_up(machine)

    # What there is

    def ours(self) -> list[Pod]:
        """What bills and carries our owner's name."""
        return [pod for pod in self.town.alive() if pod.env.get("GPUWARDEN_OWNER") == OWNER]

    def one_of_ours(self, draw: random.Random) -> Pod | None:
        found = self.ours()
        return draw.choice(found) if found else None

    def lives(self, pod: Pod) -> bool:
        self.provider.settle()
        return pod.alive

    def a_machine(self, draw: random.Random) -> Machine:
        return self.main if draw.random() < 0.8 else draw.choice(self.in_use)

    # Machines that go down and come back

    def hold(self, machine: Machine) -> None:
        """Its daemon is not to be started again until it is released as often."""
        self._held[machine.name] += 1
        machine.restarts_by_itself = False

    def release(self, machine: Machine) -> None:
        self._held[machine.name] -= 1
        if not self._held[machine.name]:
            machine.restarts_by_itself = True
            self.bring_up(machine)

    def bring_up(self, machine: Machine) -> None:
        """Start its daemon if it does not run; one that is about to end is waited for."""
        if self._held[machine.name]:
            return
        if machine.program is None:
            machine.start_daemon()
        elif machine.closing is not None and machine.closing.is_set():
            self.kernel.after(1.0, lambda: self.bring_up(machine))

    def end_daemon(self, machine: Machine, then: Callable[[], None] = nothing) -> None:
        """SIGTERM, and SIGKILL to what does not end by it."""
        program, limit = machine.program, self.kernel.time + STOP_LIMIT_S

        def look() -> None:
            if program is None or not program.alive:
                then()
                return
            if machine.program is program:
                machine.end_daemon()
            if self.kernel.time >= limit:
                program.die()
            self.kernel.after(1.0, look)

        look()

    def cycle(self, machine: Machine) -> None:
        """Restart it: a config is read at the start only."""
        self.hold(machine)
        self.end_daemon(machine, lambda: self.release(machine))

    def stop(self, *programs: Program) -> Undo:
        """SIGSTOP; undone by SIGCONT."""
        for program in programs:
            program.stopped += 1

        def wake() -> None:
            for program in programs:
                program.stopped -= 1

        return wake
