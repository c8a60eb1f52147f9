"""Do the troubles that take their time really happen: waits in the queue, bills after the end, starts that never come?

Each alone, as in `test_actors`: before, while it lasts and after the run was made honest.
"""

from pathlib import Path
from typing import Any

import pytest

from controller.emulators.runpod.pods import status
from tests.simulation import card_faults, pod_faults
from tests.simulation.test_actors import POD, Play, alive, play_in_this_process

__all__ = ["play_in_this_process"]


def test_a_create_that_comes_to_a_wait_becomes_a_pod_hours_later(tmp_path: Path) -> None:
    play = Play(tmp_path)
    assert play.begin("create-queued")
    play.see("POST", "/v2/pods", json=POD)
    (queued,) = play.provider.queued.values()
    assert (alive(play), queued.state) == (0, "QUEUED")
    play.wait(5 * 3600)
    assert [pod.env for pod in play.town.alive()] == [POD["env"]]


@pytest.mark.parametrize("command", [{}, {"args": "", "cmd": ["--model", "a"]}, {"args": "", "entrypoint": ["fetch"]}])
def test_what_we_ordered_once_waits_and_becomes_a_pod_with_the_same_marks_and_command(
    command: dict[str, Any], tmp_path: Path
) -> None:
    play = Play(tmp_path)
    pod = play.put()
    for key, words in command.items():
        setattr(pod, key, words)
    assert play.begin("pod-queued")
    (queued,) = play.provider.queued.values()
    assert (queued.name, alive(play)) == (pod.name, 1)
    play.be_honest()
    made = [(other.env, other.args, other.entrypoint, other.cmd, other.mounts) for other in play.town.alive()]
    assert made == [(pod.env, pod.args, pod.entrypoint, pod.cmd, pod.mounts)] * 2


@pytest.mark.parametrize(("kind", "named"), [("queued-foreign", True), ("queued-nameless", False)])
def test_what_others_queued_waits_for_a_while_and_becomes_nothing(kind: str, named: bool, tmp_path: Path) -> None:
    play = Play(tmp_path)
    assert play.begin(kind)
    (queued,) = play.provider.queued.values()
    assert ('"name"' in play.see("GET", "/v2/queued-pods"), queued.state) == (named, "QUEUED")
    play.be_honest()
    assert (queued.state, alive(play)) == ("EXPIRED", 0)


def test_a_pod_bills_on_after_its_end_until_the_provider_is_honest(tmp_path: Path) -> None:
    play = Play(tmp_path)
    pod = play.put()
    play.begin("bills-on")
    play.provider.change_pod(pod.id, {"vanish": True})
    play.wait(600)
    assert pod.meter.rate.counts
    play.be_honest()
    assert not pod.meter.rate.counts


TWO_CARDS = POD | {"gpu": {"id": "NVIDIA A40", "count": 2}, "args": POD["args"] + " --tensor-parallel-size 2"}


def test_cards_wait_for_each_other_where_there_are_two(tmp_path: Path) -> None:
    play = Play(tmp_path)
    play.put()
    assert not play.begin("cards-stall")
    pod = play.put(**TWO_CARDS)
    assert play.begin("cards-stall")
    play.wait(300)
    assert pod.upstream.state == "hung"
    assert [line for _, _, line in pod.log][-5:] == [card_faults.STALL] * 5
    play.be_honest()
    assert (pod.upstream.state, play.spans("cards-stall")) == ("auto", [(pod.id, True)])


def test_cards_that_meet_in_vain_while_they_start_say_so_or_nothing(tmp_path: Path) -> None:
    play = Play(tmp_path)
    pod = play.provider.pods[play.provider.put_pod(TWO_CARDS)]
    endings = set()
    for seed in range(6):
        pod.log.clear()
        assert play.begin("cards-stall", seed=seed)
        endings.add(pod.log[-1][2])
    assert (endings, pod.upstream.state) == ({card_faults.STALL, card_faults.MET[-1]}, "booting")


def test_new_machines_with_two_cards_stand_still_and_come_up_when_it_is_over(tmp_path: Path) -> None:
    play = Play(tmp_path)
    assert not play.begin("starts-stalled")
    play.town.further["m2"] = "gpu_count = 2"
    assert play.begin("starts-stalled")
    one, two = play.put(), play.put(**TWO_CARDS)
    assert ([one.upstream.state, two.upstream.state], one.log) == (["booting", "booting"], [])
    assert card_faults.MET[-1] in [line for _, _, line in two.log]
    play.be_honest()
    assert [one.upstream.state, two.upstream.state] == ["auto", "auto"]


def test_two_cards_that_were_lost_come_back(tmp_path: Path) -> None:
    play = Play(tmp_path)
    pod = play.put(**TWO_CARDS)
    for _ in range(2):
        play.begin("pod-zero-gpu")
    assert pod.gpu_count == 0
    play.be_honest()
    assert pod.gpu_count == 2


def test_a_server_that_does_not_fit_dies_and_says_of_what(tmp_path: Path) -> None:
    play = Play(tmp_path)
    play.begin("starts-out-of-memory")
    pod = play.put()
    assert (pod.upstream.state, pod.log[-1][2]) == ("crashing", pod_faults.OUT_OF_MEMORY)
    play.be_honest()
    assert pod.upstream.state == "auto"


def test_a_pod_without_an_image_gets_its_container_when_it_is_there(tmp_path: Path) -> None:
    play = Play(tmp_path)
    play.begin("image-missing")
    pod = play.put()
    assert status(pod, play.provider.now()) != "RUNNING"
    play.be_honest()
    assert status(pod, play.provider.now()) == "RUNNING"
