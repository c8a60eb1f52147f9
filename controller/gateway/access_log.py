"""What is written down of a request that ended?

One line: who, which model, how it ended, how long, how much. No word of what was asked or answered, no key, no header
of the client's: the fields are named here one by one, and each is a number or a name of ours. A request that names no
model of ours leaves that field empty, whatever it named.

Lines are gathered for a moment and written together, each with the instant at which its request ended: a write for each
woke whoever collects them as often. A process that is ended by force takes that moment's lines with it.
"""

import asyncio
import math
from collections.abc import Callable, Sequence
from json.encoder import encode_basestring as quoted
from typing import Final

from controller.clock import Clock
from controller.gateway.passage import Passage

WriteLines = Callable[[Sequence[str]], None]
"""Takes lines without their ends, each an object in JSON."""

GATHERED_S: Final = 0.1


class AccessLog:
    def __init__(self, write: WriteLines, clock: Clock) -> None:
        self._write = write
        self._clock = clock
        self._held: list[str] = []
        self._ended = False
        self._second = ""
        """Of the wall clock, as it is written; it began at this instant of the loop's."""
        self._second_at = -math.inf

    def add(self, passage: Passage, *, answer: int | None, now: float) -> None:
        if not self._held or not 0 <= now - self._second_at < 1:
            self._look_at_the_clock(now)
        at = f"{self._second}.{int((now - self._second_at) * 1e6):06d}Z"
        self._held.append(line(passage, answer=answer, now=now, at=at))
        if self._ended:
            self.write_out()
        elif len(self._held) == 1:
            asyncio.get_running_loop().call_later(GATHERED_S, self.write_out)

    def _look_at_the_clock(self, now: float) -> None:
        """Once for all lines that are written together, as far as they ended in one second: asking it, and writing the
        whole of it, took as long as the rest of the line (November 2026)."""
        wall = self._clock.now()
        self._second = wall.strftime("%Y-%m-%dT%H:%M:%S")
        self._second_at = now - wall.microsecond / 1e6

    def write_out(self) -> None:
        """What is held, if anything is."""
        held, self._held = self._held, []
        if held:
            self._write(held)

    def end(self) -> None:
        """Hold nothing any more."""
        self._ended = True
        self.write_out()


def line(passage: Passage, *, answer: int | None, now: float, at: str) -> str:
    """Written by hand, in a third of an encoder's time: each field is known to be text, a number, or a flag."""
    first_byte = passage.first_byte
    return (
        f'{{"request": {quoted(passage.request_id)}'
        f', "client": {quoted(passage.client.name)}'
        f', "model": {quoted(passage.alias)}'
        f', "wire": {quoted(passage.wire)}'
        f', "stream": {"true" if passage.stream else "false"}'
        f', "answer": {"null" if answer is None else answer}'
        f', "outcome": {quoted(passage.outcome)}'
        f', "deployment": {quoted(passage.deployment)}'
        f', "waited_seconds": {passage.waited(now):.3f}'
        f', "first_byte_seconds": {"null" if first_byte is None else f"{first_byte:.4f}"}'
        f', "duration_seconds": {now - passage.arrived_at:.4f}'
        f', "bytes_in": {passage.bytes_in}'
        f', "bytes_out": {passage.bytes_out}'
        f', "event": "request", "level": "info", "at": "{at}"}}'
    )
