"""Did this event stream end as a whole answer?

Events are handed on whole, so that an upstream that dies within one leaves no half line before our error. A status of
200 and a proper end prove nothing: what a wire's `signs` call a failure ends the stream here, in its place.
"""

from typing import Final

from controller.gateway.signs import Signs

HELD_MOST: Final = 1024 * 1024


class StreamFailed(Exception):
    """The model server said in the stream that it failed. `before` is what may still be passed on."""

    def __init__(self, before: bytes) -> None:
        super().__init__("the model server reported a failure in its stream")
        self.before = before


class Events:
    def __init__(self, signs: Signs) -> None:
        self._signs = signs
        self._failure_hints = signs.failure_hints
        self._end_hints = signs.end_hints
        self.hints = (*signs.failure_hints, *signs.end_hints)
        """Where none of them stands there is nothing to be read."""
        self.held = b""
        """The beginning of an event that is not whole."""
        self.said_done = False

    def take(self, piece: bytes) -> bytes:
        """What can be passed on now: whole events. Raises `StreamFailed`."""
        if self.held:
            piece = self.held + piece
            self.held = b""
        if not piece.endswith((b"\n\n", b"\r\n\r\n")):
            piece = self._hold(piece)
        self._read(piece)
        return piece

    def rest(self) -> bytes:
        """What is left when the upstream ended cleanly."""
        held, self.held = self.held, b""
        self._read(held)
        return held

    def _read(self, piece: bytes) -> None:
        for hint in self._failure_hints:
            if piece.find(hint) >= 0:  # `in` fails first at reading the hint as a number, in twice the time
                self._look(piece)
                break
        for hint in self._end_hints:
            if piece.find(hint) >= 0:
                self.said_done = self.said_done or self._signs.ends.search(piece) is not None

    def _hold(self, piece: bytes) -> bytes:
        end = _boundary(piece, len(piece))
        if len(piece) - end > HELD_MOST:
            return piece
        self.held = piece[end:]
        return piece[:end]

    def _look(self, piece: bytes) -> None:
        at = self._signs.failure_in(piece)
        if at is not None:
            raise StreamFailed(piece[: _boundary(piece, at)])


def _boundary(data: bytes, upto: int) -> int:
    """Behind the last whole event before `upto`."""
    plain = data.rfind(b"\n\n", 0, upto)
    carriage = data.rfind(b"\r\n\r\n", 0, upto)
    return max(plain + 2 if plain >= 0 else 0, carriage + 4 if carriage >= 0 else 0)
