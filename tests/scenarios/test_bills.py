"""Is what the provider goes on billing after it is gone noticed, and is nobody asked about the rest?"""

from controller.core.evidence import StopReason
from tests.scenarios.world import Box, World, scenario

HOUR = 3600
BILLS = {"method": "GET", "path": "/v2/billing/pods"}


def bills(world: World) -> list[float]:
    return [call["s"] for call in world.calls("GET") if call["path"].endswith("/billing/pods")]


async def ended(world: World, box: Box) -> float:
    """Served, idled out and proven gone; returns the second of the proof."""
    assert (await box.chat(world)).status == 200
    await world.until(lambda: bool(world.deletes()), within=400)
    return await world.until(lambda: not box.daemon.store.book.owed(), within=120)


def test_pod_that_bills_on_after_its_stop_is_owed_again_until_its_bill_is_quiet() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box(crash=True) as box:
            gone_at = await ended(world, box)
            await world.until(lambda: bool(box.daemon.store.book.owed()), within=3 * HOUR)
            assert world.now_s >= gone_at + HOUR / 2
            (duty,) = box.daemon.store.book.owed()
            assert duty.reason is StopReason.BILLED_AFTER_STOP
            await world.until(lambda: len(world.deletes()) == 2, within=10)
            assert (await box.chat(world)).status == 200  # it blocks nobody
        async with world.box() as box:
            await world.at(world.now_s + 2 * HOUR)
            assert duty.id in {owed.id for owed in box.daemon.store.book.owed()}
            alarms = {name for name, _ in box.daemon.store.book.alarms}
            assert alarms == {"stop-unproven"}
            world.emulator.change_settings({"delete_stops_billing": True})
            await world.until(lambda: not box.daemon.store.book.owed(), within=12 * HOUR)
            (line,) = [line for line in world.events("obligation.discharged") if line["obligation"] == duty.id]
            assert line["evidence"]["kind"] == "billing-quiet"
            await world.at(world.now_s + 12 * HOUR)
            assert box.daemon.store.book.owed() == ()

    scenario(play, delete_stops_billing=False)


def test_what_is_gone_is_asked_about_a_few_times_and_then_nobody_is_asked() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            await world.at(HOUR - 1)
            assert bills(world) == []
            gone_at = await ended(world, box)
            await world.at(gone_at + 60 * HOUR)
            asked = bills(world)
            assert 5 <= len(asked) <= 20
            assert asked[0] >= gone_at + HOUR
            assert asked[-1] <= gone_at + 49 * HOUR
            assert box.daemon.store.book.owed() == ()
            (duty,) = (await box.operators.get("/v1/obligations?all=1"))["obligations"]
        (line,) = world.events("obligation.corroborated")
        assert (line["evidence"]["kind"], duty["corroborated"]) == ("billing-quiet", True)
        assert duty["evidence"]["kind"] == "inventory-complete-absent"  # which ended it, long before

    scenario(play)


def test_a_key_that_may_not_read_bills_is_told_once() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        world.emulator.add_faults([{"match": BILLS, "do": {"answer": 403}}])
        async with world.box() as box:
            gone_at = await ended(world, box)
            await world.at(gone_at + 20 * HOUR)
            told = [line["detail"]["alarm"] for line in world.events("alarm.raised")]
            assert (told, box.daemon.store.book.owed()) == (["billing-denied"], ())

    scenario(play)


def test_what_lives_is_looked_up_on_the_bill_each_hour_and_told_beside_the_estimate() -> None:
    async def play(world: World) -> None:
        world.configure("m1", extra='keep_warm = ["00:00-24:00"]')
        async with world.box() as box:
            await world.until(lambda: len(world.alive()) == 1, within=60)
            early = (await box.operators.get("/v1/models"))["models"][0]["money"]
            await world.at(world.now_s + 5 * HOUR)
            late = (await box.operators.get("/v1/models"))["models"][0]["money"]
            today = await box.operators.get("/v1/spend")
        assert early["billed_usd"] is None
        assert 0 < float(late["billed_usd"]) <= 1.05 * float(late["estimated_usd"])
        assert float(late["billed_usd"]) >= 0.5 * float(late["estimated_usd"])
        assert (today["billed_usd"], today["billed_until"]) == (late["billed_usd"], late["billed_until"])
        assert 3 <= len(bills(world)) <= 5

    scenario(play)
