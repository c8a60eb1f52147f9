"""When does a start go on with the former config, and on what does it go on then?"""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from controller.core.removal import CONFIG_REFUSED
from controller.daemon.built import Daemon
from controller.daemon.modes import Decided, decide
from controller.settings import load
from controller.store import confirming
from tests.daemon.world import CONFIG, built, owe, write_config

HEAD, _, QWEN = CONFIG.partition("[models.qwen]")
OTHER = "[models.other]" + QWEN.format(extra="")


async def running(folder: Path, *, extra: str = "", due: bool = False) -> Path:
    """A config whose daemon ran, and left what may be a machine."""
    config = write_config(folder, extra=extra)
    async with built(load(config, {})) as daemon:
        await owe(daemon, due=due)
    return config


def rewrite(config: Path, models: str = "", first: str = "") -> Path:
    """The same file with other models; `first` is what stands above."""
    config.write_text(f"{first}\n{HEAD.format(state=config.parent / 'state')}{models}")
    return config


@asynccontextmanager
async def started(config: Path) -> AsyncIterator[Daemon]:
    decided = decide(config, {})
    async with built(decided.settings, mode=decided.mode) as daemon:
        yield daemon


async def confirm(daemon: Daemon, config: Path) -> None:
    """An operator's word for what the file holds now."""
    found = load(config, {})
    await daemon.store.write(lambda tx: confirming.confirm(tx, digest=found.digest(), configured=found.models))


def told(decided: Decided) -> tuple[str, list[str]]:
    return decided.mode.name, list(decided.settings.models)


def alarms(daemon: Daemon) -> list[str]:
    return [name for name, _ in daemon.store.book.alarms]


@pytest.mark.parametrize("models", ["", OTHER])
async def test_a_config_without_anything_that_runs_is_not_taken(tmp_path: Path, models: str) -> None:
    config = rewrite(await running(tmp_path), models, "usd_per_day = 7")
    decided = decide(config, {})
    assert told(decided) == ("former-config", ["qwen"])
    assert decided.settings.written.usd_per_day == 40
    words = decided.mode.refused or ""
    assert f"{config} is not taken: it would stop all that runs (qwen: 1 machine at an unknown price)" in words
    assert "`gpuwarden config check --confirm`" in words


async def test_one_that_keeps_what_runs_is_an_edit_and_one_with_nothing_to_stop_is_taken(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    async with built(load(config, {})):
        pass
    assert told(decide(rewrite(config), {})) == ("normal", [])
    config = write_config(tmp_path)
    async with started(config) as daemon:
        await owe(daemon, due=False)
    with config.open("a") as more:
        more.write(OTHER)
    assert told(decide(config, {})) == ("normal", ["qwen", "other"])


async def test_what_is_to_be_stopped_anyway_keeps_no_config_out(tmp_path: Path) -> None:
    config = rewrite(await running(tmp_path, due=True))
    assert told(decide(config, {})) == ("normal", [])


async def test_nothing_new_is_started_on_it_and_the_alarm_says_why(tmp_path: Path) -> None:
    config = rewrite(await running(tmp_path))
    async with started(config) as daemon:
        assert daemon.mode.barred is not None
        assert not daemon.mode.stop_only
        assert daemon.models.keys() == {"qwen"}
        assert alarms(daemon) == [CONFIG_REFUSED]
        assert daemon.store.book.alarms[CONFIG_REFUSED, daemon.policy.account].detail == daemon.mode.refused
        seq = daemon.store.book.seq_latest
    async with started(config) as daemon:
        assert daemon.store.book.seq_latest == seq + 1  # that it began, and no second alarm


async def test_another_file_that_is_not_taken_is_told_anew(tmp_path: Path) -> None:
    config = rewrite(await running(tmp_path))
    async with started(config):
        pass
    elsewhere = config.rename(tmp_path / "elsewhere.toml")
    async with started(elsewhere) as daemon:
        assert "elsewhere.toml is not taken" in daemon.store.book.alarms[CONFIG_REFUSED, daemon.policy.account].detail


async def test_the_former_config_survives_any_number_of_starts_on_it(tmp_path: Path) -> None:
    config = rewrite(await running(tmp_path))
    for _ in range(3):
        async with started(config) as daemon:
            assert daemon.models.keys() == {"qwen"}
            assert len(daemon.store.book.live()) == 1


async def test_it_is_taken_once_it_was_confirmed_and_no_other_one_is(tmp_path: Path) -> None:
    config = rewrite(await running(tmp_path))
    async with started(config) as daemon:
        await confirm(daemon, config)
    assert told(decide(rewrite(config, first="usd_per_day = 7"), {})) == ("former-config", ["qwen"])
    async with started(rewrite(config)) as daemon:
        assert (daemon.mode.name, alarms(daemon), daemon.store.book.confirmed) == ("normal", [], None)


async def test_a_config_that_was_taken_stays_taken_until_what_it_stops_is_stopped(tmp_path: Path) -> None:
    """It died before it wrote down what is to be stopped; the word was for one start, and that one took it."""
    config = rewrite(await running(tmp_path))
    async with started(config) as daemon:
        await confirm(daemon, config)
    async with started(config) as daemon:
        assert len(daemon.store.book.live()) == 1
    assert told(decide(config, {})) == ("normal", [])


async def test_a_word_is_spent_by_the_config_that_is_taken_instead(tmp_path: Path) -> None:
    config = rewrite(await running(tmp_path))
    async with started(config) as daemon:
        await confirm(daemon, config)
    async with started(write_config(tmp_path)) as daemon:
        assert alarms(daemon) == []
    assert told(decide(rewrite(config), {})) == ("former-config", ["qwen"])


async def test_a_word_outlives_a_start_that_took_no_config(tmp_path: Path) -> None:
    config = rewrite(await running(tmp_path))
    async with started(config) as daemon:
        await confirm(daemon, config)
    async with started(rewrite(config, "nonsense = 1")) as daemon:
        assert daemon.mode.stop_only
    assert told(decide(rewrite(config), {})) == ("normal", [])


@pytest.mark.parametrize("accepted", [None, "{", '{"file": "x", "config": {"nonsense": 1}}'])
async def test_without_a_former_config_it_only_stops_and_leaves_alone_what_runs(
    tmp_path: Path, accepted: str | None
) -> None:
    config = rewrite(await running(tmp_path))
    with closing(sqlite3.connect(tmp_path / "state" / "gpuwarden.db")) as connection, connection:
        connection.execute("UPDATE meta SET accepted_config = ?", (accepted,))
    decided = decide(config, {})
    assert (decided.mode.stop_only, decided.mode.config_readable) == (True, False)
    assert "it would stop all that runs" in decided.mode.problems[0]
    async with built(decided.settings, mode=decided.mode) as daemon:
        assert alarms(daemon) == ["stop-only"]


async def test_a_key_of_the_former_config_that_is_gone_is_as_if_it_was_gone_too(tmp_path: Path) -> None:
    config = rewrite(await running(tmp_path, extra='probe_key_file = "keys/qwen"'))
    (tmp_path / "keys" / "qwen").unlink()
    decided = decide(config, {})
    assert (decided.mode.stop_only, decided.mode.config_readable) == (True, False)


async def test_the_former_config_is_used_on_the_store_in_which_it_was_found(tmp_path: Path) -> None:
    """Its own file lay elsewhere, and state lies beside a file that names no folder."""
    (tmp_path / "old").mkdir()
    config = write_config(tmp_path / "old")
    config.write_text(config.read_text().replace(f'state_dir = "{tmp_path / "old" / "state"}"', ""))
    async with started(config) as daemon:
        await owe(daemon, due=False)
    (tmp_path / "new").mkdir()
    moved = rewrite(write_config(tmp_path / "new"))
    moved.write_text('name = "acme"\n')
    (tmp_path / "old" / "state").rename(tmp_path / "new" / "state")
    decided = decide(moved, {})
    assert told(decided) == ("former-config", ["qwen"])
    assert decided.settings.places.store == tmp_path / "new" / "state" / "gpuwarden.db"
