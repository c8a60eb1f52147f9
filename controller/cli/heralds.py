"""Who has to know that a gateway serves, lives and stops?

systemd, where one process serves; the parent, where it is one of several workers: that one speaks for all of them.
"""

import os
import signal
from datetime import timedelta
from typing import Final, Protocol

import anyio

from controller.cli.workers import BEAT_EVERY, Ties
from controller.notify import Notifier

STOP_MARGIN: Final = timedelta(seconds=15)


class Herald(Protocol):
    @property
    def rhythm(self) -> timedelta | None:
        """How often `lives` is to be said; None: never."""
        ...

    def serves(self) -> None: ...

    def lives(self, live: int) -> None:
        """`live` requests are open."""
        ...

    def stops(self, within: timedelta) -> None: ...

    async def until_alone(self) -> None:
        """Returns if there is nobody to speak to any more, as an order to stop."""
        ...


class ToSystemd:
    def __init__(self, notifier: Notifier) -> None:
        self._notifier = notifier
        self.rhythm = None if notifier.watchdog is None else notifier.watchdog / 2

    def serves(self) -> None:
        self._notifier.ready()

    def lives(self, live: int) -> None:
        self._notifier.alive()
        self._notifier.said(f"{live} open requests")

    def stops(self, within: timedelta) -> None:
        self._notifier.stopping()
        self._notifier.needs(within + STOP_MARGIN)

    async def until_alone(self) -> None:
        await anyio.sleep_forever()


class ToParent:
    def __init__(self, ties: Ties) -> None:
        self._ties = ties
        self.rhythm: timedelta | None = BEAT_EVERY

    def serves(self) -> None:
        self._ties.beat(0)

    def lives(self, live: int) -> None:
        self._ties.beat(live)

    def stops(self, within: timedelta) -> None:
        """It is the parent that said so."""

    async def until_alone(self) -> None:
        await anyio.wait_readable(self._ties.parent)
        os.kill(os.getpid(), signal.SIGTERM)
