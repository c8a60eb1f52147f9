"""Who uses a machine, and since when does nobody, in truth?

Kept beside each pod of the emulator: the requests that its model server has open, and when the last client's one ended.
"""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Final

from controller.emulators.runpod.open_requests import OpenRequests, Work
from controller.emulators.runpod.pods import Pod
from tests.simulation.kernel import Kernel
from tests.simulation.machine import Machine

ONE_WORD: Final = 1
"""What a gateway asks for that wants to know whether a machine answers. It is no client's, and no use by itself."""


class Use(OpenRequests):
    """A pod's open requests, with a memory."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self._kernel = kernel
        self.last: float | None = None
        self.count = 0

    @contextlib.contextmanager
    def one(self, *, seconds_left: float | None = None) -> Iterator[Work]:
        self.count += 1
        with super().one(seconds_left=seconds_left) as work:
            try:
                yield work
            finally:
                if work.most != ONE_WORD:
                    self.last = self._kernel.time


def watch(pod: Pod, kernel: Kernel) -> None:
    pod.upstream.open = Use(kernel)


def use_of(pod: Pod) -> Use:
    use = pod.upstream.open
    assert isinstance(use, Use)
    return use


def questions(machines: Iterable[Machine], deployment: str | None) -> int:
    """How many questions do gateways have open there that are no use of it (gateway.doubts, gateway.trust)?"""
    gateways = [machine.gateway for machine in machines if machine.gateway is not None]
    return sum(key[0] == deployment for gateway in gateways for key in gateway.proofs.questions)
