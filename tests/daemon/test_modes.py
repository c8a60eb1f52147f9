"""When does a bad config refuse the start, and when is there still something to stop?"""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from controller.daemon.built import Daemon, Mode, Seams
from controller.daemon.modes import decide, start
from controller.ids import SeededRandomness
from controller.settings import ConfigProblems, load
from controller.store.errors import StoreInUse, StoreNewer
from controller.store.schema import HEAD
from tests.daemon.world import built, owe, write_config
from tests.support.loop_clock import HandClock


async def owing(folder: Path, *, due: bool = True, extra: str = "") -> Path:
    """A config whose daemon ran, and left something owed."""
    config = write_config(folder, extra=extra)
    async with built(load(config, {})) as daemon:
        await owe(daemon, due=due)
    return config


def test_a_good_config_is_a_normal_start(tmp_path: Path) -> None:
    decided = decide(write_config(tmp_path), {})
    assert (decided.mode.stop_only, decided.mode.config_readable, decided.mode.problems) == (False, True, ())


BAD = ["nonsense = 1", "max_usd_per_hour = -1", "]", 'probe_key_file = "keys/missing"']


@pytest.mark.parametrize("extra", BAD)
def test_a_bad_config_with_no_store_refuses_the_start(tmp_path: Path, extra: str) -> None:
    with pytest.raises(ConfigProblems):
        decide(write_config(tmp_path, extra=extra), {})


async def test_a_bad_config_with_nothing_owed_refuses_the_start(tmp_path: Path) -> None:
    async with built(load(write_config(tmp_path), {})):
        pass
    with pytest.raises(ConfigProblems, match="nonsense"):
        decide(write_config(tmp_path, extra="nonsense = 1"), {})


@pytest.mark.parametrize("due", [True, False])
@pytest.mark.parametrize("extra", BAD[:2])
async def test_a_bad_config_while_something_is_owed_starts_stop_only_on_the_accepted_one(
    tmp_path: Path, extra: str, due: bool
) -> None:
    await owing(tmp_path, due=due)
    decided = decide(write_config(tmp_path, extra=extra), {})
    assert (decided.mode.stop_only, decided.mode.config_readable) == (True, False)
    assert extra.split()[0] in "".join(decided.mode.problems)
    assert decided.settings.models["qwen"].max_usd_per_hour is None


async def test_an_unreadable_config_is_looked_for_where_the_environment_says(tmp_path: Path) -> None:
    await owing(tmp_path)
    config = write_config(tmp_path, extra="]")
    assert decide(config, {"GPUWARDEN_STATE_DIR": str(tmp_path / "state")}).mode.stop_only


async def test_without_the_provider_s_key_nothing_can_be_stopped_and_the_start_is_refused(tmp_path: Path) -> None:
    config = await owing(tmp_path)
    (tmp_path / "keys" / "runpod").unlink()
    with pytest.raises(ConfigProblems, match="key"):
        decide(config, {})


async def test_a_probe_key_that_cannot_be_read_does_not_prevent_what_is_owed(tmp_path: Path) -> None:
    probing = 'probe_key_file = "keys/qwen"'
    config = await owing(tmp_path, extra=probing)
    (tmp_path / "keys" / "qwen").unlink()
    decided = decide(config, {})
    async with built(decided.settings, mode=decided.mode) as daemon:
        assert daemon.mode.stop_only
        assert len(daemon.store.book.owed()) == 1


async def test_a_stop_only_start_does_not_accept_the_bad_config(tmp_path: Path) -> None:
    await owing(tmp_path)
    config = write_config(tmp_path, extra="nonsense = 1")
    for _ in range(2):
        decided = decide(config, {})
        async with built(decided.settings, mode=decided.mode) as daemon:
            assert daemon.store.book.owed()


async def test_a_store_that_cannot_be_read_refuses_the_start(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "gpuwarden.db").write_bytes(b"no database at all, whatever its name says")
    with pytest.raises(ConfigProblems):
        decide(write_config(tmp_path, extra="nonsense = 1"), {})


# A store that may not be used


def made_newer(folder: Path) -> Path:
    store = folder / "state" / "gpuwarden.db"
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '0099'")
    return store


async def started(folder: Path) -> Daemon:
    seams = Seams(clock=HandClock(), randomness=SeededRandomness(2))
    return await start(decide(folder / "config.toml", {}), seams)


@pytest.mark.parametrize("due", [True, False])
async def test_beside_a_newer_store_what_it_owes_is_stopped_and_nothing_else(tmp_path: Path, due: bool) -> None:
    await owing(tmp_path, due=due)
    before = made_newer(tmp_path).read_bytes()
    daemon = await started(tmp_path)
    book = daemon.store.book
    await daemon.close()
    assert (daemon.mode.stop_only, len(book.owed()), len(book.obligations)) == (True, int(due), 1)
    assert "schema 0099" in "".join(daemon.mode.problems)
    assert ("stop-only", daemon.policy.account) in book.alarms
    assert (tmp_path / "state" / "gpuwarden.db").read_bytes() == before
    assert daemon.settings.places.evidence.name.startswith("evidence.stop-only-")


async def test_a_newer_store_that_owes_nothing_refuses_the_start(tmp_path: Path) -> None:
    async with built(load(write_config(tmp_path), {})):
        pass
    made_newer(tmp_path)
    with pytest.raises(StoreNewer):
        await started(tmp_path)


async def test_beside_a_damaged_store_it_knows_nothing_and_only_stops(tmp_path: Path) -> None:
    await owing(tmp_path)
    store = tmp_path / "state" / "gpuwarden.db"
    store.write_bytes(b"no database at all, whatever its name says" * 100)
    daemon = await started(tmp_path)
    await daemon.close()
    assert (daemon.mode.stop_only, dict(daemon.store.book.obligations)) == (True, {})
    assert store.read_bytes().startswith(b"no database")


@pytest.mark.parametrize("schema", ["0099", HEAD])
async def test_no_other_daemon_uses_the_store_or_its_copy_meanwhile(tmp_path: Path, schema: str) -> None:
    await owing(tmp_path)
    store = made_newer(tmp_path)
    daemon = await started(tmp_path)
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", (schema,))
    with pytest.raises(StoreInUse):
        await started(tmp_path)
    await daemon.close()


async def test_beside_a_damaged_store_that_seems_to_owe_nothing_it_starts_all_the_same(tmp_path: Path) -> None:
    async with built(load(write_config(tmp_path), {})):
        pass
    with closing(sqlite3.connect(tmp_path / "state" / "gpuwarden.db")) as connection, connection:
        connection.execute("DELETE FROM alembic_version")
    daemon = await started(tmp_path)
    await daemon.close()
    assert daemon.mode.stop_only


async def test_the_alarm_ends_with_a_normal_start(tmp_path: Path) -> None:
    await owing(tmp_path)
    good = load(tmp_path / "config.toml", {})
    for mode, alarms in ((Mode(stop_only=True), ["stop-only"]), (Mode(), [])):
        async with built(good, mode=mode) as daemon:
            assert [name for name, _ in daemon.store.book.alarms] == alarms
