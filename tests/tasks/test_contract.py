"""Does nothing but evidence end a duty, and is nothing stopped that another owner's label is on?

HC-18: one negative test for each way that is none. HC-22: its two sequences, played by the tasks themselves.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

import pytest

from controller.core.deployment import Record
from controller.core.errors import Refusal, RefusalCode
from controller.core.evidence import StopReason
from controller.core.identity import Tags
from controller.core.lease import Ask, acquire, release
from controller.core.lifecycle import Phase
from controller.core.policy import LeaseExpiry
from controller.providers.fake.adapter import Ended, Looked
from controller.store import duties
from controller.store.elapsed import Ceilings
from controller.store.transaction import Tx
from controller.tasks.obligation_settler import ObligationSettler
from tests.tasks.world import Bench, on_bench

# HC-18


async def disconnect(bench: Bench, record: Record) -> None:
    bench.use(record)
    await bench.move(600)  # the gateway is gone, and its lease with it


async def lease_expiry(bench: Bench, record: Record) -> None:
    await bench.move(bench.policy.lease.total_seconds() + 1)


async def lease_release(bench: Bench, record: Record) -> None:
    lease = bench.store.book.leases[record.id]
    await bench.store.write(lambda tx: tx.put_lease(release(lease)))


async def restart(bench: Bench, record: Record) -> None:
    await bench.restart()


async def partial_listings(bench: Bench, record: Record) -> None:
    assert record.key is not None
    bench.provider.vanish(record.key)
    bench.provider.script.listings += [Looked.PARTIAL] * 100


def stop_that(fate: Ended) -> Callable[[Bench, Record], Awaitable[None]]:
    async def stop(bench: Bench, record: Record) -> None:
        bench.provider.script.stops.append(fate)
        (await bench.executor()).stop(await bench.require_stop(record))
        await bench.settle()
        assert bench.provider.calls["stop"] == 1
        bench.provider.script.stops += [fate] * 100

    return stop


NO_ROUTES = {
    "a gateway that went away": disconnect,
    "a lease that ran out": lease_expiry,
    "a lease that was given back": lease_release,
    "a restart": restart,
    "partial listings": partial_listings,
    "a stop of unknown outcome": stop_that(Ended.LOST_NOT_DONE),
    "a refused stop": stop_that(Ended.REFUSED),
    "an accepted stop without effect": stop_that(Ended.IGNORED),
}


@pytest.mark.parametrize("way", NO_ROUTES)
@on_bench
async def test_what_is_no_evidence_ends_no_duty(bench: Bench, way: str) -> None:
    record = await bench.serve()
    await NO_ROUTES[way](bench, record)
    task = ObligationSettler(
        store=bench.store,
        view=bench.view,
        stream_leases=bench.leases,
        executor=await bench.executor(),
        policy=bench.policy,
    )
    for _ in range(6):
        await bench.renew()
        await bench.look()
        await task.run_pass()
        await bench.settle()
        await bench.move(60)
    assert (bench.duty(record).open, bench.record(record.id).phase in {Phase.ACTIVE, Phase.STOP_REQUIRED}) == (
        True,
        True,
    )


# HC-22


async def label(bench: Bench, record: Record, tags: Tags) -> None:
    """What the provider shows of it from now on; the reconciler looks."""
    assert record.key is not None
    bench.provider.put(bench.provider.described(record.key, tags=tags))
    await bench.look()
    await bench.reconciler(await bench.executor()).run_pass()


async def require_no_stop(bench: Bench) -> None:
    """The contract refuses it as another's, no call is made, and the duty stays visible."""
    duty = bench.duty()
    with pytest.raises(Refusal) as refusal:
        await bench.store.write(lambda tx: duties.mark_stop(tx, duty.id, holder=bench.holder))
    (await bench.executor()).stop(duty)
    await bench.settle()
    assert (refusal.value.code, bench.provider.calls["stop"]) == (RefusalCode.FOREIGN_RESOURCE, 0)
    assert (bench.duty().due, bench.record().reason) == (True, StopReason.OWNERSHIP_LOST)


@on_bench
async def test_a_stop_that_was_asked_for_does_not_leave_once_another_owner_s_label_is_seen(bench: Bench) -> None:
    record = await bench.serve()
    await bench.require_stop(record)
    await label(bench, record, Tags(owner="stranger"))
    await require_no_stop(bench)


@on_bench
async def test_after_a_lapsed_lease_nothing_leaves_for_what_another_one_took(bench: Bench) -> None:
    record = await bench.serve()
    strict = replace(bench.policy, lease_expiry=LeaseExpiry.STOP)
    bench.store.ceilings = Ceilings(policy=strict)
    await bench.move(bench.policy.lease.total_seconds() + 0.001)
    await bench.store.write(lambda tx: None)
    assert bench.record().reason is StopReason.LEASE_EXPIRED
    await bench.renew()
    await label(bench, record, Tags(owner="stranger", epoch=record.epoch))
    await require_no_stop(bench)


@on_bench
async def test_a_label_that_is_gone_lets_the_stop_leave_again(bench: Bench) -> None:
    """HC-21: one odd answer of the provider must not keep a machine of ours for ever."""
    record = await bench.serve()
    await bench.require_stop(record)
    await label(bench, record, Tags(owner="stranger"))
    await label(bench, record, bench.tags())
    assert (bench.record().reason, bench.duty().reason) == (StopReason.AMBIGUOUS_MUTATION,) * 2
    (await bench.executor()).stop(bench.duty())
    await bench.settle()
    assert bench.provider.calls["stop"] == 1


# HC-26


@on_bench
async def test_of_eight_that_ask_at_once_for_one_lease_one_gets_it(bench: Bench) -> None:
    record = await bench.serve()
    await bench.move(bench.policy.lease.total_seconds() + 1)
    granted: list[int] = []
    refused: list[RefusalCode] = []

    def take(tx: Tx, holder: str) -> int:
        asked = Ask(deployment=record.id, holder=holder, now=tx.now, span=bench.policy.lease)
        lease = acquire(tx.book.leases[record.id], ask=asked, epoch_latest=tx.next_epoch() - 1)
        tx.put_lease(lease)
        return lease.epoch

    async def ask(holder: str) -> None:
        try:
            granted.append(await bench.store.write(partial(take, holder=holder)))
        except Refusal as refusal:
            refused.append(refusal.code)

    for number in range(8):
        bench.group.start_soon(ask, f"d{number}")
    await bench.settle()
    assert (len(granted), refused) == (1, [RefusalCode.LEASE_HELD] * 7)
    assert granted[0] > record.epoch
