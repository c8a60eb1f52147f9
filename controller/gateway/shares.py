"""What does it cost to use a machine together?

At each moment the machine's price is divided by the requests that are open on it, or that wait for it while it starts.
A request costs the sum of its parts over the time it was open. Kept as one running sum for each machine, so that a
begin or an end costs a few additions however many are open. Rules only.
"""

from typing import Final

HOUR_S: Final = 3600.0


class Share:
    """Instants are seconds on the loop's clock, amounts US dollars."""

    __slots__ = ("_at", "_per_second", "_sum", "open")

    def __init__(self, usd_per_hour: float, now: float) -> None:
        self.open = 0
        self._per_second = usd_per_hour / HOUR_S
        self._sum = 0.0
        """What a request would have cost that was open from the first moment on."""
        self._at = now

    def begin(self, now: float) -> float:
        """The mark from which this request pays."""
        self._advance(now)
        self.open += 1
        return self._sum

    def end(self, now: float) -> float:
        """The mark up to which this request paid."""
        self._advance(now)
        self.open -= 1
        return self._sum

    def mark(self, now: float) -> float:
        self._advance(now)
        return self._sum

    def reprice(self, usd_per_hour: float, now: float) -> None:
        self._advance(now)
        self._per_second = usd_per_hour / HOUR_S

    def _advance(self, now: float) -> None:
        if self.open:
            self._sum += self._per_second * (now - self._at) / self.open
        self._at = now
