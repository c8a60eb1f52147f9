"""What does one call to the emulated API come with?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from controller.emulators.exchange import Answer, Request

if TYPE_CHECKING:
    from controller.emulators.runpod.emulator import Emulator


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One call: who asks what, when. `ignore`: say yes and do nothing; `omit`: leave these out of a listing; `twice`:
    show each of its entries twice; `queued`: what is to be made is so after so many seconds."""

    emulator: Emulator
    request: Request
    now: float
    ignore: bool = False
    omit: tuple[str, ...] = ()
    twice: bool = False
    queued: float | None = None

    @property
    def account(self) -> str:
        return self.emulator.account_of(self.request.bearer() or "")

    def owning_pod(self) -> str | None:
        return self.emulator.owner_of(self.request.bearer() or "")


Route = Callable[[Ask, str], Answer]
