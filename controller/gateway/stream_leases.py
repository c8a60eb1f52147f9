"""Which deployments have requests of ours open, and does the daemon know?

A lease stands for one deployment under one epoch. Its count is the number of live request objects holding it, so it
cannot fall below zero and cannot be forgotten by a request that ended. The first request waits until the daemon
granted the lease; those that find it granted ask nobody. A lease stays listed until a renewal has told that its count
is 0. While the daemon is away a lease is granted locally and told on return.
"""

import asyncio
from collections.abc import Callable
from datetime import timedelta

import anyio
import structlog

from controller.api.client import DaemonClient, Granted, OpenStreams, Problem, Unreachable
from controller.clock import Clock
from controller.gateway.contact import Contact
from controller.gateway.routes import Key

log = structlog.get_logger(__name__)


class Use:
    """One request's share in a lease. Released once, however often it is called."""

    __slots__ = ("lease",)

    def __init__(self, lease: "Lease") -> None:
        self.lease = lease
        lease.uses.add(self)

    @property
    def key(self) -> Key:
        return self.lease.key

    def byte_came(self) -> None:
        self.lease.last_byte_at = self.lease.now()

    def release(self) -> None:
        self.lease.uses.discard(self)


class NoUse:
    """In the place of a `Use` for what is no use of a machine: nothing is counted, told or given back."""

    __slots__ = ()
    lease: None = None

    def byte_came(self) -> None: ...

    def release(self) -> None: ...


class Lease:
    """A byte is noted on the loop's clock, which costs next to nothing, and put on the one that goes on through a
    suspend when it is told of: some seconds later."""

    def __init__(self, key: Key, clock: Clock) -> None:
        self.key = key
        self.clock = clock
        self.now = asyncio.get_running_loop().time
        self.uses: set[Use] = set()
        self.last_byte_at: float | None = None
        self._last_byte = clock.boot()
        self._bytes_seen = False
        self.granted = False
        self.answered = anyio.Event()

    def report(self) -> OpenStreams:
        boot = self.clock.boot()
        if self.last_byte_at is not None:
            self._last_byte = boot - timedelta(seconds=max(self.now() - self.last_byte_at, 0.0))
            self._bytes_seen = True
            self.last_byte_at = None
        return OpenStreams(
            deployment=self.key[0],
            epoch=self.key[1],
            open=len(self.uses),
            idle=max(boot - self._last_byte, timedelta()),
            bytes_seen=self._bytes_seen,
        )


class StreamLeases:
    """`on_refusal` is told when the daemon wants no new requests on a deployment."""

    def __init__(
        self, *, name: str, daemon: DaemonClient, contact: Contact, clock: Clock, on_refusal: Callable[[Key], None]
    ) -> None:
        self._name = name
        self._daemon = daemon
        self._contact = contact
        self._clock = clock
        self._on_refusal = on_refusal
        self._leases: dict[Key, Lease] = {}
        self._told: set[Key] = set()
        self._wanted = anyio.Event()

    def open(self, key: Key) -> int:
        lease = self._leases.get(key)
        return 0 if lease is None else len(lease.uses)

    @property
    def open_requests(self) -> int:
        return sum(len(lease.uses) for lease in self._leases.values())

    def hold_granted(self, key: Key) -> Use | None:
        """At once, if the lease stands."""
        lease = self._leases.get(key)
        return Use(lease) if lease is not None and lease.granted else None

    async def hold(self, key: Key) -> Use | None:
        """Waits for the daemon's word; None if it refuses."""
        lease = self._leases.get(key)
        if lease is None:
            lease = self._leases[key] = Lease(key, self._clock)
        use = Use(lease)
        if self._contact.down:
            self._settle(lease, granted=True)
            self._wanted.set()
            return use
        try:
            while not lease.granted:
                answered = lease.answered
                self._wanted.set()
                await answered.wait()
                if not lease.granted:
                    use.release()
                    return None
        except BaseException:
            use.release()
            raise
        return use

    async def renew(self, interval: timedelta) -> None:
        """Tells the daemon, on time and when a request waits for it, for as long as the gateway runs. With nothing
        listed there is no time to keep: every lease begins with a request that waits, or while the daemon is away."""
        while True:
            with anyio.move_on_after(interval.total_seconds() if self._leases or self._told else None):
                await self._wanted.wait()
            self._wanted = anyio.Event()
            await self.tell()

    def ring(self) -> None:
        """Have the next renewal now."""
        self._wanted.set()

    async def tell(self) -> None:
        """One renewal. Nothing is said when nothing is listed and the daemon knows it."""
        listed = list(self._leases.values())
        if not listed and not self._told:
            return
        reports = [self._report(lease) for lease in listed]
        try:
            answer = await self._daemon.put_stream_leases(self._name, reports)
        except Problem as problem:
            log.error("stream_leases_refused", answer=problem.status, code=problem.code)
            for lease in listed:
                self._settle(lease, granted=True)
            return
        except Unreachable as error:
            self._contact.missed(str(error))
            for lease in listed:
                self._settle(lease, granted=True)
            return
        self._contact.reached()
        self._told = {lease.key for lease in listed}
        self._take(listed, reports, answer)

    def _report(self, lease: Lease) -> OpenStreams:
        """Whoever says that nothing is open gives the lease back: the daemon may stop the machine on that word, and no
        request begins on it before the daemon has heard of another one."""
        report = lease.report()
        if report.open == 0:
            lease.granted = False
        return report

    def _take(self, listed: list[Lease], reports: list[OpenStreams], answer: Granted) -> None:
        for lease, report in zip(listed, reports, strict=True):
            if not lease.uses and report.open == 0:
                self._leases.pop(lease.key, None)
                continue
            refused = lease.key[0] in answer.refused
            if report.open == 0 and not refused:
                continue  # given back, and wanted again meanwhile: who came rang for the next word, and waits for it
            self._settle(lease, granted=not refused)
            if refused:
                self._on_refusal(lease.key)

    def _settle(self, lease: Lease, *, granted: bool) -> None:
        lease.granted = granted
        lease.answered.set()
        lease.answered = anyio.Event()
