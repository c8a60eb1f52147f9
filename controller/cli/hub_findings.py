"""What follows for the config from what the hub said?

Sizes are kept beside the store, for the daemon and for checks that ask nobody. A download that would be refused is a
fault of the config, since every start would be paid for until it fails; what the hub did not tell is none.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final, assert_never

import anyio

from controller.cli.findings import Findings
from controller.cli.hub import Hidden, Listed, Said, Unknown, ask_hub
from controller.clock import SystemClock
from controller.settings import Problem, Settings, hub_sizes, sized
from controller.settings.hub_sizes import HubSize

_SIZES_DIFFER: Final = 1.05


def look_online(settings: Settings, address: str) -> Findings:
    """Ask the hub at this address for every model, and keep the sizes."""
    said = anyio.run(partial(ask_hub, address, settings.models))
    now = SystemClock().now().replace(microsecond=0)
    told = {
        hub_sizes.what(settings.models[alias]): HubSize(size_bytes=answer.size_bytes, asked_at=now)
        for alias, answer in said.items()
        if isinstance(answer, Listed) and answer.size_bytes is not None
    }
    kept = hub_sizes.read(settings.places.state) | told
    notes = list(_notes(settings, said))
    try:
        hub_sizes.write(settings.places.state, kept)
    except OSError as error:
        why = (error.strerror or type(error).__name__).lower()
        notes.append(f"sizes are not kept in {settings.places.state} ({why}): what runs does not know them")
    found = sized(settings, kept)
    return Findings(settings=found, faults=tuple(_faults(settings, said)), notes=tuple(notes))


def _faults(settings: Settings, said: Mapping[str, Said]) -> Iterator[Problem]:
    for alias, answer in said.items():
        section = settings.models[alias]
        if section.hf_token_secret is not None:
            continue
        if isinstance(answer, Listed) and answer.gated:
            yield _problem(
                settings,
                f"models.{alias}.hf_token_secret",
                None,
                f"missing: {section.model} is gated, and downloads without a token are refused",
                "ask for access at the hub, store a token as a secret at the provider, and name that secret",
            )
        elif isinstance(answer, Hidden):
            yield _problem(
                settings,
                f"models.{alias}.model",
                f'"{section.model}"',
                "the hub shows no such repository to somebody without a token",
                "mend the name; or, if it is private, name the secret that holds a token with hf_token_secret",
            )


def _notes(settings: Settings, said: Mapping[str, Said]) -> Iterator[str]:
    for alias, answer in said.items():
        section = settings.models[alias]
        match answer:
            case Unknown(why=why):
                yield f"{alias}: the hub did not tell about {section.model}: {why}"
            case Hidden():
                if section.hf_token_secret is not None:
                    yield f"{alias}: {section.model} is private or not there: write model_size_gb, which only it tells"
            case Listed(size_bytes=size):
                yield from _about_size(settings, alias, size)
            case never:
                assert_never(never)


def _about_size(settings: Settings, alias: str, size_bytes: int | None) -> Iterator[str]:
    section = settings.models[alias]
    if size_bytes is None:
        yield f"{alias}: which of the files of {section.model} are fetched cannot be told: write model_size_gb"
        return
    if section.model_size_gb is None or "model_size_gb" not in section.model_fields_set:
        return
    stated, told = float(section.model_size_gb), size_bytes / 10**9
    if not stated / _SIZES_DIFFER <= told <= stated * _SIZES_DIFFER:
        yield f"{alias}: model_size_gb = {section.model_size_gb}, but the hub says {told:.1f}"


def _problem(settings: Settings, key: str, value: str | None, why: str, mend: str) -> Problem:
    return Problem(file=str(settings.file), line=None, key=key, value=value, why=why, mend=mend)
