"""What is remembered of what ended, by a daemon that runs on and by one that begins?"""

from datetime import timedelta
from pathlib import Path

from controller.core.deployment import CreateAnswer, Record
from controller.store import deployments
from controller.store.load import trimmed
from controller.store.store import Store
from tests.store.samples import accept, opened, proof, submit
from tests.support.clocks import HandClock


async def ended(store: Store, name: str, incarnation: str = "p1") -> Record:
    """One that was, in the slot that all of them have."""
    record = await store.write(lambda tx: accept(tx, name, incarnation))
    (duty,) = store.book.duties(record.id)
    await store.write(lambda tx: deployments.discharge(tx, duty.id, proof("x")))
    return record


async def test_what_a_restart_would_not_read_is_forgotten_while_running(tmp_path: Path) -> None:
    clock = HandClock()
    async with opened(tmp_path, clock) as store:
        first, last = [await ended(store, name, incarnation) for name, incarnation in (("q-1", "p1"), ("q-2", "p2"))]
        clock.move(timedelta(days=1, seconds=1))
        await store.write(lambda tx: tx.next_epoch())
        book = store.book
        assert (book.obligations, book.leases, book.reservations) == ({}, {}, {})
        assert set(book.records) == {last.id} == {create.deployment for create in book.creates.values()}
        assert set(book.settled) == {first.key, last.key}
        assert book == trimmed(book, clock.now())


async def test_an_ended_deployment_is_remembered_for_a_day_and_the_last_of_its_slot_beyond(tmp_path: Path) -> None:
    clock = HandClock()
    async with opened(tmp_path, clock) as store:
        planned = await store.write(lambda tx: submit(tx, "q-1"))
        await store.write(lambda tx: deployments.record_refused(tx, planned, CreateAnswer.REJECTED, detail="no stock"))
        await store.write(lambda tx: deployments.cancel(tx, tx.record(planned.deployment)))
        last = await ended(store, "q-2")
    clock.move(timedelta(days=1))
    async with opened(tmp_path, clock) as store:
        assert set(store.book.records) == {planned.deployment, last.id}
    clock.move(timedelta(milliseconds=1))
    async with opened(tmp_path, clock) as store:
        assert set(store.book.records) == {last.id}
