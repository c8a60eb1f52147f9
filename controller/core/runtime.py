"""How busy is a ready machine by its own account?

What its model server counts about itself, as of one scrape, and how fast it went since the scrape before. Each number
is known or `None`: one that was not told is never 0 (LS-11, LS-24). Speeds are worked out from the counters; a counter
that fell says that the server started anew, and nothing about its speed (LS-23).
"""

import math
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrape:
    """One scrape's numbers. Counters are since the server's start."""

    running: float | None = None
    waiting: float | None = None
    cache_use: float | None = None
    """0 to 1, of the fullest engine."""
    prompt_tokens: float | None = None
    answer_tokens: float | None = None
    steps: float | None = None
    """Moves at each step of an engine that writes; llama.cpp counts an answer's tokens only once it is whole."""
    prompt_rate: float | None = None
    """Tokens a second as the server itself says it, over a span of its own choice; llama.cpp alone."""
    answer_rate: float | None = None
    process_started_at: datetime | None = None
    """When the server's own process began, by its machine's clock."""

    @property
    def known(self) -> bool:
        """Was any number told that says how busy it is (LS-12)?"""
        told = (self.running, self.waiting, self.cache_use, self.prompt_tokens, self.answer_tokens)
        return any(number is not None for number in told)


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """The latest scrape with its instant by our own clock."""

    at: datetime
    scrape: Scrape
    prompt_rate: float | None = None
    """Tokens a second since the scrape before."""
    answer_rate: float | None = None


def follow(former: Runtime | None, scrape: Scrape, *, at: datetime) -> Runtime:
    """Carry what is known on by one scrape."""
    return Runtime(
        at=at,
        scrape=scrape,
        prompt_rate=_rate(former, at, "prompt_tokens", scrape.prompt_tokens, scrape.prompt_rate),
        answer_rate=_rate(former, at, "answer_tokens", scrape.answer_tokens, scrape.answer_rate),
    )


def _rate(former: Runtime | None, at: datetime, counter: str, count: float | None, said: float | None) -> float | None:
    """From two counts; from what the server says where there is no count before."""
    before: float | None = None if former is None else getattr(former.scrape, counter)
    if former is None or before is None or count is None:
        # Averaged over a span that may be long over: 0 says as little as nothing.
        return said or None
    span_s = (at - former.at).total_seconds()
    return (count - before) / span_s if span_s > 0 and count >= before else None


def normal(number: float | None, *, most: float = math.inf) -> float | None:
    """`number` if it can be what it is said to be: finite, not negative, at most `most` (LS-11)."""
    if number is None or not math.isfinite(number) or number < 0:
        return None
    return min(number, most)


def serves_somebody(runtime: Runtime | None, *, since: datetime) -> bool:
    """Does the server itself say that it works for somebody, in a scrape later than `since`? Unknown is no."""
    if runtime is None or runtime.at <= since:
        return False
    return bool(runtime.scrape.running or runtime.scrape.waiting)
