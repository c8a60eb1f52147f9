"""What do a machine and its processes make of the time?

The world's time is the kernel's. A machine's wall clock may be set apart from it and its boot time begins anew with
each boot; a process never sees the wall go back.
"""

from datetime import datetime, timedelta

from tests.simulation.kernel import Kernel


class MachineClock:
    """The clock of one machine; `ahead` sets the wall apart, as an operator or a bad time server may."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.ahead = timedelta()
        self._boot_at, self._boot = 0.0, timedelta()
        self._booted_at, self._boots = 0.0, 1

    def reboot(self) -> None:
        """Boot time begins anew, under another name; the wall clock goes on."""
        self._booted_at, self._boots = self._kernel.time, self._boots + 1
        self._boot_at, self._boot = self._kernel.time, timedelta()

    def now(self) -> datetime:
        return self._kernel.now + self.ahead

    def wall(self) -> datetime:
        return self.now()

    def boot(self) -> timedelta:
        if self._boot_at != self._kernel.time:
            self._boot_at = self._kernel.time
            self._boot = timedelta(seconds=self._kernel.time - self._booted_at)
        return self._boot

    def boot_id(self) -> str:
        return f"boot-{self._boots}"


class ProcessClock:
    """What one process makes of the machine's clock: never back within the process (HC-33)."""

    def __init__(self, machine: MachineClock) -> None:
        self._machine = machine
        self._latest = machine.now()
        self.boot = machine.boot

    def now(self) -> datetime:
        self._latest = max(self._latest, self._machine.now())
        return self._latest

    def wall(self) -> datetime:
        return self._machine.wall()

    def boot_id(self) -> str:
        return self._machine.boot_id()
