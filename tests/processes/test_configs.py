"""What becomes of a daemon whose config cannot be taken?

Nothing owed: 78, and the provider is never called. Something owed: it stops that, makes nothing, and says so. One that
would stop everything is not taken until an operator confirmed it.
"""

import pytest

from controller.api.client import Problem
from tests.processes.box import Box, box

pytestmark = pytest.mark.process


async def test_with_nothing_owed_it_ends_with_78_and_says_where_and_what_and_how_before_any_call() -> None:
    async with box() as world:
        world.break_config()
        ran = await world.cli("run")
        line = 1 + world.config.read_text().splitlines().index("usd_per_day = -1")
        assert ran.code == 78
        assert f"{world.config}:{line}: usd_per_day = -1: " in ran.err
        assert "; " in ran.err.partition("usd_per_day = -1: ")[2]  # why; mend
        assert (await world.truth())["calls"] == []


async def test_a_missing_provider_key_is_such_a_config() -> None:
    async with box() as world:
        (world.folder / "keys" / "runpod").unlink()
        ran = await world.cli("run")
        assert ran.code == 78
        assert f"{world.folder}/keys/runpod: the account's key is missing; " in ran.err


async def test_with_something_owed_a_config_that_is_no_toml_still_names_its_folder() -> None:
    async with box() as world:
        world.state = world.folder / "elsewhere"
        world.configure()
        world.migrated()
        daemon = await world.run_daemon()
        await world.serving()
        await daemon.kill()
        world.config.write_text(world.config.read_text() + "\n[models.m2\n")
        await world.run_daemon()
        assert (await world.status())["mode"] == "stop-only"


async def test_with_something_owed_it_stops_that_and_creates_nothing() -> None:
    async with box() as world:
        daemon = await world.run_daemon()
        await world.serving()
        await world.fault({"hang": 60}, method="DELETE", path="/v2/pods/*")
        await world.daemon.post("/v1/models/m1/stop", {"now": True})
        await world.eventually(lambda: _deletes(world), within=10, what="the stop")
        await daemon.kill()
        await world.clear_faults()
        world.break_config()

        await world.run_daemon()
        status = await world.status()
        assert (status["mode"], status["ready"]) == ("stop-only", False)
        assert any("usd_per_day = -1" in problem for problem in status["problems"])
        with pytest.raises(Problem) as refused:
            await world.daemon.get("/readyz")
        assert (refused.value.status, "stop-only" in refused.value.detail) == (503, True)
        await world.all_ended()
        await world.start_model()
        assert ((await world.model())["phase"], len(await world.creates())) == ("off", 1)


async def _deletes(world: Box) -> bool:
    return len(await world.calls("DELETE")) == 1


async def test_a_machine_that_serves_is_kept_by_a_daemon_that_only_stops() -> None:
    async with box() as world:
        daemon = await world.run_daemon()
        await world.serving()
        await daemon.kill()
        world.break_config()
        await world.run_daemon()
        await world.phase("ready")
        assert (await world.status())["mode"] == "stop-only"
        assert len(await world.alive()) == 1


async def test_commands_find_a_daemon_that_only_stops_although_the_config_is_bad_for_them_too() -> None:
    async with box() as world:
        daemon = await world.run_daemon()
        await world.serving()
        await daemon.kill()
        world.break_config()
        await world.run_daemon()
        shown = await world.cli("status")
        assert (shown.code, "stop-only" in shown.out, "usd_per_day = -1" in shown.out) == (0, True, True)
        assert len((await world.cli("owed", "--json")).json["obligations"]) == 1
        assert (await world.cli("stop", "m1", "--now")).code == 0
        assert await world.alive() == []
        assert (await world.cli("status")).code == 78  # nothing is owed any more


def _without_models(world: Box) -> str:
    """Returns the config as it was."""
    full = world.config.read_text()
    world.config.write_text(full.partition("[models.")[0])
    return full


@pytest.mark.parametrize("up", [True, False])
async def test_an_emptied_config_stops_what_runs_only_after_it_was_confirmed_with_the_daemon_up_or_down(
    up: bool,
) -> None:
    async with box() as world:
        daemon = await world.run_daemon()
        await world.serving()
        await daemon.kill()
        _without_models(world)
        daemon = await world.run_daemon()
        assert (await world.status())["mode"] == "former-config"
        shown = await world.cli("status")
        assert (shown.code, "config-refused: " in shown.out, "config check --confirm" in shown.out) == (0, True, True)
        if not up:
            await daemon.kill()
        checked = await world.cli("config", "check")
        assert (checked.code, "would stop all that runs (m1: 1 machine" in checked.err) == (6, True)
        confirmed = await world.cli("config", "check", "--confirm", "--json")
        assert (confirmed.code, confirmed.json["removes"]["confirmed"]) == (0, True)
        assert len(await world.alive()) == 1
        if up:
            await daemon.kill()
        await world.run_daemon()
        await world.all_ended()
        assert ((await world.status())["mode"], (await world.status())["alarms"]) == ("normal", [])
        await world.require_whole_evidence()


async def test_a_config_that_is_filled_again_ends_the_alarm_and_nothing_was_stopped() -> None:
    async with box() as world:
        daemon = await world.run_daemon()
        await world.serving()
        await daemon.kill()
        full = _without_models(world)
        daemon = await world.run_daemon()
        await world.phase("ready")
        await daemon.kill()
        world.config.write_text(full)
        await world.run_daemon()
        await world.phase("ready")
        assert ((await world.status())["alarms"], len(await world.alive())) == ([], 1)
        assert await world.calls("DELETE") == []
