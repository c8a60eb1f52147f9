"""When does a bad config refuse the start, and when is there still something to stop?"""

from pathlib import Path

import pytest

from controller.daemon.modes import decide
from controller.settings import ConfigProblems, load
from tests.daemon.world import built, owe, write_config


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
