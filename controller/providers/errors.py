"""What can go wrong with a provider before anything was asked of it?

Both mean that no call was made. What a provider answers, or fails to answer, is a value of the ports and not an
exception.
"""

from datetime import timedelta


class ProviderError(Exception):
    """No call was made."""


class HeldBack(ProviderError):
    """The provider asked us to wait, and the time is not over."""

    def __init__(self, *, retry_after: timedelta) -> None:
        super().__init__(f"held back for {retry_after.total_seconds():.0f} s: the provider asked us to wait")
        self.retry_after = retry_after


class BadOrder(ProviderError):
    """An order that must never leave: undeclared, too big, or with something in it that others must not read."""
