"""Is every call on record before it leaves, and its answer whatever happens?"""

from dataclasses import replace
from datetime import timedelta

import anyio
import pytest

from controller.core.deployment import CreateAnswer
from controller.core.evidence import StopReason
from controller.core.lifecycle import Phase
from controller.core.obligation import Ending
from controller.providers.fake.adapter import Made
from controller.providers.writing import (
    CreateAccepted,
    CreateOutcome,
    CreateRejected,
    CreateUnknown,
    Order,
    RejectedFor,
)
from controller.store import deployments
from controller.store.errors import Stale
from controller.store.transaction import Tx
from controller.tasks.executor import Executor, Means, _record_create
from tests.tasks.world import Bench, on_bench
from tests.tasks.writing import Port, broken

# Creates


@on_bench
async def test_a_create_and_its_obligation_are_committed_before_it_leaves(bench: Bench) -> None:
    port, planned = Port(bench), await bench.submit()
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
    planned = await bench.submit()
    (await bench.executor()).start(planned, bench.model)
    await bench.settle()
    (made,) = bench.provider.resources
    assert made.tags == bench.tags(planned.create.request, epoch=planned.record.epoch)


@on_bench
async def test_offers_are_asked_for_in_order_and_each_has_a_duty_of_its_own(bench: Bench) -> None:
    port = Port(bench)
    bench.provider.script.creates.append(Made.NO_CAPACITY)
    (await bench.executor(writing=port)).start(await bench.submit(), bench.model)
    await bench.settle()
    assert port.created == ["L40S", "A40"]
    endings = [duty.ending for duty in bench.store.book.obligations.values()]
    assert endings == [Ending.VOID, None]


@on_bench
async def test_an_offer_that_is_to_be_skipped_is_not_asked_for(bench: Bench) -> None:
    bench.model, port = replace(bench.model, offers=("L40S", "A40", "B200")), Port(bench)
    bench.provider.script.creates.append(Made.NO_CAPACITY)
    executor = await bench.executor(writing=port)
    executor.start(await bench.submit(), bench.model, skip=lambda offer: offer == "A40")
    await bench.settle()
    assert port.created == ["L40S", "B200"]


@on_bench
async def test_with_nothing_left_but_what_is_to_be_skipped_the_round_ends(bench: Bench) -> None:
    port = Port(bench)
    bench.provider.script.creates.append(Made.NO_CAPACITY)
    (await bench.executor(writing=port)).start(await bench.submit(), bench.model, skip=lambda offer: True)
    await bench.settle()
    assert (port.created, bench.record().phase, bench.store.book.memory("qwen").rounds) == (
        ["L40S"],
        Phase.CANCELLED,
        1,
    )


@on_bench
async def test_the_next_offer_is_asked_for_only_after_the_former_duty_is_void(bench: Bench) -> None:
    port, open_duties = Port(bench), []
    bench.provider.script.creates.append(Made.NO_CAPACITY)
    port.before_create = lambda order: open_duties.append(
        [duty.request == order.tags.request for duty in bench.store.book.obligations.values() if duty.open]
    )
    (await bench.executor(writing=port)).start(await bench.submit(), bench.model)
    await bench.settle()
    assert open_duties == [[True], [True]]


@on_bench
async def test_a_round_in_which_all_is_refused_ends_cancelled_and_waits(bench: Bench) -> None:
    bench.provider.script.creates += [Made.NO_CAPACITY, Made.NO_CAPACITY]
    (await bench.executor()).start(await bench.submit(), bench.model)
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
    (await bench.executor(writing=port)).start(await bench.submit(), bench.model)
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
    (await bench.executor(writing=port)).start(await bench.submit(), bench.model)
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

    (await bench.executor(writing=Limited(bench))).start(await bench.submit(), bench.model)
    await bench.settle()
    assert bench.store.book.memory("qwen").next_round_at == bench.clock.now() + timedelta(seconds=waits_s)


@on_bench
async def test_what_was_not_ordered_is_owed_a_stop_at_once(bench: Bench) -> None:
    class Other(Port):
        async def create(self, order: Order) -> CreateOutcome:
            outcome = await bench.provider.create(order)
            assert isinstance(outcome, CreateAccepted)
            return replace(outcome, mismatch="another type")

    (await bench.executor(writing=Other(bench))).start(await bench.submit(), bench.model)
    await bench.settle()
    assert (bench.record().phase, bench.duty().reason) == (Phase.STOP_REQUIRED, StopReason.WRONG_RESOURCE)


@on_bench
async def test_an_answer_that_describes_a_resource_on_record_is_unknown(bench: Bench) -> None:
    held = await bench.start()

    class Repeating(Port):
        async def create(self, order: Order) -> CreateOutcome:
            return CreateAccepted(resource=replace(bench.provider.resources[0], tags=order.tags))

    planned = await bench.submit("qwen-2", slot=1)
    (await bench.executor(writing=Repeating(bench))).start(planned, bench.model)
    await bench.move(5)
    assert bench.record("qwen-2").phase is Phase.UNCERTAIN
    assert bench.record().key == held.key


@on_bench
async def test_an_unexpected_error_in_the_port_is_contained_and_recorded_as_unknown(bench: Bench) -> None:
    port = Port(bench)
    port.before_create = broken
    executor = await bench.executor(writing=port)
    executor.start(await bench.submit(), bench.model)
    await bench.settle()
    assert bench.record().phase is Phase.UNCERTAIN
    port.before_create = lambda order: None
    executor.start(await bench.submit("qwen-2", slot=1), bench.model)
    await bench.settle()
    assert bench.record("qwen-2").phase is Phase.REQUESTED


@on_bench
async def test_a_create_that_is_cut_off_by_our_end_is_recorded_as_unknown(bench: Bench) -> None:
    port = Port(bench)
    port.hangs = True
    async with anyio.create_task_group() as group:
        bench.group = group
        (await bench.executor(writing=port)).start(await bench.submit(), bench.model)
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
        (await bench.executor(writing=port)).start(await bench.submit(), bench.model)
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
    (await bench.executor(writing=port)).start(await bench.submit(), bench.model)
    await bench.move(8)
    assert bench.record().phase is Phase.DECLARED
    bench.mend_store()
    await bench.move(5)
    assert (bench.record().phase, bench.record().key) == (Phase.REQUESTED, bench.provider.resources[0].key)


@on_bench
async def test_a_create_whose_lease_is_lost_does_not_leave(bench: Bench) -> None:
    planned = await bench.submit()
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
    executor.start(await bench.submit("qwen-2", slot=1), bench.model)
    await bench.settle()
    executor.start(await bench.submit("qwen-3", slot=2), bench.model)
    executor.stop(duty)
    await bench.settle()
    assert (bench.provider.calls["create"], bench.provider.calls["stop"]) == (2, 0)  # the first is the set-up's
    assert [bench.record(name).phase for name in ("qwen-2", "qwen-3")] == [Phase.CANCELLED] * 2


@on_bench
async def test_what_is_asked_for_before_its_group_runs_is_dropped_and_breaks_nothing(bench: Bench) -> None:
    duty, planned = await bench.require_stop(await bench.start()), await bench.submit("qwen-2", slot=1)
    means = Means(
        store=bench.store,
        writing=bench.provider,
        policy=bench.policy,
        holder=bench.holder,
        launches={},
        sighted=lambda key: None,
    )
    executor = Executor(means)
    executor.start(planned, bench.model)
    executor.stop(duty)
    await bench.settle()
    assert (bench.provider.calls["create"], bench.provider.calls["stop"]) == (1, 0)  # the one is the set-up's


@pytest.mark.parametrize("fate", [Made.ACCEPTED, Made.NOT_SENT, Made.NO_FUNDS])
@on_bench
async def test_a_create_that_was_answered_meanwhile_keeps_that_answer(bench: Bench, fate: Made) -> None:
    """A take-over may have settled what is still in flight here."""

    class Late(Port):
        async def create(self, order: Order) -> CreateOutcome:
            request = order.tags.request
            assert request is not None
            create = bench.store.book.creates[request]
            await bench.store.write(lambda tx: deployments.record_unknown(tx, create, detail="settled elsewhere"))
            return await bench.provider.create(order)

    bench.provider.script.creates.append(fate)
    (await bench.executor(writing=Late(bench))).start(await bench.submit(), bench.model)
    await bench.settle()
    (create,) = bench.store.book.creates.values()
    assert (create.answer, create.detail) == (CreateAnswer.UNKNOWN, "settled elsewhere")
    assert bench.duty().open
    assert bench.record().phase is Phase.UNCERTAIN


@on_bench
async def test_a_late_answer_to_a_create_that_was_cancelled_meanwhile_is_stale(bench: Bench) -> None:
    create = (await bench.submit()).create

    def settle(tx: Tx) -> None:
        deployments.cancel(tx, deployments.record_refused(tx, create, CreateAnswer.NOT_SENT, detail="elsewhere"))

    await bench.store.write(settle)
    late = CreateUnknown(detail="late")
    with pytest.raises(Stale):
        await bench.store.write(lambda tx: _record_create(tx, create.request, late, bench.policy))
