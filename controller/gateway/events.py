"""Did this event stream end as a whole answer?

Events are handed on whole, so that an upstream that dies within one leaves no half line before our error. A status of
200 and a final `[DONE]` prove nothing: vLLM reports a dead engine as an `error` event, and an aborted answer as
finish reason "abort", each followed by `[DONE]` (seen with vLLM 0.32, 2026-11-29). Such an event ends the stream
here, in its place.
"""

import re
from typing import Final

HELD_MOST: Final = 1024 * 1024
FAILED: Final = re.compile(rb'^data: ?\{"error": ?[{"]|"finish_reason": ?"abort"', re.MULTILINE)
DONE: Final = b"data: [DONE]"


class StreamFailed(Exception):
    """The model server said in the stream that it failed. `before` is what may still be passed on."""

    def __init__(self, before: bytes) -> None:
        super().__init__("the model server reported a failure in its stream")
        self.before = before


class Events:
    def __init__(self) -> None:
        self._held = b""
        self._last = b""

    def take(self, piece: bytes) -> bytes:
        """What can be passed on now: whole events. Raises `StreamFailed`."""
        if self._held:
            piece = self._held + piece
            self._held = b""
        if not piece.endswith((b"\n\n", b"\r\n\r\n")):
            piece = self._hold(piece)
        if b'"error"' in piece or b'"abort"' in piece:
            self._look(piece)
        if piece:
            self._last = piece
        return piece

    def rest(self) -> bytes:
        """What is left when the upstream ended cleanly."""
        held, self._held = self._held, b""
        if held:
            self._look(held)
            self._last = held
        return held

    @property
    def said_done(self) -> bool:
        return DONE in self._last

    def _hold(self, piece: bytes) -> bytes:
        end = _boundary(piece, len(piece))
        if len(piece) - end > HELD_MOST:
            return piece
        self._held = piece[end:]
        return piece[:end]

    def _look(self, piece: bytes) -> None:
        found = FAILED.search(piece)
        if found is not None:
            raise StreamFailed(piece[: _boundary(piece, found.start())])


def _boundary(data: bytes, upto: int) -> int:
    """Behind the last whole event before `upto`."""
    plain = data.rfind(b"\n\n", 0, upto)
    carriage = data.rfind(b"\r\n\r\n", 0, upto)
    return max(plain + 2 if plain >= 0 else 0, carriage + 4 if carriage >= 0 else 0)
