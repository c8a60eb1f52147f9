"""What would the config do, and could the processes have their keys?"""

from collections.abc import Callable, Iterator
from functools import partial

from controller.cli.exits import Exit
from controller.cli.output import say, show_facts, show_json, show_table
from controller.settings import ConfigProblems, Settings
from controller.settings.values import write_span


def config_check(settings: Settings, *, as_json: bool) -> Exit:
    """The config was taken already; says what follows from it. A missing key is told, and is no fault of the config."""
    policy, models = settings.hosting_policy(), settings.model_policies()
    rows = [
        {
            "alias": alias,
            "image": model.image,
            "offers": list(model.offers),
            "cards": model.cards,
            "usd_per_hour_max": None if model.usd_per_hour_max is None else str(model.usd_per_hour_max),
            "idle_after": write_span(model.idle_after),
            "startup_deadline": write_span(model.startup_deadline),
            "max_lifetime": write_span(model.max_lifetime),
        }
        for alias, model in models.items()
    ]
    limits = {
        "usd_per_day": str(policy.usd_per_day),
        "max_active": policy.max_active,
        "max_lifetime": write_span(policy.max_lifetime),
        "stop_evidence": policy.stop_evidence.value,
    }
    found = list(_keys(settings))
    keys = [problem for problem, _ in found]
    code = Exit.BAD_CONFIG if any(counts for _, counts in found) else Exit.OK
    if as_json:
        paths = {"store": str(settings.places.store), "evidence": str(settings.places.evidence)}
        show_json({"file": str(settings.file), "models": rows, "limits": limits, "paths": paths, "keys": keys})
        return code
    show_table(
        ("model", "image", "GPUs, in order", "cards", "$/h at most", "idle", "start within", "lives at most"),
        [tuple(row.values()) for row in rows],
    )
    print()
    show_facts([("limits", ", ".join(f"{name} {value}" for name, value in limits.items()))])
    show_facts([("store", settings.places.store), ("evidence", settings.places.evidence)])
    for problem in keys:
        say(f"key: {problem}")
    if not models:
        say("no model is configured: nothing can start")
    return code


def _keys(settings: Settings) -> Iterator[tuple[str, bool]]:
    """What stands in the way of each secret, as the user who asks would meet it, and whether it counts as a fault.

    A systemd credential is there only inside its service: outside nothing can be said against it.
    """
    outside = "CREDENTIALS_DIRECTORY" not in settings.environment
    unseen = outside and settings.written.runpod.key_credential is not None
    yield from ((problem, not unseen) for problem in _tried(settings.runpod_key))
    for alias, section in settings.models.items():
        unseen = outside and section.key_credential is not None
        yield from ((problem, not unseen) for problem in _tried(partial(settings.server_key, alias)))
    yield from ((problem, True) for problem in _tried(settings.client_key_digests))


def _tried(read: Callable[[], object]) -> Iterator[str]:
    try:
        read()
    except ConfigProblems as problems:
        yield from (str(problem) for problem in problems.problems)
