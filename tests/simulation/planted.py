"""Would the simulation notice, if the daemon were wrong?

Each classic mistake of programs of this kind, planted alone into the running code of one process. A campaign with one
planted has to fail; how many seeds that takes, and which invariant speaks, stands in CONTRIBUTING. What is planted
replaces a rule by name: where the name is gone, planting fails, and the list is brought up to date.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

from controller import supervision, transport
from controller.core import billing, hosting, machine_log, obligation, orphans
from controller.core.book import AccountTrust
from controller.gateway import stream_leases
from controller.providers.runpod import queue
from controller.providers.runpod.adapter import RunpodWriting
from controller.providers.writing import CreateRejected, RejectedFor
from controller.store import duties, fencing, restoring, transaction
from controller.store.store import Store
from controller.store.transaction import Tx
from controller.tasks import executor
from controller.tasks.account_guard import AccountGuard
from controller.tasks.orphan_sweeper import OrphanSweeper

A_YEAR: Final = timedelta(days=365)
EVER_OTHER: Final = random.Random(7)


def plant(name: str) -> None:
    """Make the code of this process wrong, for good. Raises KeyError, or AttributeError where the code has moved."""
    PLANTED[name].act()


@dataclass(frozen=True, slots=True)
class Planted:
    meaning: str
    act: Callable[[], None]


def _swap(place: Any, name: str, make: Callable[[Any], Any]) -> None:
    setattr(place, name, make(getattr(place, name)))


def _retry_after_error() -> None:
    def wrong(real: Any) -> Any:
        def refused(self: Any, answer: Any, order: Any) -> Any:
            if answer.code >= 500:
                return CreateRejected(what=RejectedFor.OFFER, detail="refused, surely", retry_after=None)
            return real(self, answer, order)

        return refused

    _swap(RunpodWriting, "_refused", wrong)


def _absence_once() -> None:
    def wrong(real: Any) -> Any:
        def settle(duty: Any, sight: Any, settle_after: timedelta) -> Any:
            return real(duty, sight, settle_after) if sight.absence is None else obligation._absent(sight.absence, "!")

        return settle

    _swap(obligation, "_settle_absent", wrong)
    _swap(obligation, "_settle_unknown", wrong)


def _accepted_is_proof() -> None:
    def wrong(real: Any) -> Any:
        return lambda duty, sight, *, settle_after, accepted_suffices: real(
            duty, sight, settle_after=settle_after, accepted_suffices=True
        )

    _swap(obligation, "settle", wrong)


def _sweep_first() -> None:
    """Whatever no record holds yet is stopped in the moment it is seen."""
    _swap(OrphanSweeper, "_expected", lambda _: lambda self, seen: False)
    _swap(orphans, "decide_orphan", lambda _: lambda sighting, *, grace, now: orphans.StopOrphan())


def _idle_from_start() -> None:
    _swap(stream_leases.Use, "byte_came", lambda _: lambda self: None)


def _count_leak() -> None:
    def wrong(real: Any) -> Any:
        return lambda self: real(self) if EVER_OTHER.random() < 0.8 else None

    _swap(stream_leases.Use, "release", wrong)


def _stale_epoch() -> None:
    """Both guards, or the one would stand in for the other: the epoch, and whose the file is."""
    for place in (hosting, duties, fencing):
        _swap(place, "fence", lambda _: lambda *args, **options: None)
    _swap(Store, "_require_ours", lambda _: lambda self, connection: None)


def _lost_wake_up() -> None:
    def wrong(real: Any) -> Any:
        return lambda self: real(self) if EVER_OTHER.random() < 0.5 else None

    _swap(supervision.Wake, "ring", wrong)


def _epochs_not_raised() -> None:
    for place in (transaction, restoring):
        _swap(place, "raised", lambda _: lambda ours, *told: ours)


def _unbounded_call() -> None:
    def wrong(real: Any) -> Any:
        def init(self: Any, *args: Any, **options: Any) -> None:
            real(self, *args, **options)
            self._limits = replace(self._limits, whole=A_YEAR)

        return init

    _swap(transport.Http, "__init__", wrong)


def _young_absence() -> None:
    def wrong(real: Any) -> Any:
        return lambda duty, sight, settle_after: real(
            replace(duty, seen_at=duty.seen_at or duty.opened_at), sight, settle_after
        )

    _swap(obligation, "_settle_absent", wrong)


def _any_account() -> None:
    async def judged(self: Any, shown: Any) -> None:
        return None

    def wrong(real: Any) -> Any:
        def put(self: Any, account: AccountTrust) -> Any:
            return real(self, replace(account, trusted=True, why=None))

        return put

    _swap(AccountGuard, "_judge", lambda _: judged)
    _swap(Tx, "put_account", wrong)


def _never_stops() -> None:
    _swap(executor.Executor, "stop", lambda _: lambda self, duty: None)


def _queue_ignored() -> None:
    _swap(queue, "read_page", lambda _: lambda body, reader, *, now: queue.QueuePage(readable=True))


def _bill_ignored() -> None:
    _swap(billing, "contradicted", lambda _: lambda bill, settled: {})


def _unwritten_forgotten() -> None:
    _swap(Store, "owe_unwritten", lambda _: lambda self, decided_on, reason, *, drain_until=None: None)


def _unwritten_unsent() -> None:
    def wrong(real: Any) -> Any:
        async def sent(self: Any, duty: Any, key: Any, *, late: bool) -> None:
            if not late:
                await real(self, duty, key, late=False)

        return sent

    _swap(executor.Executor, "_send_stops", wrong)


def _stall_ignored() -> None:
    _swap(machine_log, "stalled", lambda _: lambda logged, *, phase, stall_after: None)


PLANTED: Final[dict[str, Planted]] = {
    "retry-after-5xx": Planted("a 5xx on create counts as a refusal", _retry_after_error),
    "absence-once": Planted("absence in one listing is proof", _absence_once),
    "accepted-is-proof": Planted("a 204 discharges", _accepted_is_proof),
    "sweep-first": Planted("orphans are swept before intents are read", _sweep_first),
    "idle-from-start": Planted("idle time counts from a request's start", _idle_from_start),
    "count-leak": Planted("a request that was aborted stays counted, now and then", _count_leak),
    "stale-epoch": Planted("calls and writes under an older epoch are not refused", _stale_epoch),
    "lost-wake-up": Planted("a wake-up is lost, now and then", _lost_wake_up),
    "epochs-not-raised": Planted("an old copy of the store goes on with its own epochs", _epochs_not_raised),
    "unbounded-call": Planted("a call to the provider may last for ever", _unbounded_call),
    "young-absence": Planted("a young machine's absence is believed", _young_absence),
    "any-account": Planted("another account's empty listing is believed", _any_account),
    "queue-ignored": Planted("what waits in the provider's queue is not looked at", _queue_ignored),
    "bill-ignored": Planted("what is billed after its end is believed gone", _bill_ignored),
    "unwritten-forgotten": Planted("what falls due while nothing can be written is not owed", _unwritten_forgotten),
    "unwritten-unsent": Planted("while nothing can be written no stop is sent", _unwritten_unsent),
    "stall-ignored": Planted("cards that wait for each other are waited for", _stall_ignored),
    "never-stops": Planted("nothing is ever stopped", _never_stops),
}
