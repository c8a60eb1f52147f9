"""May this client begin one more request?

By what was agreed for its key: so many in any 60 seconds, and so many at once. A request that is refused counts for
nothing, so that trying again too early delays nobody. Each process of a gateway counts by itself: of N processes
behind one address each allows the whole of it.

What is left is told in the headers that OpenAI's clients know: `reset` is when the minute's count is back at its
limit, `Retry-After` when one more would be let in.
"""

from collections import deque
from datetime import timedelta
from math import ceil
from typing import Final

from controller.core.errors import Code
from controller.gateway.clients import Client
from controller.gateway.passage import Passage
from controller.gateway.refusals import Refused
from controller.gateway.tally import Tally

MINUTE_S: Final = 60.0
WHEN_ONE_ENDS: Final = timedelta(seconds=1)
"""Nobody knows when; soon enough to keep what is allowed in use, late enough to be no load."""
STANDINGS_MOST: Final = 2048


class Standing:
    """What one client has used. Instants are seconds on the loop's clock."""

    __slots__ = ("began", "open")

    def __init__(self) -> None:
        self.began: deque[float] = deque()
        """When each request of the last minute was let in."""
        self.open = 0

    def forget(self, now: float) -> None:
        """What is a minute old."""
        began = self.began
        while began and began[0] <= now - MINUTE_S:
            began.popleft()


class Allowances:
    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._standings: dict[str, Standing] = {}

    def take(self, client: Client, passage: Passage, now: float) -> Standing | None:
        """Whoever got a standing gives it back. Raises `Refused`."""
        per_minute, at_once = client.requests_per_minute, client.concurrent
        if per_minute is None and at_once is None:
            return None
        standing = self._standing(client.name, now)
        if at_once is not None and standing.open >= at_once:
            raise self._refused(client, "concurrent", f"{at_once} requests at once", WHEN_ONE_ENDS)
        if per_minute is not None:
            self._take_of_minute(client, per_minute, standing, passage, now)
        standing.open += 1
        return standing

    def give_back(self, standing: Standing | None) -> None:
        if standing is not None:
            standing.open -= 1

    def _take_of_minute(
        self, client: Client, per_minute: int, standing: Standing, passage: Passage, now: float
    ) -> None:
        standing.forget(now)
        began = standing.began
        wait = began[-per_minute] + MINUTE_S - now if len(began) >= per_minute else None
        if wait is None:
            began.append(now)
        passage.headers += [
            (b"x-ratelimit-limit-requests", b"%d" % per_minute),
            (b"x-ratelimit-remaining-requests", b"%d" % max(per_minute - len(began), 0)),
            (b"x-ratelimit-reset-requests", written(began[-1] + MINUTE_S - now)),
        ]
        if wait is not None:
            words = f"{per_minute} requests a minute"
            raise self._refused(client, "requests_per_minute", words, timedelta(seconds=wait))

    def _refused(self, client: Client, limit: str, words: str, wait: timedelta) -> Refused:
        self._tally.limited[self._tally.named(client.name), limit] += 1
        return Refused(Code.RATE_LIMITED, f"this key may make {words}", retry_after=wait, extra={"limit": limit})

    def _standing(self, name: str, now: float) -> Standing:
        standing = self._standings.get(name)
        if standing is None:
            if len(self._standings) >= STANDINGS_MOST:
                self._drop_unused(now)
            standing = self._standings[name] = Standing()
        return standing

    def _drop_unused(self, now: float) -> None:
        for name, standing in list(self._standings.items()):
            standing.forget(now)
            if not standing.open and not standing.began:
                del self._standings[name]


def written(seconds: float) -> bytes:
    """As OpenAI writes it: 20ms, 1s, 1m0s."""
    if seconds < 1:
        return b"%dms" % ceil(seconds * 1000)
    minutes, rest = divmod(ceil(seconds), 60)
    return b"%dm%ds" % (minutes, rest) if minutes else b"%ds" % rest
