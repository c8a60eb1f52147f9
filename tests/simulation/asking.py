"""Who asks for a model, and since when does nobody, in truth?

Every request from when it is sent until its client has an answer or left; by model, and by the machine whose gateway it
was sent to.
"""

import contextlib
from collections import Counter
from collections.abc import Iterator

from tests.simulation.kernel import Kernel

HEARD_WITHIN_S = 30.0
"""Whoever came so short a time ago may not have been heard by the daemon yet."""


class Asking:
    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._open: Counter[tuple[str, str, float]] = Counter()
        self._left: dict[tuple[str, str], float] = {}

    @contextlib.contextmanager
    def one(self, machine: str, alias: str) -> Iterator[None]:
        begun = (machine, alias, self._kernel.time)
        self._open[begun] += 1
        try:
            yield
        finally:
            self._open[begun] -= 1
            self._open += Counter()  # drops what is none
            self._left[machine, alias] = self._kernel.time

    def waits(self, machine: str, alias: str) -> bool:
        """Has somebody been waiting for long enough to be heard?"""
        heard_before = self._kernel.time - HEARD_WITHIN_S
        return any(found[:2] == (machine, alias) and found[2] <= heard_before for found in self._open)

    def left_at(self, machine: str, alias: str) -> float | None:
        """When the last one had an answer, or left."""
        return self._left.get((machine, alias))
