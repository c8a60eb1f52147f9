"""How many calls may still be made in this minute, hour and day?

All calls of the API count together, refused ones too, and each window begins anew at its own full minute, hour or day.
What is left is told with every answer (reference of November 2026); one call too many is answered with 429.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

WINDOWS: Final = {"minute": 60, "hour": 3600, "day": 86_400}
QUOTAS: Final = {"minute": 1000, "hour": 30_000, "day": 500_000}


class CallCount:
    """The calls of the windows that are open now."""

    def __init__(self) -> None:
        self._counted: dict[str, tuple[float, int]] = {}

    def count(self, now: float) -> None:
        for window, seconds in WINDOWS.items():
            self._counted[window] = (now - now % seconds, self._used(window, now) + 1)

    def used_up(self, quotas: Mapping[str, int], now: float) -> tuple[str, int] | None:
        """The longest window in which more calls came than may, and the seconds until the next one."""
        over = [window for window in WINDOWS if self._used(window, now) > _quota(window, quotas)]
        return (over[-1], _rest(over[-1], now)) if over else None

    def headers(self, quotas: Mapping[str, int], now: float) -> list[tuple[str, str]]:
        left = [f'"{window}";r={count};t={_rest(window, now)}' for window, count in self.left(quotas, now).items()]
        policy = [f'"{window}";q={_quota(window, quotas)};w={seconds}' for window, seconds in WINDOWS.items()]
        return [("ratelimit", ", ".join(left)), ("ratelimit-policy", ", ".join(policy))]

    def left(self, quotas: Mapping[str, int], now: float) -> dict[str, int]:
        """How many more calls each window takes."""
        return {window: max(0, _quota(window, quotas) - self._used(window, now)) for window in WINDOWS}

    def _used(self, window: str, now: float) -> int:
        begun, count = self._counted.get(window, (0.0, 0))
        return count if begun == now - now % WINDOWS[window] else 0


def _quota(window: str, quotas: Mapping[str, int]) -> int:
    return quotas.get(window, QUOTAS[window])


def _rest(window: str, now: float) -> int:
    """Whole seconds, so that whoever waits them out is never early."""
    seconds = WINDOWS[window]
    return seconds - int(now % seconds)
