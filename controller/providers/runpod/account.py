"""May we call the account now, and what did the call bring?

Every call to the control plane goes through here, reading and writing alike, because the provider counts them
together. After a 429, or a 503 that names a time, nothing is called until that time is over; a stop waits 300 s at
most, since a machine that nobody wants bills meanwhile. If a stop was turned away, by us or by the provider, stops go
first when the time is over: what was asked of us is fewer calls, and a listing is worth less than a stop.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, Protocol

from controller import __version__
from controller.clock import Clock
from controller.providers.errors import HeldBack
from controller.providers.runpod.wire import instant_of, problem_in, said_at
from controller.transport import Answer, AsyncTransport, CallLimits, Http, Sip

API_URL: Final = "https://api.runpod.io/v2"
USER_AGENT: Final = f"gpuwarden/{__version__} (+controller)"

STOP_WAIT_MAX: Final = timedelta(seconds=300)
WAIT_MAX: Final = timedelta(days=1)  # the longest window that the provider counts calls in
WAIT_MIN: Final = timedelta(seconds=1)
WAIT_UNSAID: Final = timedelta(seconds=15)
SECONDS_DIGITS_MAX: Final = 9
STOPS_FIRST: Final = timedelta(seconds=5)

USED_UP: Final = re.compile(r";\s*r=0\s*;\s*t=([0-9]{1,6})\b")


class Kind(StrEnum):
    READ = "read"
    CREATE = "create"
    STOP = "stop"


def open_api(
    *, key: str, api_url: str = API_URL, transport: AsyncTransport | None = None, limit: timedelta | None = None
) -> Http:
    """The control plane's party. `api_url` is the one thing that tells an emulator from the real one; `limit` is how
    long one call may take."""
    limits = None if limit is None else CallLimits(whole=limit)
    return Http(api_url, user_agent=USER_AGENT, bearer=key, limits=limits, transport=transport)


def key_digest(key: str, salt: str) -> str:
    """Tells whether the provider's key is another one than before, and nothing else about it (RP-43)."""
    return hashlib.sha256(f"{len(salt)}:{salt}{key}".encode()).hexdigest()


class Hear(Protocol):
    """Who wants to know what time the provider says it is."""

    def __call__(self, said: datetime | None, *, round_trip: timedelta) -> None:
        """`said` is `None` where the answer's Date is missing or unreadable."""
        ...


class Account:
    """One account's calls, paced together."""

    def __init__(self, http: Http, *, clock: Clock, hear: Hear | None = None) -> None:
        self.http = http
        self.clock = clock
        self._hear = hear
        self._pace = Pace(clock)
        self.locked: set[str] = set()
        """Ids of pods that the latest look at them showed as locked."""
        self.doubted_at: timedelta | None = None
        """When it last stayed open what a create had made, in boot time."""

    async def call(self, kind: Kind, method: str, path: str, *, body: bytes | None = None) -> Answer:
        """One attempt. Raises HeldBack (nothing sent), NotSent or OutcomeUnknown."""
        self._pace.enter(kind)
        sent_at = self.clock.boot()
        answer = await self.http.call(method, path, body=body, fresh=kind is Kind.CREATE)
        self._listen(kind, answer, sent_at)
        return answer

    def words(self, answer: Answer, *, secrets: Iterable[str] = ()) -> str:
        """What was answered, for people: the number, and the provider's words if they are a well-formed refusal."""
        problem = problem_in(answer.code, answer.headers, answer.body)
        return self.http.redacted(f"HTTP {answer.code}" + (f": {problem.detail}" if problem else ""), secrets=secrets)

    def note_lock(self, pod_id: str, locked: bool | None) -> None:
        if locked:
            self.locked.add(pod_id)
        else:
            self.locked.discard(pod_id)

    async def open(self, path: str) -> Answer:
        """Begin to read what may never end, and leave it: the answer without its body. Raises as `call` does."""
        self._pace.enter(Kind.READ)
        sent_at = self.clock.boot()
        answer = await self.http.open(path)
        self._listen(Kind.READ, answer, sent_at)
        return answer

    async def sip(self, path: str, limit: Sip) -> tuple[Answer, bool]:
        """Read what a stream has to say now, and leave it: see `Http.sip`. Raises as `call` does."""
        self._pace.enter(Kind.READ)
        answer, left = await self.http.sip(path, limit)
        self._listen(Kind.READ, answer, None)
        return answer, left

    def _listen(self, kind: Kind, answer: Answer, sent_at: timedelta | None) -> None:
        # The Date of a stream is that of its beginning, and its round trip is not known.
        if self._hear is not None and sent_at is not None:
            self._hear(said_at(answer.headers), round_trip=self.clock.boot() - sent_at)
        if answer.code == 429 or (answer.code == 503 and "retry-after" in answer.headers):
            self._pace.slow_down(wait_asked(answer.headers, now=self.clock.now()), kind=kind)


class Pace:
    """When the next call of each kind may leave."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._asked_at = timedelta()
        self._open_at = timedelta()
        self._stop_turned_away = False

    def enter(self, kind: Kind) -> None:
        """Raises HeldBack with what is left of the wait."""
        left = self._opens(kind) - self._clock.boot()
        if left > timedelta():
            self._stop_turned_away = self._stop_turned_away or kind is Kind.STOP
            raise HeldBack(retry_after=left)
        if kind is Kind.STOP:
            self._stop_turned_away = False

    def slow_down(self, wait: timedelta, *, kind: Kind = Kind.READ) -> None:
        """`kind` is that of the call which was answered so."""
        self._stop_turned_away = self._stop_turned_away or kind is Kind.STOP
        self._asked_at = self._clock.boot()
        self._open_at = max(self._open_at, self._asked_at + wait)

    def _opens(self, kind: Kind) -> timedelta:
        if kind is Kind.STOP:
            return min(self._open_at, self._asked_at + STOP_WAIT_MAX)
        return self._open_at + (STOPS_FIRST if self._stop_turned_away else timedelta())


def wait_asked(headers: Mapping[str, str], *, now: datetime) -> timedelta:
    """How long we are asked to wait: `Retry-After` in seconds or as a date, else the used-up window's rest."""
    asked = headers.get("retry-after", "").strip()
    if asked.isascii() and asked.isdigit():
        return _sensible(int(asked[:SECONDS_DIGITS_MAX]))
    until = instant_of(asked)
    if until is not None:
        return _sensible((until - (said_at(headers) or now)).total_seconds())
    windows = [int(rest) for rest in USED_UP.findall(headers.get("ratelimit", ""))]
    return _sensible(max(windows)) if windows else WAIT_UNSAID


def _sensible(seconds: float) -> timedelta:
    return min(max(timedelta(seconds=seconds), WAIT_MIN), WAIT_MAX)
