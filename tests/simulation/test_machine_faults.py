"""Does each trouble of a machine and of those who run it befall the real daemon, and is it over in the end?"""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.simulation.config_faults import KINDS as CONFIG_KINDS
from tests.simulation.machine import Machine
from tests.simulation.machine_faults import KINDS as MACHINE_KINDS
from tests.simulation.machine_faults import OTHER_KEY
from tests.simulation.operators import KINDS as OPERATOR_KINDS
from tests.simulation.test_actors import POD_EVENTS, Play, play_in_this_process

__all__ = ["play_in_this_process"]


@pytest.fixture
def play(tmp_path: Path) -> Play:
    """A daemon and its gateway, both up."""
    made = Play(tmp_path, daemon=True)
    made.wait(5)
    assert runs(made)
    return made


def runs(play: Play) -> bool:
    return play.machine.daemon is not None and play.machine.gateway is not None


def key_of(machine: Machine) -> str:
    return (machine.folder / "keys" / "runpod").read_text()


BEFALLS: dict[str, Callable[[Play], object]] = {
    "daemon-restart": lambda play: play.machine.program is None,
    "daemon-killed": lambda play: play.machine.program is None,
    "reboot": lambda play: play.machine.program is None and play.machine.gateway is None,
    "daemon-stopped": lambda play: play.machine.program is not None and play.machine.program.stopped,
    "gateway-killed": lambda play: play.machine.gateway is None,
    "gateway-stopped": lambda play: play.machine.gateway_program is not None and play.machine.gateway_program.stopped,
    "suspend": lambda play: all(program.stopped for program in play.machine.programs()),
    "clock-jump": lambda play: play.machine.clock.ahead,
    "disk-full": lambda play: play.machine.disk.full,
    "store-locked": lambda play: play.machine.disk.locked,
    "network-out": lambda play: play.see("GET", "/v2/pods") == "ConnectError",
    "config-emptied": lambda play: play.machine.config.read_text() == "",
    "config-broken": lambda play: play.machine.program is None,
    "models-emptied": lambda play: play.machine.daemon is not None and not play.machine.daemon.models,
    "models-emptied-confirmed": lambda play: play.machine.daemon is not None and not play.machine.daemon.models,
    "model-removed": lambda play: play.machine.daemon is not None and len(play.machine.daemon.models) == 1,
    "model-changed": lambda play: play.machine.config.read_text() != play.stage.files.plain(play.machine.config),
    "account-swapped": lambda play: key_of(play.machine) == OTHER_KEY,
}


NEED_ONE = {"account-swapped", "disk-full", "store-locked"}
"""What matters where there is one of ours: that could be taken for gone, or has to be stopped."""


@pytest.mark.parametrize("kind", BEFALLS)
def test_something_befalls_the_machine_and_is_over(kind: str, play: Play) -> None:
    assert not BEFALLS[kind](play)
    if kind in NEED_ONE:
        assert not play.begin(kind)
        play.begin("operator-start")
        play.until(play.town.alive, within=60)
    assert play.begin(kind)
    play.until(lambda: BEFALLS[kind](play), within=30)
    play.be_honest()
    play.wait(60)
    assert not BEFALLS[kind](play)
    assert runs(play)
    assert [over for _, over in play.spans(kind)] == [True]


@pytest.mark.parametrize(("kind", "of"), [("daemon-crash", "program"), ("gateway-crash", "gateway_program")])
def test_program_dies_somewhere_and_comes_back(kind: str, of: str, play: Play) -> None:
    program = getattr(play.machine, of)
    assert play.begin(kind)
    play.until(lambda: not program.alive, within=3 * 86400)
    play.wait(60)
    assert play.town.staged.counts[kind] == 1
    assert getattr(play.machine, of) not in {None, program}


@pytest.mark.parametrize(
    ("kind", "mode", "alive"), [("models-emptied", "former-config", 1), ("models-emptied-confirmed", "normal", 0)]
)
def test_a_config_without_models_stops_what_runs_only_where_that_was_confirmed(
    kind: str, mode: str, alive: int, play: Play
) -> None:
    play.begin("operator-start")
    play.until(play.town.alive, within=60)
    play.wait(60)
    assert play.begin(kind)
    play.wait(90)
    assert play.machine.daemon is not None
    assert (play.machine.daemon.mode.name, len(play.town.alive())) == (mode, alive)


def test_evidence_file_is_rotated_and_a_new_one_begun(play: Play) -> None:
    assert play.begin("evidence-rotated")
    play.begin("operator-start")
    play.wait(60)
    assert sorted(path.name for path in play.machine.state.glob("evidence.jsonl*")) == [
        "evidence.jsonl",
        "evidence.jsonl.1",
    ]


def test_an_old_copy_of_the_store_is_put_back(play: Play) -> None:
    restored: list[Machine] = []
    play.machine.on_restored = restored.append
    assert play.begin("store-restored", seed=83)  # put back after 79 s
    play.wait(120)
    assert (restored, runs(play)) == ([play.machine], True)
    assert play.spans("store-restored") == [("box", True)]


def test_store_is_taken_over_and_the_former_daemon_ends_after_it_woke_up(play: Play) -> None:
    first = play.machine.program
    assert first is not None
    assert play.begin("take-over", seed=16)  # asleep for 37 s
    play.until(lambda: not first.stopped, within=60)
    second = play.machine.program
    play.wait(660)  # with nothing alive it looks every 10 minutes
    assert not first.alive
    assert second is not None
    assert (second.alive, play.machine.program) == (True, second)


def test_second_machine_runs_with_a_copy_of_the_config(play: Play) -> None:
    assert play.begin("copied-config")
    play.wait(30)
    daemons = [machine.daemon for machine in play.town.machines.values()]
    assert len({daemon.store.book.owner.installation for daemon in daemons if daemon is not None}) == 2
    (trouble,) = play.stage.open
    play.stage.end(trouble)
    play.wait(60)
    assert [machine.program is None for machine in play.town.machines.values()] == [False, True]
    play.be_honest()
    play.wait(60)
    assert all(machine.program is not None for machine in play.town.machines.values())


ACTS = (
    "operator-start",
    "operator-restart",
    "operator-prefetch",
    "operator-stop",
    "operator-stop-now",
    "operator-unblock",
)


@pytest.mark.parametrize("kind", [*ACTS, "operator-stop-all"])
def test_operator_s_act_is_answered_and_on_record(kind: str, play: Play) -> None:
    play.begin("operator-start")
    play.until(play.town.alive, within=60)
    alias = play.town.alive()[0].name.split("-")[1]
    play.wait(60)
    play.begin(kind)
    play.wait(5)
    subjects = {"m1", "m2"} if kind == "operator-stop-all" else {alias}
    assert {subject for subject, over in play.spans(kind) if over} == subjects
    play.wait(60)
    assert bool(play.town.alive()) == (
        kind in {"operator-start", "operator-restart", "operator-prefetch", "operator-unblock"}
    )


def test_a_young_pod_is_stopped_before_it_is_shown_and_its_delete_finds_nothing(play: Play) -> None:
    assert play.begin("young-unseen")
    play.until(play.town.alive, within=60)
    pod = play.town.alive()[0]
    play.until(lambda: play.spans("operator-stop-now"), within=60)
    play.wait(5)
    sent = [call for call in play.provider.calls if call.method == "DELETE"]
    assert ([call.status for call in sent], pod.alive) == ([404], True)
    assert pod.id not in play.see("GET", "/v2/pods")
    play.until(lambda: not pod.alive, within=600)


def test_every_kind_is_tried() -> None:
    tried = {*BEFALLS, *POD_EVENTS, *ACTS, "operator-stop-all", "daemon-crash", "gateway-crash", "evidence-rotated"}
    tried |= {"store-restored", "take-over", "copied-config", "young-unseen"}
    assert tried >= set(MACHINE_KINDS) | set(CONFIG_KINDS) | set(OPERATOR_KINDS)
