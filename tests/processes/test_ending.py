"""Does SIGTERM end the daemon in bounded time, whatever hangs, without losing or making anything?"""

import signal

import anyio
import pytest

from tests.processes.box import Box, box
from tests.processes.test_restarts import Stream

pytestmark = pytest.mark.process

STREAMS = 10
SECOND_MODEL = """
[models.m2]
model = "org/m2"
image = "vllm/vllm-openai:v0.31.0"
gpus = ["NVIDIA L40S"]
context = 4096
startup_deadline = "60s"
[models.m3]
model = "org/m3"
image = "vllm/vllm-openai:v0.31.0"
gpus = ["NVIDIA L40S"]
context = 4096
startup_deadline = "60s"
"""


async def test_with_streams_a_start_and_a_stop_in_flight_at_a_hung_provider() -> None:
    async with box(token_rate=4) as world:
        world.configure(policy="max_active = 4", model=SECOND_MODEL)
        for name in ("m2", "m3"):
            (world.folder / "keys" / name).write_text("open-sesame")
            (world.folder / "keys" / name).chmod(0o600)
        await world.order({"secrets": {f"vllm_{name}": "open-sesame" for name in ("m1", "m2", "m3")}})
        daemon = await world.run_daemon()
        await world.run_gateway()
        await world.serving()
        await world.daemon.post("/v1/models/m3/start")
        await world.eventually(lambda: _ready(world, 2), within=15, what="two machines")
        streams = [Stream() for _ in range(STREAMS)]
        async with anyio.create_task_group() as group:
            for stream in streams:
                group.start_soon(stream.take, world)
            await world.eventually(lambda: _all_begun(streams), within=15, what="every stream's begin")
            await world.fault({"hang": 120}, path="/v2/*")
            await world.daemon.post("/v1/models/m2/start")
            await world.daemon.post("/v1/models/m3/stop", {"now": True})
            await world.eventually(lambda: _in_flight(world), within=10, what="a create and a delete in flight")
            daemon.signal(signal.SIGTERM)
            asked = anyio.current_time()
            assert await daemon.ended(within=20) == 0
            assert anyio.current_time() - asked < 20
            assert len(await world.creates()) == 3
            assert not any(stream.ended for stream in streams)
            assert {row[0] for row in world.rows("SELECT model FROM obligations WHERE ended_at_ms IS NULL")} == {
                "m1",
                "m2",
                "m3",
            }
            assert (await world.cli("owed", "--json")).json["source"] == "store"
            group.cancel_scope.cancel()
        assert len(await world.alive()) == 2
        assert world.rows("SELECT answer FROM creates WHERE offer IS NOT NULL ORDER BY submitting_at_ms")[-1] == (
            "unknown",
        )


async def _ready(world: Box, number: int) -> bool:
    return [model["phase"] for model in (await world.status())["models"]].count("ready") == number


async def _all_begun(streams: list[Stream]) -> bool:
    return all([await stream.begun() for stream in streams])


async def _in_flight(world: Box) -> bool:
    calls = (await world.truth())["calls"]
    waiting = {call["method"] for call in calls if call["status"] is None}
    return {"POST", "DELETE"} <= waiting


async def test_a_second_signal_ends_it_at_once() -> None:
    async with box() as world:
        daemon = await world.run_daemon()
        await world.fault({"hang": 120}, path="/v2/*")
        await world.start_model()
        with world.write_lock():
            # Nothing can be committed, so that the first signal takes its time.
            daemon.signal(signal.SIGTERM)
            await world.eventually(lambda: _ends(daemon.text()), within=5, what="word of the first signal")
            daemon.signal(signal.SIGTERM)
            assert await daemon.ended(within=2) == 1


async def test_it_ends_in_time_though_the_store_cannot_be_written_and_keeps_what_is_owed() -> None:
    async with box() as world:
        daemon = await world.run_daemon()
        await world.fault({"hang": 120}, method="POST", path="/v2/pods")
        await world.start_model()
        await world.marked()
        await world.fault({"hang": 120}, path="/v2/*")
        with world.write_lock():
            daemon.signal(signal.SIGTERM)
            assert await daemon.ended(within=20) == 0
        assert len(world.open_duties()) == 1
        await world.clear_faults()
        await world.run_daemon()
        assert (await world.model())["phase"] == "uncertain"


async def _ends(words: str) -> bool:
    return '"event": "stopping"' in words


async def test_it_keeps_its_machine_and_the_next_one_adopts_it() -> None:
    async with box() as world:
        daemon = await world.run_daemon()
        before = await world.serving()
        daemon.signal(signal.SIGTERM)
        assert await daemon.ended(within=20) == 0
        assert not (world.state / "api.sock").exists()
        await world.run_daemon()
        await world.phase("ready")
        (after,) = await world.deployments()
        assert (after["id"], after["phase"]) == (before["id"], "active")
        assert after["epoch"] > before["epoch"]
        assert len(await world.alive()) == 1 and await world.calls("DELETE") == []
        await world.require_whole_evidence()
