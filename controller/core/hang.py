"""Does an engine hang behind a healthy answer?

The health path of a model server does not notice an engine that hangs (facts of vLLM 0.32). Two witnesses are needed,
of which a machine that is merely busy or slow gives one at most. First, what the server counts stands still, in every
scrape for so long, while requests are open: a slow prefill still fills the cache, a busy engine still counts tokens.
Then one token is asked for through a gateway, and does not come; and after that the counts still stand. What could not
be read, or was answered by somebody in between, counts for nothing.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from controller.core.runtime import Runtime

Counts = tuple[float | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Still:
    """What the server counts stands still while requests are open, since this scrape."""

    since: datetime
    counts: Counts
    latest: datetime
    """The last scrape that showed the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One token was asked for through a gateway: whether it came, and when that was told."""

    came: bool
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """Nothing is wrong as far as anybody knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """It may hang: one token is to be asked for, or the next scrape waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hung:
    """It does: both witnesses say so."""


def follow(still: Still | None, runtime: Runtime | None, *, open_requests: int) -> Still | None:
    """Carry the standstill on by one scrape; `None` where there is none, or nobody knows."""
    if runtime is None or not (open_requests or runtime.scrape.running):
        return None
    counts = _counts(runtime)
    if counts is None:
        return None
    if still is None or still.counts != counts:
        return Still(since=runtime.at, counts=counts, latest=runtime.at)
    return Still(since=still.since, counts=counts, latest=runtime.at)


def _counts(runtime: Runtime) -> Counts | None:
    """All that moves while an engine works. Without the count of its steps nothing is known of its progress."""
    scrape = runtime.scrape
    if scrape.steps is None:
        return None
    started_s = None if scrape.process_started_at is None else scrape.process_started_at.timestamp()
    return (scrape.steps, scrape.answer_tokens, scrape.prompt_tokens, scrape.cache_use, started_s)


def decide(still: Still | None, asked: Asked | None, *, hung_after: timedelta) -> Trust | Doubt | Hung:
    """By the latest scrape. A token that came since the doubt began ends it; `asked` before that says nothing."""
    if still is None or still.latest < still.since + hung_after:
        return Trust()
    if asked is None or asked.at < still.since + hung_after:
        return Doubt()
    if asked.came:
        return Trust()
    return Hung() if still.latest > asked.at else Doubt()
