"""What may befall a machine with several cards?

They wait for each other for ever: the server is silent, and its log stands still where the cards met, or says once a
minute that no block of shared memory comes. Only in runs in which a model has such machines.
"""

import random
import re
from functools import partial
from typing import Final

from controller.emulators.runpod.pods import UP, Pod, model_server
from tests.simulation.provider_faults import HOUR, MINUTE
from tests.simulation.stage import Kind, Stage, Trouble, spread

STALL: Final = "INFO shm_broadcast.py:501] No available shared memory broadcast block found in 60 seconds."
MET: Final = ("INFO vLLM is using nccl==2.27.3", "machine:1:1 [0] NCCL INFO Init COMPLETE")
_CARDS: Final = re.compile(r"--tensor-parallel-size (\d+)")


def cards(pod: Pod) -> int:
    """With how many it was ordered."""
    found = _CARDS.search(" ".join([pod.args, *(pod.cmd or [])]))
    return 1 if found is None else int(found[1])


def _stall(stage: Stage, draw: random.Random) -> bool:
    pods = [pod for pod in stage.ours() if cards(pod) > 1]
    if not pods:
        return False
    _begin(stage, draw, draw.choice(pods))
    return True


def _starts(stage: Stage, draw: random.Random) -> bool:
    """New machines never come up, and what has several cards of them stands still for that."""
    if not any("gpu_count" in text for text in stage.town.further.values()):
        return False
    lift = stage.settings.lay({"upstream": {"state": "booting"}})

    def undo() -> None:
        lift()
        for pod in stage.ours():
            if pod.upstream.state == "booting":
                stage.provider.change_pod(pod.id, {"upstream": {"state": "auto"}})

    trouble = stage.trouble("starts-stalled", lasts=spread(draw, HOUR, 6 * HOUR), undo=undo)
    _stall_all_new(stage, draw, trouble)
    return True


def _stall_all_new(stage: Stage, draw: random.Random, trouble: Trouble) -> None:
    for pod in stage.ours():
        met = any(line == MET[-1] for _, _, line in pod.log)
        if pod.upstream.state == "booting" and not met and cards(pod) > 1:
            _begin(stage, draw, pod)
    if not trouble.over:
        stage.kernel.after(20.0, partial(_stall_all_new, stage, draw, trouble))


def _begin(stage: Stage, draw: random.Random, pod: Pod) -> None:
    serves = model_server(pod, stage.provider.now()) == UP
    speaks = serves or draw.random() < SPEAKS

    def undo() -> None:
        if stage.lives(pod):
            stage.provider.change_pod(pod.id, {"upstream": {"state": "auto"}})

    stage.provider.change_pod(pod.id, {"upstream": {"state": "hung" if serves else "booting"}, "log": list(MET)})
    lasts = spread(draw, 20 * MINUTE, 90 * MINUTE)
    words = f"{'serving' if serves else 'starting'}, {'it says so' if speaks else 'in silence'}"
    trouble = stage.trouble("cards-stall", pod.id, lasts=lasts, undo=undo, text=words)

    def speak() -> None:
        if not trouble.over and stage.lives(pod):
            stage.provider.change_pod(pod.id, {"log": [STALL]})
            stage.kernel.after(MINUTE, speak)

    if speaks:
        speak()


SPEAKS: Final = 0.5
"""While the server starts both were seen; of one that serves, silence says nothing."""
KINDS: Final[dict[str, Kind]] = {
    "cards-stall": Kind("the cards of a pod of ours wait for each other for ever", _stall, 0.7, 2.0),
    "starts-stalled": Kind("the cards of new pods never meet", _starts, 0.3, 1.0),
}
