"""What does a pod's log say of its cards?"""

from typing import Any

import pytest

from controller.core.topology import follow
from controller.emulators.runpod import Emulator
from controller.emulators.runpod.cards import meeting

TOLD = {"NCCL_DEBUG": "INFO"}


def said(emulator: Emulator, count: int, env: dict[str, str]) -> list[str]:
    body: dict[str, Any] = {"gpu": {"id": "NVIDIA A40", "count": count}, "env": env}
    pod = emulator.pods[emulator.put_pod(body)]
    assert [line for _, _, line in pod.log] == meeting(pod)
    return meeting(pod)


@pytest.mark.parametrize(
    ("count", "env", "told"),
    [
        (2, TOLD, "NCCL counts 2 cards in one machine, which reach each other by P2P"),
        (4, TOLD | {"NCCL_P2P_DISABLE": "1"}, "NCCL counts 4 cards in one machine, which reach each other by SHM"),
    ],
)
def test_cards_that_meet_are_read_as_what_they_are(count: int, env: dict[str, str], told: str) -> None:
    topology = follow(None, said(Emulator(), count, env))
    assert topology is not None
    assert topology.text == told


@pytest.mark.parametrize(("count", "env"), [(1, TOLD), (2, {}), (2, {"NCCL_DEBUG": "WARN"})])
def test_one_card_meets_nobody_and_who_was_not_asked_says_nothing(count: int, env: dict[str, str]) -> None:
    assert said(Emulator(), count, env) == []


def test_a_server_whose_cards_met_goes_on_and_says_so() -> None:
    assert "NCCL" not in said(Emulator(), 2, TOLD)[-1]
