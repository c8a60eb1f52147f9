"""What may befall the pods, whoever's they are, and what they are made of?

States of the pods and of the model servers in them, copies and moves, pods of others; capacity, prices and money.
"""

import random
from collections.abc import Callable
from typing import Any, Final

from controller.emulators.runpod.pods import Pod
from tests.simulation.card_faults import cards
from tests.simulation.provider_faults import DAY, HOUR, MINUTE
from tests.simulation.stage import Act, Kind, Stage, Undo, spread
from tests.simulation.town import OWNER

STALL: Final = ("No available shared memory broadcast block found in 60 seconds.",) * 3
GPUS: Final = ("NVIDIA L40S", "NVIDIA A40")
OUT_OF_MEMORY: Final = "torch.OutOfMemoryError: CUDA out of memory."
NEVER_S: Final = 1e7
PLACES: Final = ("US-TX-3", "US-KS-2")
"""Where the volumes of the town's models are, as far as they have any."""
OTHERWISE: Final[tuple[dict[str, Any], ...]] = (
    {"gpu": {"id": GPUS[0], "count": 2}},
    {"disk": 20},
    {"mounts": {"persistent": {"size": 20, "path": "/workspace"}}},
    {"cloud": "COMMUNITY"},
)


def _changed(
    kind: str, change: Callable[[random.Random], dict[str, Any]], back: Callable[[Pod], dict[str, Any]]
) -> Act:
    """One pod of ours becomes otherwise, and as it was after a while."""

    def act(stage: Stage, draw: random.Random) -> bool:
        pod = stage.one_of_ours(draw)
        if pod is None:
            return False
        made, before = change(draw), back(pod)
        stage.provider.change_pod(pod.id, made)
        text = ", ".join(f"{name}={value}" for name, value in made.items())
        stage.trouble(kind, pod.id, lasts=spread(draw, 30, 6 * HOUR), undo=_back(stage, pod, before), text=text)
        return True

    return act


def _back(stage: Stage, pod: Pod, change: dict[str, Any]) -> Undo:
    def undo() -> None:
        if stage.lives(pod):
            stage.provider.change_pod(pod.id, change)

    return undo


def _to(change: dict[str, Any]) -> Callable[[Pod], dict[str, Any]]:
    return lambda _: change


def _stated(kind: str, *words: str) -> Act:
    return _changed(kind, lambda draw: {"status": draw.choice(words)}, _to({"status": "RUNNING"}))


def _served(kind: str, **orders: Any) -> Act:
    return _changed(kind, lambda draw: {"upstream": orders}, _to({"upstream": {"state": "auto"}}))


def _unready(kind: str, **orders: Any) -> Act:
    """New pods never come up; those that were made so do when it is over."""

    def act(stage: Stage, draw: random.Random) -> bool:
        lift = stage.settings.lay({"upstream": orders})

        def undo() -> None:
            lift()
            for pod in stage.ours():
                if pod.upstream.state == orders["state"]:
                    stage.provider.change_pod(pod.id, {"upstream": {"state": "auto"}})

        stage.trouble(kind, lasts=spread(draw, 10 * MINUTE, 6 * HOUR), undo=undo)
        return True

    return act


def _out_of_memory(stage: Stage, draw: random.Random) -> bool:
    """The model does not fit: whatever machine there is, its server dies, and its log says of what."""
    lift = stage.settings.lay({"upstream": {"state": "crashing"}})
    began, spoken = stage.provider.now(), set[str]()

    def undo() -> None:
        lift()
        for pod in stage.ours():
            if pod.upstream.state == "crashing":
                stage.provider.change_pod(pod.id, {"upstream": {"state": "auto"}})

    trouble = stage.trouble("starts-out-of-memory", lasts=spread(draw, 10 * MINUTE, 6 * HOUR), undo=undo)

    def speak() -> None:
        if trouble.over:
            return
        for pod in stage.ours():
            if pod.created_at >= began and pod.id not in spoken and pod.upstream.state == "crashing":
                spoken.add(pod.id)
                stage.provider.change_pod(pod.id, {"log": [OUT_OF_MEMORY]})
        stage.kernel.after(20.0, speak)

    speak()
    return True


def _no_image(stage: Stage, draw: random.Random) -> bool:
    """New pods get no container, for want of an image; those that wait for one get it when it is over."""
    lift = stage.settings.lay({"boot_seconds": NEVER_S})

    def undo() -> None:
        lift()
        for pod in stage.ours():
            if pod.boot.boot_seconds == NEVER_S:
                pod.boot.boot_seconds = stage.provider.now() - pod.boot.at

    stage.trouble("image-missing", lasts=spread(draw, 10 * MINUTE, 6 * HOUR), undo=undo)
    return True


def _bills_on(stage: Stage, draw: random.Random) -> bool:
    """Should it end within that time, its end does not end its bill."""
    pod = stage.one_of_ours(draw)
    if pod is None:
        return False

    def undo() -> None:
        stage.provider.change_pod(pod.id, {"bills_on": False})

    stage.provider.change_pod(pod.id, {"bills_on": True})
    stage.trouble("bills-on", pod.id, lasts=spread(draw, 6 * HOUR, 12 * HOUR), undo=undo)
    return True


def _locked(stage: Stage, draw: random.Random) -> bool:
    """In the console, against being stopped by mistake."""
    pod = stage.one_of_ours(draw)
    if pod is None:
        return False
    stage.staged.once("pod-locked", pod.id)
    pod.locked = True
    return True


def _once(kind: str, change: dict[str, Any]) -> Act:
    """Something is done to one pod of ours, in one instant."""

    def act(stage: Stage, draw: random.Random) -> bool:
        pod = stage.one_of_ours(draw)
        if pod is None:
            return False
        stage.staged.once(kind, pod.id)
        stage.provider.change_pod(pod.id, change)
        return True

    return act


def _migrated(stage: Stage, draw: random.Random) -> bool:
    pod = stage.one_of_ours(draw)
    if pod is None:
        return False
    stage.staged.once("pod-migrated", pod.id)
    moved = stage.provider.change_pod(pod.id, {"migrate": True})
    stage.staged.once("pod-migrated", moved, text=f"from {pod.id}")
    return True


def _cloned(stage: Stage, draw: random.Random) -> bool:
    pod = stage.one_of_ours(draw)
    if pod is None:
        return False
    asked: dict[str, Any] = {
        "id": stage.provider.new_id(),
        "name": pod.name,
        "image": pod.image,
        "account": pod.account,
        "gpu": {"id": pod.gpu_id, "count": cards(pod)},
        "ports": pod.ports,
        "env": pod.env,
        "args": pod.args or None,
        "entrypoint": pod.entrypoint,
        "cmd": pod.cmd,
    }
    stage.staged.once("pod-cloned", asked["id"], text=f"of {pod.id}")  # known as a copy before it is seen to be made
    stage.provider.put_pod(asked)
    return True


def _foreign(stage: Stage, draw: random.Random) -> bool:
    """Other people's pods; some look much like ours."""
    name, env = draw.choice(
        [
            ("research", {}),
            ("gpuwarden-m1-r0123456789abcdef", {"GPUWARDEN_OWNER": "somebody", "GPUWARDEN_INSTALLATION": "feed"}),
            ("gpuwarden-m1-by-hand", {}),
            (OWNER, {"OWNER": OWNER}),
        ]
    )
    pod = stage.provider.pods[stage.provider.put_pod({"name": name, "env": env})]
    undo = _back(stage, pod, {"vanish": True})
    stage.trouble("foreign-pod", pod.id, lasts=spread(draw, 5 * MINUTE, DAY), undo=undo, text=name)
    return True


def _set(kind: str, change: Callable[[random.Random], dict[str, Any]], *, least: float, most: float) -> Act:
    def act(stage: Stage, draw: random.Random) -> bool:
        stage.setting(kind, change(draw), lasts=spread(draw, least, most))
        return True

    return act


def _places(draw: random.Random) -> dict[str, Any]:
    return {"sold_out": {place: ["*"] for place in draw.sample(PLACES, draw.randint(1, 2))}}


def _bad_place(draw: random.Random) -> dict[str, Any]:
    return {"bad_places": {draw.choice(PLACES): {"status": draw.choice(("ERROR", "EXITED"))}}}


def _stock(draw: random.Random) -> dict[str, Any]:
    return {"stock": dict.fromkeys(draw.sample(GPUS, draw.randint(1, 2)), "NONE")}


KINDS: Final[dict[str, Kind]] = {
    "pod-exited": Kind("a pod of ours says EXITED", _stated("pod-exited", "EXITED"), 0.4, 1.5),
    "pod-error": Kind("a pod of ours says ERROR", _stated("pod-error", "ERROR"), 0.4, 1.5),
    "pod-odd-status": Kind(
        "a pod of ours says something that nobody knows",
        _stated("pod-odd-status", "MOVING", "PAUSED", "UNKNOWN", "PROVISIONING", "STARTING"),
        0.4,
        1.5,
    ),
    "pod-zero-gpu": Kind(
        "a pod of ours has lost its card",
        _changed("pod-zero-gpu", lambda _: {"gpu_count": 0}, lambda pod: {"gpu_count": cards(pod)}),
        0.3,
        1,
    ),
    "pod-vanished": Kind("the provider took a pod of ours away", _once("pod-vanished", {"vanish": True}), 0.4, 1.5),
    "pod-terminated": Kind(
        "the provider ended a pod of ours and goes on showing it",
        _once("pod-terminated", {"status": "TERMINATED"}),
        0.3,
        1,
    ),
    "pod-restarted": Kind("a container of ours started anew", _once("pod-restarted", {"restart": True}), 0.5, 2.0),
    "pod-migrated": Kind("a pod of ours was moved: another id, the same tags", _migrated, 0.3, 1.0),
    "pod-cloned": Kind("somebody made a copy of a pod of ours, tags and all", _cloned, 0.3, 1.0),
    "foreign-pod": Kind("a pod of other people's", _foreign, 0.8, 2.0),
    "server-crashing": Kind(
        "a container of ours crashes again and again",
        _changed(
            "server-crashing",
            lambda draw: {"upstream": {"crash_every_seconds": spread(draw, 15, 400)}},
            _to({"upstream": {"crash_every_seconds": None}}),
        ),
        0.4,
        1.5,
    ),
    "server-respawns": Kind(
        "a model server begins anew again and again inside a container that stays",
        _changed(
            "server-respawns",
            lambda draw: {"upstream": {"respawn_every_seconds": spread(draw, 60, 400)}},
            _to({"upstream": {"respawn_every_seconds": None}}),
        ),
        0.3,
        1.0,
    ),
    "log-speaks": Kind(
        "a log tells of a death, and of cards that wait for each other, where there is one card",
        _once("log-speaks", {"log": [OUT_OF_MEMORY, "NCCL INFO Init", *STALL]}),
        0.4,
        1.0,
    ),
    "server-hung": Kind("a model server answers no request", _served("server-hung", state="hung"), 0.4, 1.5),
    "server-refuses-key": Kind(
        "a model server refuses the right key", _served("server-refuses-key", state="refusing-key"), 0.3, 1.0
    ),
    "server-wrong-model": Kind(
        "a model server serves another model", _served("server-wrong-model", state="wrong-model"), 0.3, 1.0
    ),
    "server-open": Kind("a model server asks for no key", _served("server-open", state="open"), 0.3, 1.0),
    "server-dies": Kind(
        "a model server dies in its answers",
        _changed(
            "server-dies",
            lambda draw: {"upstream": {"die_after_chunks": draw.randint(0, 3)}},
            _to({"upstream": {"die_after_chunks": None}}),
        ),
        0.3,
        1.0,
    ),
    "starts-unready": Kind("new pods never become ready", _unready("starts-unready", state="booting"), 0.2, 0.6),
    "starts-crashing": Kind("new pods crash in a loop", _unready("starts-crashing", state="crashing"), 0.2, 0.6),
    "starts-out-of-memory": Kind("new pods die, as the model does not fit", _out_of_memory, 0.15, 0.5),
    "image-missing": Kind("new pods never get a container", _no_image, 0.15, 0.5),
    "bills-on": Kind("a pod of ours bills on after its end", _bills_on, 0.25, 0.7),
    "pod-locked": Kind("a pod of ours is locked", _locked, 0.2, 0.6),
    "starts-slow": Kind(
        "new pods take long to come up",
        _set("starts-slow", lambda draw: {"ready_seconds": spread(draw, 60, 1200)}, least=HOUR, most=DAY),
        0.4,
        1.0,
    ),
    "said-early": Kind(
        "RUNNING is said from the moment of creation",
        _set("said-early", lambda _: {"provisioning": False}, least=HOUR, most=DAY),
        0.2,
        0.5,
    ),
    "secret-unsubstituted": Kind(
        "model servers get the reference for their key",
        _set("secret-unsubstituted", lambda _: {"substitute_secrets": False}, least=MINUTE, most=2 * HOUR),
        0.15,
        0.4,
    ),
    "no-stock": Kind(
        "there are no cards of a type", _set("no-stock", _stock, least=5 * MINUTE, most=12 * HOUR), 0.6, 2.0
    ),
    "no-balance": Kind(
        "the account is empty",
        _set("no-balance", lambda draw: {"balance": draw.choice((0.0, 0.3))}, least=5 * MINUTE, most=6 * HOUR),
        0.15,
        0.4,
    ),
    "price-jump": Kind(
        "new pods cost more than was said",
        _set("price-jump", lambda draw: {"price_jump": draw.uniform(1.2, 8)}, least=HOUR, most=DAY),
        0.3,
        0.8,
    ),
    "cost-raised": Kind(
        "a pod of ours bills more than was said",
        _changed("cost-raised", lambda draw: {"cost": draw.uniform(0.5, 9)}, lambda pod: {"cost": pod.usd_per_hour}),
        0.3,
        1.0,
    ),
    "made-otherwise": Kind(
        "what is made is not what was asked for",
        _set("made-otherwise", lambda draw: {"made_otherwise": draw.choice(OTHERWISE)}, least=5 * MINUTE, most=HOUR),
        0.15,
        0.5,
    ),
    "place-sold-out": Kind(
        "a data centre, and so the volume in it, has no cards left",
        _set("place-sold-out", _places, least=5 * MINUTE, most=12 * HOUR),
        0.4,
        1.5,
    ),
    "place-bad": Kind(
        "what is made in one data centre is broken",
        _set("place-bad", _bad_place, least=HOUR, most=12 * HOUR),
        0.3,
        1.0,
    ),
    "dearer": Kind(
        "the catalog's prices rise",
        _set("dearer", lambda draw: {"prices": {draw.choice(GPUS): draw.uniform(1, 4)}}, least=HOUR, most=DAY),
        0.3,
        0.8,
    ),
}
