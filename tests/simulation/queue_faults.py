"""What waits in the provider's queue that no create of ours is known to have come to?

Others' entries, some with a name like ours or with none, and second ones for what we ordered once. What waits becomes a
pod that bills without a further call, if nobody cancels it.
"""

import random
from typing import Any, Final

from controller.emulators.runpod import queued_pods
from tests.simulation.provider_faults import DAY, HOUR, MINUTE
from tests.simulation.stage import Act, Kind, Stage, spread
from tests.simulation.town import OWNER

LATELY_S: Final = 12 * HOUR
NAMES: Final = ("jupyter", "gpuwarden-m1-by-hand", "gpuwarden-m1-r0123456789abcdef", OWNER)


def _ordered_again(stage: Stage, draw: random.Random) -> bool:
    """Of a pod of ours that is, or was: all that was asked for, so that the same model is served."""
    now = stage.provider.now()
    known = [
        pod
        for pod in stage.provider.pods.values()
        if pod.env.get("GPUWARDEN_OWNER") == OWNER and pod.account == "main" and now - pod.created_at < LATELY_S
    ]
    if not known:
        return False
    pod, wait = draw.choice(known), spread(draw, MINUTE, 6 * HOUR)
    asked: dict[str, Any] = {
        "name": pod.name,
        "image": pod.image,
        "cloud": pod.cloud,
        "disk": pod.disk,
        "mounts": pod.mounts,
        "account": pod.account,
        "env": pod.env,
        "ports": pod.ports,
        "gpu": {"id": pod.gpu_id, "count": max(1, pod.gpu_count)},
        "deploys_in_seconds": wait,
        "expires_in_seconds": wait + MINUTE,
    }
    commands = {"args": pod.args, "entrypoint": pod.entrypoint, "cmd": pod.cmd}
    queued = stage.provider.put_queued(asked | {key: words for key, words in commands.items() if words})
    stage.trouble("pod-queued", queued, lasts=wait + HOUR, text=f"as {pod.id}, for {wait:.0f} s")
    return True


def _others(kind: str, names: tuple[str | None, ...], most: float) -> Act:
    """Other people's; of one without a name nobody knows whose it is."""

    def act(stage: Stage, draw: random.Random) -> bool:
        name = draw.choice(names)
        given: dict[str, Any] = {"nameless": True} if name is None else {"name": name}
        queued = stage.provider.put_queued(given | {"expires_in_seconds": 2 * DAY})

        def undo() -> None:
            stage.provider.queued[queued].state = queued_pods.EXPIRED

        stage.trouble(kind, queued, lasts=spread(draw, 5 * MINUTE, most), undo=undo, text=name or "")
        return True

    return act


KINDS: Final[dict[str, Kind]] = {
    "pod-queued": Kind("what we ordered once waits in the queue again", _ordered_again, 0.3, 1.0),
    "queued-foreign": Kind(
        "something of other people's waits in the queue", _others("queued-foreign", NAMES, DAY), 0.4, 1.0
    ),
    "queued-nameless": Kind(
        "something without a name waits in the queue", _others("queued-nameless", (None,), 2 * HOUR), 0.2, 0.6
    ),
}
