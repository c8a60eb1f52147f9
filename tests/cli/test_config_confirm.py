"""Does `config check --confirm` say what would be stopped, keep the word where it is needed, and end with its code?"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from controller.core.removal import Confirmed
from controller.settings import load
from controller.store.database import FileLock
from controller.store.standing import standing
from tests.cli.conftest import Run
from tests.cli.fake_daemon import FakeDaemon
from tests.daemon.world import built, owe
from tests.test_settings import SHORT

EMPTIED = SHORT.partition("[models.qwen]")[0]
MACHINES = [
    {"model": "qwen", "phase": "active", "usd_per_hour": "0.79"},
    {"model": "qwen", "phase": "requested", "usd_per_hour": None},
    {"model": "old", "phase": "stop-required", "usd_per_hour": "9"},
    {"model": "older", "phase": "stopped", "usd_per_hour": "9"},
]
REMOVES = {"models": ["qwen"], "machines": 2, "usd_per_hour": "0.79", "unpriced": 1}
WORDS = "qwen: 2 machines, $0.79 an hour and 1 of unknown price"


@pytest.fixture
def emptied(folder: Path) -> Iterator[Path]:
    """The config of a daemon that has a machine, without its model; the keys are there."""
    (folder / "keys").mkdir()
    for name in ("runpod", "qwen"):
        (folder / "keys" / name).write_text("a-key")
        (folder / "keys" / name).chmod(0o600)
    (folder / "config.toml").write_text(EMPTIED)
    yield folder / "config.toml"


def digest(config: Path) -> str:
    return load(config, {}).digest()


@pytest.fixture
def up(emptied: Path, daemon: FakeDaemon) -> FakeDaemon:
    daemon.will("GET /v1/deployments", {"deployments": MACHINES})
    daemon.will("GET /v1/status", {"config": {"refused": None, "confirmed": None}})
    daemon.will("POST /v1/config/confirm", {"confirmed": True, "removes": REMOVES})
    return daemon


@pytest.fixture
def down(emptied: Path) -> Path:
    """A store in which a machine runs, and no daemon."""
    emptied.write_text(SHORT)

    async def leave() -> None:
        async with built(load(emptied, {})) as daemon:
            await owe(daemon, due=False)

    anyio.run(leave)
    emptied.write_text(EMPTIED)
    return emptied.parent / "state" / "gpuwarden.db"


def told(store: Path) -> Confirmed | None:
    found = standing(store)
    assert found is not None
    return found.confirmed


def test_a_check_says_what_would_be_stopped_and_ends_with_6(run: Run, up: FakeDaemon) -> None:
    ended = run("config", "check")
    assert (ended.code, f"would stop all that runs ({WORDS})" in ended.err) == (6, True)
    assert "run `gpuwarden config check --confirm`" in ended.err
    scripted = run("config", "check", "--json")
    assert (scripted.code, json.loads(scripted.out)["removes"]) == (6, REMOVES | {"confirmed": False})
    assert not [call for call, _ in up.asked if call.startswith("POST")]


def test_the_running_daemon_is_told_exactly_which_config_was_confirmed(run: Run, up: FakeDaemon, emptied: Path) -> None:
    ended = run("config", "check", "--confirm")
    assert (ended.code, f"takes this config and stops all that runs ({WORDS})" in ended.err) == (0, True)
    assert ("POST /v1/config/confirm", {"digest": digest(emptied), "models": []}) in up.asked
    scripted = run("config", "check", "--confirm", "--json")
    assert (scripted.code, json.loads(scripted.out)["removes"]) == (0, REMOVES | {"confirmed": True})


def test_what_was_confirmed_before_is_said_to_be_and_another_config_is_not(
    run: Run, up: FakeDaemon, emptied: Path
) -> None:
    kept = {"digest": digest(emptied), "at": "2026-11-29T12:00:00.000Z"}
    up.will("GET /v1/status", {"config": {"refused": None, "confirmed": kept}})
    ended = run("config", "check")
    assert (ended.code, "confirmed: the next start" in ended.err) == (0, True)
    emptied.write_text(EMPTIED.replace("40", "41"))
    assert run("config", "check").code == 6


def test_without_anything_to_stop_nothing_needs_confirming_and_nothing_is_kept(
    run: Run, up: FakeDaemon, emptied: Path
) -> None:
    up.will("GET /v1/deployments", {"deployments": MACHINES[2:]})
    ended = run("config", "check", "--confirm")
    assert (ended.code, "nothing needs confirming" in ended.err) == (0, True)
    emptied.write_text(SHORT)
    up.will("GET /v1/deployments", {"deployments": MACHINES})
    ended = run("config", "check", "--confirm", "--json")
    assert (ended.code, json.loads(ended.out)["removes"]) == (0, None)
    assert not [call for call, _ in up.asked if call.startswith("POST")]


def test_a_config_that_could_not_be_taken_is_not_confirmed(run: Run, up: FakeDaemon, emptied: Path) -> None:
    (emptied.parent / "keys" / "runpod").unlink()
    ended = run("config", "check", "--confirm")
    assert (ended.code, "not confirmed: mend the config first" in ended.err) == (78, True)
    emptied.write_text(EMPTIED + "nonsense = 1")
    assert run("config", "check", "--confirm").code == 78
    assert not [call for call, _ in up.asked if call.startswith("POST")]


def test_a_daemon_that_refuses_it_is_heard(run: Run, up: FakeDaemon) -> None:
    up.refuses("POST /v1/config/confirm", "store_unavailable", "disk full", status=503)
    ended = run("config", "check", "--confirm")
    assert (ended.code, ended.err.strip().endswith("disk full")) == (1, True)


def test_while_the_daemon_is_down_its_store_is_asked_and_told(run: Run, down: Path, emptied: Path) -> None:
    before = run("config", "check")
    assert (before.code, "(qwen: 1 machine at an unknown price)" in before.err, told(down)) == (6, True, None)
    assert run("config", "check", "--confirm").code == 0
    kept = told(down)
    assert kept is not None
    assert kept.digest == digest(emptied)
    assert run("config", "check").code == 0
    with closing(sqlite3.connect(down)) as rows:
        (line,) = rows.execute("SELECT line FROM evidence WHERE event = 'config.confirmed'").fetchone()
    assert json.loads(line)["detail"]["digest"] == digest(emptied)


def test_a_store_that_a_silent_daemon_holds_is_left_alone(run: Run, down: Path) -> None:
    held = FileLock(down)
    held.take()
    ended = run("config", "check", "--confirm")
    held.give_back()
    assert (ended.code, "its daemon does not answer" in ended.err, told(down)) == (6, True, None)


def test_without_a_store_nothing_runs_and_one_that_cannot_be_read_is_no_proof_of_that(run: Run, emptied: Path) -> None:
    assert run("config", "check", "--confirm").code == 0
    (emptied.parent / "state" / "gpuwarden.db").write_bytes(b"no database at all, whatever its name says")
    ended = run("config", "check")
    assert (ended.code, "is not known: the daemon is down, and its store cannot be read" in ended.err) == (0, True)
    assert run("config", "check", "--confirm").code == 3
