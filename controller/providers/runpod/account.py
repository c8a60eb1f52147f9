"""May we call the account now, and what did the call bring?

Every call to the control plane goes through here, reading and writing alike, because the provider counts them
together; `pace` says when the next one may leave.
"""

import hashlib
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final, Protocol

from controller import __version__
from controller.clock import Clock
from controller.ids import Randomness, SystemRandomness
from controller.providers.runpod.pace import Kind, Pace, wait_asked
from controller.providers.runpod.wire import problem_in, said_at
from controller.transport import Answer, AsyncTransport, CallLimits, Http, Sip

API_URL: Final = "https://api.runpod.io/v2"
USER_AGENT: Final = f"gpuwarden/{__version__} (+controller)"


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

    def __init__(
        self, http: Http, *, clock: Clock, hear: Hear | None = None, randomness: Randomness | None = None
    ) -> None:
        self.http = http
        self.clock = clock
        self._hear = hear
        self._pace = Pace(clock, randomness or SystemRandomness())
        self.locked: set[str] = set()
        """Ids of pods that the latest look at them showed as locked."""
        self.places: dict[str, Mapping[str, tuple[str, ...]]] = {}
        """By model and type of card, the data centres in which the catalog last showed it."""
        self.doubted_at: timedelta | None = None
        """When it last stayed open what a create had made, in boot time."""

    async def call(self, kind: Kind, method: str, path: str, *, body: bytes | None = None) -> Answer:
        """One attempt. Raises HeldBack (nothing sent), NotSent or OutcomeUnknown."""
        self._pace.enter(kind)
        sent_at = self.clock.boot()
        answer = await self.http.call(method, path, body=body, fresh=kind is Kind.CREATE)
        self._listen(kind, answer, sent_at)
        return answer

    def wait(self, kind: Kind) -> timedelta | None:
        """How long the next call of this kind is held back; `None`: not at all."""
        left = self._pace.wait(kind)
        return left if left > timedelta() else None

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
        self._pace.hear(answer.headers)
        if answer.code == 429 or (answer.code == 503 and "retry-after" in answer.headers):
            self._pace.slow_down(wait_asked(answer.headers, now=self.clock.now()), kind=kind)
        else:
            self._pace.go_on()
