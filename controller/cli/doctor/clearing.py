"""How does all that a qualification rented come to its proven end?"""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Final

import anyio

from controller.cli.doctor.trial import ALIAS
from controller.cli.output import Progress
from controller.core.book import Book
from controller.core.evidence import StopReason
from controller.core.lifecycle import SERVING, Phase
from controller.core.policy import HostingPolicy
from controller.daemon.built import Daemon
from controller.store import duties, owing
from controller.store.errors import StoreError
from controller.store.store import Store
from controller.store.transaction import Tx

LOOK_EVERY: Final = timedelta(seconds=2)
WITHIN: Final = timedelta(minutes=30)


async def cleared(daemon: Daemon, *, gave_up: Callable[[], bool]) -> list[str]:
    """Oblige the stop of all that is ours and wait for the proof; what is left when that takes too long."""
    progress, until = Progress(), daemon.clock.now() + WITHIN
    while True:
        daemon.wants.satisfied(ALIAS)
        try:
            await oblige_all(daemon.store, policy=daemon.policy)
        except StoreError as problem:
            progress.tell(f"the store cannot be written, and is tried again: {problem}")
        daemon.ring()
        left = [duty.id for duty in daemon.store.book.obligations.values() if duty.open and duty.model == ALIAS]
        if not left and not daemon.store.book.live(ALIAS):
            return []
        if gave_up() or daemon.clock.now() >= until:
            return [str(duty) for duty in left]
        progress.tell("stopping, and waiting for the proof")
        await anyio.sleep(LOOK_EVERY.total_seconds())


async def oblige_all(store: Store, *, policy: HostingPolicy) -> None:
    """What may serve is owed its stop where nothing can be written too; whose create is not settled has to be told
    first. Raises StoreError."""

    def due(book: Book, _: datetime) -> Iterator[owing.Due]:
        for record in book.live(ALIAS):
            if record.phase in SERVING:
                yield owing.Due(record=record, reason=StopReason.OPERATOR_REQUEST)

    def rest(tx: Tx) -> None:
        for record in tx.book.live(ALIAS):
            if record.phase not in SERVING | {Phase.STOP_REQUIRED}:
                duties.require_stop_of(tx, record, StopReason.OPERATOR_REQUEST, now_at_once=True, policy=policy)

    await owing.oblige_by(store, due, along=rest)
