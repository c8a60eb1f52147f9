"""How do several gateways stand on one address, and what if one of them dies?

A parent that serves nothing forks them, tells systemd that all of them serve, passes SIGTERM and SIGINT on, and begins
one anew that ended without being asked to: at once, then after growing pauses if it goes on dying. One that gives no
sign of life is killed. They share nothing but the address and the daemon: each is a gateway of its own there, so that
the stream leases of one that died run out like those of any gateway that is gone. A worker whose parent is gone drains
and ends.

Each has a process group of its own: Ctrl-C reaches the parent alone, and counts once.
"""

import gc
import os
import selectors
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

import structlog

from controller.clock import Clock
from controller.notify import Notifier

log = structlog.get_logger(__name__)

PAUSE_LEAST: Final = timedelta(milliseconds=100)
PAUSE_MOST: Final = timedelta(seconds=5)
LIVED_LONG: Final = timedelta(seconds=10)
"""Whoever dies after that is begun anew at once."""
BEAT_EVERY: Final = timedelta(seconds=5)
SILENT_FOR: Final = timedelta(seconds=45)
"""Longer than any turn of the loop takes on a machine that swaps."""
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGHUP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ties:
    """What holds a worker and its parent together: two ends of pipes."""

    number: int
    beats: int
    """Where the worker writes how many requests it has open."""
    parent: int
    """Readable once the parent is gone."""

    def beat(self, live: int) -> None:
        with suppress(OSError):  # a parent that is gone is noticed elsewhere
            os.write(self.beats, b"%d\n" % live)


Work = Callable[[Ties], int]
"""Runs in the worker's process until it ends; its exit code."""


@dataclass(slots=True, kw_only=True)
class Slot:
    """One place for a worker. Spans are those of the machine's clock."""

    number: int
    process_id: int | None = None
    beats: int = -1
    served: bool = False
    """It has said so, since it was begun last."""
    live: int = 0
    begun_at: timedelta = timedelta()
    heard_at: timedelta = timedelta()
    pause: timedelta = timedelta()
    again_at: timedelta | None = None


@dataclass(slots=True, kw_only=True)
class Workers:
    count: int
    work: Work
    on_stop: Callable[[], None]
    """What the parent holds open for workers to come, let go of."""
    clock: Clock
    notifier: Notifier
    ends_within: timedelta
    """So long a worker may take to drain; then it is killed."""
    slots: list[Slot] = field(default_factory=list)
    _ready: bool = False
    _asked: int = 0
    _kill_at: timedelta | None = None
    _looked_at: timedelta = timedelta()
    _tether: tuple[int, int] = (-1, -1)
    _signals: tuple[int, int] = (-1, -1)

    def run(self) -> int:
        """Until a signal, and until the last worker has ended."""
        self._tether, self._signals = os.pipe(), os.pipe()
        os.set_blocking(self._signals[1], False)
        signal.set_wakeup_fd(self._signals[1], warn_on_full_buffer=False)
        for number in SIGNALS:
            signal.signal(number, lambda *_: None)
        gc.freeze()  # what is there now stays shared with the workers
        self.slots = [Slot(number=number) for number in range(self.count)]
        self._looked_at = self.clock.boot()
        for slot in self.slots:
            self._begin(slot)
        while self._asked == 0 or any(slot.process_id is not None for slot in self.slots):
            self._hear(self._pause())
            self._reap()
            self._look()
        return 0

    # One worker.

    def _begin(self, slot: Slot) -> None:
        heard, beats = os.pipe()
        os.set_blocking(heard, False)
        sys.stdout.flush()
        sys.stderr.flush()
        process_id = os.fork()
        if process_id == 0:
            self._become(slot.number, heard, beats)
        os.close(beats)
        now = self.clock.boot()
        slot.process_id, slot.beats, slot.served, slot.live = process_id, heard, False, 0
        slot.begun_at = slot.heard_at = now
        slot.again_at = None
        log.info("worker_begun", worker=slot.number, process=process_id)

    def _become(self, number: int, heard: int, beats: int) -> None:
        """In the worker's process, for the rest of its life."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            for kind in SIGNALS:
                signal.signal(kind, signal.SIG_DFL)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            os.setpgid(0, 0)
            others = [slot.beats for slot in self.slots if slot.process_id is not None]
            for end in (heard, self._tether[1], *self._signals, *others):
                os.close(end)
            code = self.work(Ties(number=number, beats=beats, parent=self._tether[0]))
        except BaseException:  # nothing of the parent's may run on in here
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def _reap(self) -> None:
        for slot in self.slots:
            if slot.process_id is None:
                continue
            process_id, code = os.waitpid(slot.process_id, os.WNOHANG)
            if process_id:
                self._ended(slot, os.waitstatus_to_exitcode(code))

    def _ended(self, slot: Slot, code: int) -> None:
        process_id, slot.process_id = slot.process_id, None
        os.close(slot.beats)
        if self._asked:
            return
        now = self.clock.boot()
        short = now - slot.begun_at < LIVED_LONG
        slot.pause = min(max(slot.pause * 2, PAUSE_LEAST), PAUSE_MOST) if short else timedelta()
        slot.again_at = now + slot.pause
        log.error("worker_ended", worker=slot.number, process=process_id, code=code, pause=slot.pause.total_seconds())

    # All of them.

    def _pause(self) -> timedelta:
        """Until something is due."""
        now = self.clock.boot()
        dues = [slot.again_at for slot in self.slots if slot.again_at is not None]
        if self._kill_at is not None:
            dues.append(self._kill_at)
        watchdog = self.notifier.watchdog
        rhythm = BEAT_EVERY if watchdog is None else min(BEAT_EVERY, watchdog / 2)
        return max(min([due - now for due in dues] + [rhythm]), timedelta())

    def _hear(self, pause: timedelta) -> None:
        """Signals, and the workers' signs of life."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._signals[0], selectors.EVENT_READ, None)
            for slot in self.slots:
                if slot.process_id is not None:
                    selector.register(slot.beats, selectors.EVENT_READ, slot)
            for key, _ in selector.select(pause.total_seconds()):
                words = os.read(key.fd, 4096)
                if key.data is not None:
                    self._heard(key.data, words)
                else:
                    self._signalled(words)

    def _heard(self, slot: Slot, words: bytes) -> None:
        if not words:
            return  # it ended; who reaps it says so
        slot.served, slot.heard_at = True, self.clock.boot()
        slot.live = int(words.split()[-1])
        if not self._ready and all(each.served for each in self.slots):
            self._ready = True
            self.notifier.ready()

    def _signalled(self, numbers: bytes) -> None:
        for number in numbers:
            if number in (signal.SIGTERM, signal.SIGINT):
                self._end()
            elif number == signal.SIGHUP:
                log.info("config_kept", why="client keys and server keys are read anew; the rest needs a restart")

    def _end(self) -> None:
        """The first signal lets open requests end, a second one does not."""
        self._asked += 1
        if self._asked == 1:
            self._kill_at = self.clock.boot() + self.ends_within
            self.on_stop()
            self.notifier.stopping()
            self.notifier.needs(self.ends_within)
        for slot in self.slots:
            slot.again_at = None
            self._tell(slot, signal.SIGTERM)

    def _look(self) -> None:
        now = self.clock.boot()
        if now - self._looked_at > BEAT_EVERY * 3:
            # All of us were stopped, or the machine slept: who was silent meanwhile is not at fault.
            for slot in self.slots:
                slot.heard_at = now
        self._looked_at = now
        for slot in self.slots:
            if slot.again_at is not None and slot.again_at <= now and not self._asked:
                self._begin(slot)
            overdue = self._kill_at is not None and self._kill_at <= now
            if slot.process_id is not None and (overdue or (not self._asked and now - slot.heard_at > SILENT_FOR)):
                log.error("worker_killed", worker=slot.number, process=slot.process_id, why="overdue")
                self._tell(slot, signal.SIGKILL)
        self.notifier.alive()
        serving = sum(slot.served and slot.process_id is not None for slot in self.slots)
        self.notifier.said(f"{serving} of {self.count} workers, {sum(slot.live for slot in self.slots)} open requests")

    def _tell(self, slot: Slot, number: int) -> None:
        if slot.process_id is not None:
            os.kill(slot.process_id, number)
