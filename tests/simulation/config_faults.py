"""What do people do to the config of a machine?

They edit it and restart the daemon; later it is put right in the same way. Some who take every model out say to the
daemon that they mean it.
"""

import random
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from controller.api.client import Problem, Unreachable
from controller.settings import ConfigProblems, load
from tests.simulation.machine import Machine
from tests.simulation.provider_faults import HOUR, MINUTE
from tests.simulation.stage import Act, Kind, Stage, spread


def _edited(kind: str, edit: Callable[[str, random.Random], str], least: float, most: float) -> Act:
    """Somebody edits the config and restarts the daemon; later it is put right in the same way."""

    def act(stage: Stage, draw: random.Random) -> bool:
        machine = stage.main
        plain = stage.files.plain(machine.config)
        lift = stage.files.lay(machine.config, edit(plain, draw))

        def undo() -> None:
            lift()
            stage.cycle(machine)

        stage.trouble(kind, machine.name, lasts=spread(draw, least, most), undo=undo)
        stage.cycle(machine)
        return True

    return act


def _broken(text: str, draw: random.Random) -> str:
    return draw.choice(
        (text + "\n[models.\n", text.replace("usd_per_day", "usd_a_day"), text[: len(text) // 2], text + "\0")
    )


def _without_models(text: str, draw: random.Random) -> str:
    return text.partition("[models.")[0]


def _confirmed(stage: Stage, draw: random.Random) -> bool:
    """Every model is taken out, and who did it says so to the daemon before the restart."""
    machine = stage.main
    if machine.daemon is None:
        return False
    lift = stage.files.lay(machine.config, _without_models(stage.files.plain(machine.config), draw))

    def undo() -> None:
        lift()
        stage.cycle(machine)

    lasts = spread(draw, 2 * MINUTE, 6 * HOUR)
    stage.trouble("models-emptied-confirmed", machine.name, lasts=lasts, undo=undo)
    stage.town.clients.start(_confirm(stage, machine))
    return True


async def _confirm(stage: Stage, machine: Machine) -> None:
    """As `config check --confirm` does. Where nothing runs, or nobody answers, there is no word."""
    with suppress(Problem, Unreachable, ConfigProblems):
        found = load(machine.config, {})
        body = {"digest": found.digest(), "models": list(found.models)}
        answer = await stage.town.operators(machine).post("/v1/config/confirm", body)
        if answer["confirmed"]:
            stage.staged.once("emptying-confirmed", machine.name)
    stage.cycle(machine)


def _of_one_model(kind: str, edit: Callable[[str, random.Random], str]) -> Act:
    """One model's section is edited; that model is named as the subject."""

    def act(stage: Stage, draw: random.Random) -> bool:
        machine, alias = stage.main, draw.choice(stage.town.models)
        plain = stage.files.plain(machine.config)
        found = re.search(rf"^\[models\.{alias}\]\n(?:(?!\[).*\n)*", plain, re.M)
        if found is None or len(stage.town.models) < 2:
            return False
        lift = stage.files.lay(machine.config, plain.replace(found[0], edit(found[0], draw)))

        def undo() -> None:
            lift()
            stage.cycle(machine)

        stage.trouble(kind, alias, lasts=spread(draw, MINUTE, 12 * HOUR), undo=undo)
        stage.cycle(machine)
        return True

    return act


def _changed(section: str, draw: random.Random) -> str:
    return draw.choice(
        (
            section.replace("context = 4096", "context = 8192"),
            section.replace(":v0.31.0", ":v0.32.0"),
            section.replace('idle_after = "300s"', 'idle_after = "60s"'),
        )
    )


KINDS: Final[dict[str, Kind]] = {
    "config-emptied": Kind("the config is empty", _edited("config-emptied", lambda *_: "", MINUTE, 6 * HOUR), 0.1, 0.3),
    "config-broken": Kind("the config cannot be read", _edited("config-broken", _broken, MINUTE, 6 * HOUR), 0.15, 0.5),
    "models-emptied": Kind(
        "every model is taken out of the config",
        _edited("models-emptied", _without_models, MINUTE, 6 * HOUR),
        0.15,
        0.5,
    ),
    "models-emptied-confirmed": Kind(
        "every model is taken out of the config, and that is confirmed", _confirmed, 0.1, 0.3
    ),
    "model-removed": Kind(
        "a model is taken out of the config", _of_one_model("model-removed", lambda *_: ""), 0.2, 0.6
    ),
    "model-changed": Kind("a model is changed in the config", _of_one_model("model-changed", _changed), 0.3, 1.0),
}
