"""Is every call on record before it leaves, and its answer whatever happens?"""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import anyio
import pytest

from controller.core.deployment import CreateAnswer
from controller.core.evidence import StopReason
from controller.core.identity import ResourceKey
from controller.core.lifecycle import Phase
from controller.core.obligation import Ending, Obligation, StopAnswer
from controller.providers.fake.adapter import Ended, Made
from controller.providers.writing import (
    CreateAccepted,
    CreateOutcome,
    CreateRejected,
    Order,
    RejectedFor,
    StopOutcome,
    StopRefused,
    Writing,
)
from controller.store.errors import StoreUnwritable
from controller.store.store import Store
from tests.tasks.world import Bench, on_bench


class Port:
    """The provider's writing port with something done before each call."""

    idempotent = False

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self.before_create: Callable[[Order], object] = lambda order: None
        self.before_stop: Callable[[ResourceKey], object] = lambda key: None
        self.hangs = False
        self.created: list[str] = []
        self.stopped_s: list[float] = []

    async def create(self, order: Order) -> CreateOutcome:
        self.created.append(order.offer)
        self.before_create(order)
        if self.hangs:
            await anyio.sleep_forever()
        return await self._bench.provider.create(order)

    async def stop(self, key: ResourceKey) -> StopOutcome:
        self.stopped_s.append(anyio.current_time())
        self.before_stop(key)
        if self.hangs:
            await anyio.sleep_forever()
        return await self._bench.provider.stop(key)


def broken(*_: object) -> None:
    raise RuntimeError("scripted")


# Creates


@on_bench
async def test_a_create_and_its_obligation_are_committed_before_it_leaves(bench: Bench) -> None:
    port, planned = Port(bench), await bench.plan()
    seen: list[tuple[bool, bool]] = []

    def look(order: Order) -> None:
        create = bench.store.book.creates[planned.create.request]
        seen.append((create.submitting_at is not None and create.answer is None, bench.duty().open))

    port.before_create = look
    (await bench.executor(writing=port)).start(planned, bench.model)
    await bench.settle()
    assert seen == [(True, True)]
    assert bench.record().phase is Phase.REQUESTED
    assert bench.duty().key == bench.provider.resources[0].key


@on_bench
async def test_a_create_carries_owner_installation_epoch_and_request(bench: Bench) -> None:
    planned = await bench.plan()
    (await bench.executor()).start(planned, bench.model)
    await bench.settle()
    (made,) = bench.provider.resources
    assert made.tags == bench.tags(planned.create.request, epoch=planned.record.epoch)


@on_bench
async def test_offers_are_asked_for_in_order_and_each_has_a_duty_of_its_own(bench: Bench) -> None:
    port = Port(bench)
    bench.provider.script.creates.append(Made.NO_CAPACITY)
    (await bench.executor(writing=port)).start(await bench.plan(), bench.model)
    await bench.settle()
    assert port.created == ["L40S", "A40"]
    endings = [duty.ending for duty in bench.store.book.obligations.values()]
    assert endings == [Ending.VOID, None]


@on_bench
async def test_the_next_offer_is_asked_for_only_after_the_former_duty_is_void(bench: Bench) -> None:
    port, open_duties = Port(bench), []
    bench.provider.script.creates.append(Made.NO_CAPACITY)
    port.before_create = lambda order: open_duties.append(
        [duty.request == order.tags.request for duty in bench.store.book.obligations.values() if duty.open]
    )
    (await bench.executor(writing=port)).start(await bench.plan(), bench.model)
    await bench.settle()
    assert open_duties == [[True], [True]]


@on_bench
async def test_a_round_in_which_all_is_refused_ends_cancelled_and_waits(bench: Bench) -> None:
    bench.provider.script.creates += [Made.NO_CAPACITY, Made.NO_CAPACITY]
    (await bench.executor()).start(await bench.plan(), bench.model)
    await bench.settle()
    memory = bench.store.book.memory("qwen")
    assert bench.record().phase is Phase.CANCELLED
    assert (memory.rounds, memory.next_round_at) == (1, bench.clock.now() + bench.policy.round_gap)
    assert (memory.starts, memory.failures) == ((), 0)


@pytest.mark.parametrize("fate", [Made.LOST_BUT_MADE, Made.LOST_NOT_MADE])
@on_bench
async def test_nothing_is_asked_for_after_an_unknown_answer(bench: Bench, fate: Made) -> None:
    port = Port(bench)
    bench.provider.script.creates.append(fate)
    (await bench.executor(writing=port)).start(await bench.plan(), bench.model)
    await bench.move(300)
    assert port.created == ["L40S"]
    assert (bench.record().phase, bench.duty().open) == (Phase.UNCERTAIN, True)


@pytest.mark.parametrize(
    ("fate", "blocked"),
    [
        (Made.NOT_SENT, None),
        (Made.TOO_OFTEN, None),
        (Made.NO_FUNDS, "no_funds"),
        (Made.BAD_ORDER, "invalid-request"),
        (Made.BAD_KEY, "credential"),
    ],
)
@on_bench
async def test_what_is_refused_beyond_the_offer_ends_the_start(bench: Bench, fate: Made, blocked: str | None) -> None:
    port = Port(bench)
    bench.provider.script.creates.append(fate)
    (await bench.executor(writing=port)).start(await bench.plan(), bench.model)
    await bench.settle()
    memory = bench.store.book.memory("qwen")
    assert port.created == ["L40S"]
    assert (bench.record().phase, bench.duty().ending) == (Phase.CANCELLED, Ending.VOID)
    assert (memory.hold_reason, memory.hold_until) == (blocked, None)


@pytest.mark.parametrize(("asked_s", "waits_s"), [(None, 30), (10, 30), (600, 600)])
@on_bench
async def test_too_many_calls_make_the_next_round_wait_as_long_as_asked(
    bench: Bench, asked_s: float | None, waits_s: float
) -> None:
    retry_after = None if asked_s is None else timedelta(seconds=asked_s)

    class Limited(Port):
        async def create(self, order: Order) -> CreateOutcome:
            return CreateRejected(what=RejectedFor.RATE, detail="scripted", retry_after=retry_after)

    (await bench.executor(writing=Limited(bench))).start(await bench.plan(), bench.model)
    await bench.settle()
    assert bench.store.book.memory("qwen").next_round_at == bench.clock.now() + timedelta(seconds=waits_s)


@on_bench
async def test_what_was_not_ordered_is_owed_a_stop_at_once(bench: Bench) -> None:
    class Other(Port):
        async def create(self, order: Order) -> CreateOutcome:
            outcome = await bench.provider.create(order)
            assert isinstance(outcome, CreateAccepted)
            return replace(outcome, mismatch="another type")

    (await bench.executor(writing=Other(bench))).start(await bench.plan(), bench.model)
    await bench.settle()
    assert (bench.record().phase, bench.duty().reason) == (Phase.STOP_REQUIRED, StopReason.WRONG_RESOURCE)


@on_bench
async def test_an_answer_that_describes_a_resource_on_record_is_unknown(bench: Bench) -> None:
    held = await bench.start()

    class Repeating(Port):
        async def create(self, order: Order) -> CreateOutcome:
            return CreateAccepted(resource=replace(bench.provider.resources[0], tags=order.tags))

    planned = await bench.plan("qwen-2", slot=1)
    (await bench.executor(writing=Repeating(bench))).start(planned, bench.model)
    await bench.move(5)
    assert bench.record("qwen-2").phase is Phase.UNCERTAIN
    assert bench.record().key == held.key


@on_bench
async def test_an_unexpected_error_in_the_port_is_contained_and_recorded_as_unknown(bench: Bench) -> None:
    port = Port(bench)
    port.before_create = broken
    executor = await bench.executor(writing=port)
    executor.start(await bench.plan(), bench.model)
    await bench.settle()
    assert bench.record().phase is Phase.UNCERTAIN
    port.before_create = lambda order: None
    executor.start(await bench.plan("qwen-2", slot=1), bench.model)
    await bench.settle()
    assert bench.record("qwen-2").phase is Phase.REQUESTED


@on_bench
async def test_a_create_that_is_cut_off_by_our_end_is_recorded_as_unknown(bench: Bench) -> None:
    port = Port(bench)
    port.hangs = True
    async with anyio.create_task_group() as group:
        bench.group = group
        (await bench.executor(writing=port)).start(await bench.plan(), bench.model)
        await bench.move(1)
        group.cancel_scope.cancel()
    (create,) = bench.store.book.creates.values()
    assert (create.answer, bench.record().phase) == (CreateAnswer.UNKNOWN, Phase.UNCERTAIN)


@on_bench
async def test_recording_holds_up_our_end_for_a_limited_time(bench: Bench) -> None:
    port = Port(bench)
    port.hangs = True
    async with anyio.create_task_group() as group:
        bench.group = group
        (await bench.executor(writing=port)).start(await bench.plan(), bench.model)
        await bench.move(1)
        bench.break_store()
        group.cancel_scope.cancel()
    assert 5 <= anyio.current_time() < 8
    await bench.store.close()
    bench.mend_store()
    await bench.restart()
    assert bench.record().phase is Phase.UNCERTAIN


@on_bench
async def test_an_answer_is_recorded_however_long_the_store_cannot_be_written(bench: Bench) -> None:
    port = Port(bench)
    port.before_create = lambda order: bench.break_store()
    (await bench.executor(writing=port)).start(await bench.plan(), bench.model)
    await bench.move(8)
    assert bench.record().phase is Phase.DECLARED
    bench.mend_store()
    await bench.move(2)
    assert (bench.record().phase, bench.record().key) == (Phase.REQUESTED, bench.provider.resources[0].key)


@on_bench
async def test_a_create_whose_intent_cannot_be_written_does_not_leave_and_is_cancelled(bench: Bench) -> None:
    planned = await bench.plan()
    bench.break_store()
    (await bench.executor()).start(planned, bench.model)
    await bench.move(4)
    bench.mend_store()
    await bench.move(2)
    assert bench.provider.calls["create"] == 0
    assert bench.record().phase is Phase.CANCELLED


@on_bench
async def test_a_create_whose_intent_was_written_unseen_does_not_leave_and_is_cancelled(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned, write = await bench.plan(), bench.store.write

    async def lost(work: Callable[..., object], **options: object) -> None:
        monkeypatch.undo()
        await write(work)
        raise StoreUnwritable("scripted: no commit was seen")

    monkeypatch.setattr(Store, "write", lambda store, work, **options: lost(work))
    (await bench.executor()).start(planned, bench.model)
    await bench.move(3)
    (create,) = bench.store.book.creates.values()
    assert (create.answer, bench.provider.calls["create"]) == (CreateAnswer.NOT_SENT, 0)
    assert bench.record().phase is Phase.CANCELLED


@on_bench
async def test_a_create_whose_lease_is_lost_does_not_leave(bench: Bench) -> None:
    planned = await bench.plan()
    await bench.move(300.001)
    (await bench.executor()).start(planned, bench.model)
    await bench.settle()
    assert bench.provider.calls["create"] == 0
    assert bench.record().phase is Phase.CANCELLED


@on_bench
async def test_once_shut_nothing_is_begun_and_what_is_in_flight_goes_on(bench: Bench) -> None:
    duty = await bench.require_stop(await bench.start())
    executor = await bench.executor()
    bench.provider.on_create = lambda order: executor.shut()
    bench.provider.script.creates.append(Made.NO_CAPACITY)
    executor.start(await bench.plan("qwen-2", slot=1), bench.model)
    await bench.settle()
    executor.start(await bench.plan("qwen-3", slot=2), bench.model)
    executor.stop(duty)
    await bench.settle()
    assert (bench.provider.calls["create"], bench.provider.calls["stop"]) == (2, 0)  # the first is the set-up's
    assert bench.record("qwen-2").phase is Phase.CANCELLED


@on_bench
async def test_a_create_that_was_asked_for_and_not_marked_before_the_end_does_not_leave(bench: Bench) -> None:
    executor = await bench.executor()
    executor.start(await bench.plan(), bench.model)
    executor.shut()
    await bench.settle()
    assert bench.provider.calls["create"] == 0


# Stops


async def owed(bench: Bench) -> Obligation:
    return await bench.require_stop(await bench.serve())


@on_bench
async def test_a_stop_is_on_record_before_it_leaves_and_its_answer_after(bench: Bench) -> None:
    port, duty, in_flight = Port(bench), await owed(bench), []
    port.before_stop = lambda key: in_flight.append(bench.duty().stop_in_flight)
    (await bench.executor(writing=port)).stop(duty)
    await bench.settle()
    after = bench.duty()
    assert in_flight == [True]
    assert (after.stop_attempts, after.stop_answer, after.open) == (1, StopAnswer.ACCEPTED, True)


@pytest.mark.parametrize(
    ("fate", "answer"),
    [
        (Ended.REFUSED, StopAnswer.REFUSED),
        (Ended.LOST_BUT_DONE, StopAnswer.UNKNOWN),
        (Ended.LOST_NOT_DONE, StopAnswer.UNKNOWN),
    ],
)
@on_bench
async def test_another_answer_to_a_stop_keeps_it_owed(bench: Bench, fate: Ended, answer: StopAnswer) -> None:
    bench.provider.script.stops.append(fate)
    (await bench.executor()).stop(await owed(bench))
    await bench.settle()
    assert (bench.duty().stop_answer, bench.duty().due) == (answer, True)


@pytest.mark.parametrize(("asked_s", "waits_s"), [(120, 120), (4000, 300)])
@on_bench
async def test_a_stop_waits_as_long_as_asked_and_never_longer_than_its_limit(
    bench: Bench, asked_s: float, waits_s: float
) -> None:
    class Limited(Port):
        async def stop(self, key: ResourceKey) -> StopOutcome:
            return StopRefused(detail="scripted", retry_after=timedelta(seconds=asked_s))

    (await bench.executor(writing=Limited(bench))).stop(await owed(bench))
    await bench.settle()
    assert bench.duty().stop_not_before == bench.clock.now() + timedelta(seconds=waits_s)


@on_bench
async def test_one_stop_is_in_flight_at_a_time(bench: Bench) -> None:
    port, duty = Port(bench), await owed(bench)
    port.hangs = True
    executor = await bench.executor(writing=port)
    for _ in range(3):
        executor.stop(duty)
        await bench.settle()
    assert len(port.stopped_s) == 1


@pytest.mark.parametrize(("age_s", "sent"), [(300, 1), (300.001, 0)])
@pytest.mark.parametrize("unwritable", [False, True])
@on_bench
async def test_no_stop_leaves_under_a_lease_that_expired(
    bench: Bench, age_s: float, sent: int, unwritable: bool
) -> None:
    duty = await owed(bench)
    await bench.move(age_s)
    if unwritable:
        bench.lock_store()
    (await bench.executor()).stop(duty)
    await bench.settle()
    assert bench.provider.calls["stop"] == sent


@pytest.mark.parametrize("unwritable", [False, True])
@on_bench
async def test_no_stop_leaves_under_an_older_epoch(bench: Bench, unwritable: bool) -> None:
    duty = await owed(bench)
    lease = bench.store.book.leases[bench.record().id]
    await bench.store.write(lambda tx: tx.put_lease(replace(lease, epoch=tx.next_epoch())))
    if unwritable:
        bench.lock_store()
    (await bench.executor()).stop(duty)
    await bench.settle()
    assert bench.provider.calls["stop"] == 0


@pytest.mark.parametrize("unwritable", [False, True])
@on_bench
async def test_no_stop_leaves_for_what_another_owner_took(bench: Bench, unwritable: bool) -> None:
    duty = await bench.require_stop(await bench.serve(), StopReason.OWNERSHIP_LOST)
    if unwritable:
        bench.lock_store()
    (await bench.executor()).stop(duty)
    await bench.settle()
    assert (bench.provider.calls["stop"], bench.duty().open) == (0, True)


@on_bench
async def test_a_due_stop_leaves_though_the_store_cannot_be_written_and_is_told_late(bench: Bench) -> None:
    port, duty = Port(bench), await owed(bench)
    await bench.move(295)
    bench.break_store()
    (await bench.executor(writing=port)).stop(duty)
    await bench.move(8)  # beyond the end of the lease
    assert port.stopped_s == [295]
    assert await bench.events("stop.submitted") == []
    bench.mend_store()
    await bench.move(2)
    (told,) = await bench.events("stop.submitted")
    assert told["detail"] == {"attempt": 1, "late": True}
    assert bench.duty().stop_answer is StopAnswer.ACCEPTED
    assert bench.duty().stop_submitted_at == bench.clock.now() - timedelta(seconds=10)


@on_bench
async def test_a_stop_that_is_cut_off_by_our_end_is_recorded_as_unknown(bench: Bench) -> None:
    port, duty = Port(bench), await owed(bench)
    port.hangs = True
    async with anyio.create_task_group() as group:
        bench.group = group
        (await bench.executor(writing=port)).stop(duty)
        await bench.move(1)
        group.cancel_scope.cancel()
    assert bench.duty().stop_answer is StopAnswer.UNKNOWN


@on_bench
async def test_an_error_in_the_port_takes_no_other_stop_along(bench: Bench) -> None:
    port: Port = Port(bench)
    executor = await bench.executor(writing=port)
    one, other = await owed(bench), await bench.require_stop(await bench.serve("qwen-2", slot=1))
    port.before_stop = lambda key: broken() if key == one.key else None
    executor.stop(one)
    executor.stop(other)
    await bench.settle()
    assert bench.duty(bench.record()).stop_answer is StopAnswer.UNKNOWN
    assert bench.duty(bench.record("qwen-2")).stop_answer is StopAnswer.ACCEPTED


@on_bench
async def test_a_duty_without_a_key_has_nothing_to_stop(bench: Bench) -> None:
    duty = await bench.require_stop(await bench.lose())
    (await bench.executor()).stop(duty)
    await bench.settle()
    assert (bench.provider.calls["stop"], bench.duty().stop_attempts) == (0, 0)


def test_the_port_of_these_tests_is_one() -> None:
    port: type[Writing] = Port
    assert port.idempotent is False
