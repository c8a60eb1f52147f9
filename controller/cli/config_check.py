"""What would the config do, what would that need and cost, and could the processes have their keys?

Nobody is asked over the network, hub and provider aside and those only with `--online`: a model's own files are read
where they lie on this machine, and the daemon here says which prices it read last.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from controller.cli.exits import Exit, Failure
from controller.cli.findings import Findings
from controller.cli.output import printable, say, show_facts, show_json, show_table
from controller.cli.prices import Priced, Quote, ask_prices, price_notes, sources
from controller.cli.schedules import foreseen, words
from controller.cli.sizing_table import show_sizing, sizing
from controller.core.policy import ModelPolicy
from controller.settings import ConfigProblems, Problem, Settings
from controller.settings.estimates import Estimate, estimate
from controller.settings.model_files import ModelFiles, read_model_files
from controller.settings.values import write_span

if TYPE_CHECKING:
    from controller.cli.confirming import Outlook


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What else is wanted of a check."""

    model_files: Mapping[str, Path]
    hub: str | None = None
    confirm: bool = False


def config_check(settings: Settings, asked: Asked, *, as_json: bool, now: datetime) -> Exit:
    """The config was taken already; says what follows from it.

    `model_files` names the files of a model by alias; else they are looked for beside the config. A missing key is
    told, and is no fault of the config. `hub` is the address of one to be asked. `confirm`: it may stop everything.
    """
    model_files, hub = asked.model_files, asked.hub
    if unknown := sorted(set(model_files) - set(settings.models)):
        raise Failure(Exit.NOT_FOUND, f"--model-files names {unknown[0]}, which is no model of {settings.file}")
    online = Findings(settings=settings) if hub is None else _online(settings, hub)
    settings = online.settings
    models = settings.model_policies()
    priced = ask_prices(settings, online=hub is not None)
    quotes, notes = priced.quotes, (*online.notes, *priced.notes)
    estimates = {alias: _estimate(settings, alias, model_files.get(alias), quotes[alias]) for alias in models}
    faults = [str(problem) for problem in (*online.faults, *_of_all(estimates))]
    keys = list(_keys(settings))
    bad = bool(faults) or any(counts for _, counts in keys)
    missing = [problem for problem, _ in keys]
    outlook = _outlook(settings, confirm=asked.confirm and not bad)
    code = Exit.BAD_CONFIG if bad else Exit.REFUSED if outlook.refused else Exit.OK
    if as_json:
        rows = [
            _row(alias, model, now) | {"sizing": sizing(estimates[alias], quotes[alias])}
            for alias, model in models.items()
        ]
        paths = {"store": str(settings.places.store), "evidence": str(settings.places.evidence)}
        show_json({
            "file": str(settings.file), "models": rows, "limits": _limits(settings), "paths": paths, "keys": missing,
            "faults": faults, "notes": list(notes), "removes": outlook.as_json(),
        })  # fmt: skip
        return code
    _show(settings, models, estimates, priced, now)
    for note in notes:
        say(printable(note))
    for fault in faults:
        say(printable(fault))
    for problem in missing:
        say(f"key: {problem}")
    _tell(outlook, asked, code)
    return code


def _outlook(settings: Settings, *, confirm: bool) -> "Outlook":
    from controller.cli import confirming  # the store, for those who have one

    return confirming.confirm(settings) if confirm else confirming.look(settings)


def _tell(outlook: "Outlook", asked: Asked, code: Exit) -> None:
    if outlook.words is not None:
        say(printable(outlook.words))
    if asked.confirm and code is Exit.BAD_CONFIG:
        say("not confirmed: mend the config first")
    elif asked.confirm and outlook.removes is None:
        say("nothing needs confirming: this config would not stop all that runs")


def _online(settings: Settings, hub: str) -> Findings:
    from controller.cli.hub_findings import look_online

    return look_online(settings, hub)


def _of_all(estimates: Mapping[str, Estimate]) -> Iterator[Problem]:
    for found in estimates.values():
        yield from found.faults


def _show(
    settings: Settings,
    models: Mapping[str, ModelPolicy],
    estimates: Mapping[str, Estimate],
    priced: Priced,
    now: datetime,
) -> None:
    show_table(
        ("model", "image", "GPUs, in order", "cards", "idle", "lives at most"),
        [
            (
                alias,
                model.image,
                model.offers,
                model.cards,
                write_span(model.idle_after),
                write_span(model.max_lifetime),
            )
            for alias, model in models.items()
        ],
    )
    print()
    show_sizing(list(estimates.values()), priced.quotes)
    show_facts(sources(priced))
    print()
    show_facts([("limits", ", ".join(f"{name} {value}" for name, value in _limits(settings).items()))])
    show_facts([("store", settings.places.store), ("evidence", settings.places.evidence)])
    for alias, found in estimates.items():
        for note in found.notes:
            say(printable(f"{alias}: {note}"))
    if not models:
        say("no model is configured: nothing can start")
    for alias, model in models.items():
        if (window := foreseen(model, model.stance(None, now=now))) is not None:
            say(printable(f"{alias}: {words(window)}"))


def _row(alias: str, model: ModelPolicy, now: datetime) -> dict[str, Any]:
    return {
        "alias": alias,
        "image": model.image,
        "offers": list(model.offers),
        "cards": model.cards,
        "usd_per_hour_max": None if model.usd_per_hour_max is None else str(model.usd_per_hour_max),
        "idle_after": write_span(model.idle_after),
        "startup_deadline": write_span(model.startup_deadline),
        "max_lifetime": write_span(model.max_lifetime),
        "schedule": foreseen(model, model.stance(None, now=now)),
    }


def _limits(settings: Settings) -> dict[str, object]:
    policy = settings.hosting_policy()
    return {
        "usd_per_day": str(policy.usd_per_day),
        "max_active": policy.max_active,
        "max_lifetime": write_span(policy.max_lifetime),
        "stop_evidence": policy.stop_evidence.value,
    }


def _estimate(settings: Settings, alias: str, named: Path | None, quote: Quote) -> Estimate:
    """Raises ConfigProblems where the model's files are named, or there, and cannot be read."""
    section, usual = settings.models[alias], settings.model_files(alias)
    files: ModelFiles | None = None
    if named is not None or usual.exists():
        gguf = section.server == "llama_cpp"
        files = read_model_files(named or usual, gguf=gguf, model_file=section.model_file)
    found = estimate(settings, alias, files)
    return replace(found, notes=(*found.notes, *price_notes(found, quote)))


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
    if not settings.handed_keys_hidden:
        yield from ((problem, True) for problem in _tried(settings.client_keys))


def _tried(read: Callable[[], object]) -> Iterator[str]:
    try:
        read()
    except ConfigProblems as problems:
        yield from (str(problem) for problem in problems.problems)
