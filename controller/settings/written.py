"""What does the whole config hold, and does it hold together?

`take` turns a parsed source into the closed tree of sections, or raises every problem found in it: what a single value
may be, which keys exist, and what two keys may not say together.
"""

import ipaddress
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, Field, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from controller.settings.model_rules import Contradiction, contradictions, keys_twice
from controller.settings.models import ModelSection
from controller.settings.overrides import named_section, nested_section
from controller.settings.problems import ConfigProblems, Problem, nearest
from controller.settings.sections import (
    AlarmsSection,
    FilePath,
    GatewaySection,
    PolicySection,
    RunpodSection,
    UsdPerDay,
)
from controller.settings.source import Keys, Source
from controller.settings.values import REFUSED, one_of, text, write_span

S = TypeVar("S", bound=BaseModel)


class Written(BaseSettings):
    """The config file."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, text(r"[a-z0-9][a-z0-9_.-]{0,63}", "write 1 to 64 of a-z, 0-9, - _ and .")]
    """Owner: carried by every machine. Of two environments with one name neither starts a model beside the other's
    machines of it, and either may in the end claim and stop them."""
    usd_per_day: UsdPerDay = Decimal(40)
    """US dollars a UTC day; beyond it nothing new starts. Too low: refusals by noon. Too high: a fault may cost it."""
    state_dir: FilePath | None = None
    """Folder of store, evidence and sockets; default: systemd's folders, else `state` beside the config."""
    log_level: Annotated[str, one_of("debug", "info", "warning", "error")] = "info"
    """Least important line that is logged: debug, info, warning or error."""
    runpod: RunpodSection = Field(default_factory=RunpodSection)
    """The account at Runpod."""
    gateway: GatewaySection = Field(default_factory=GatewaySection)
    """The fixed address."""
    policy: PolicySection = Field(default_factory=PolicySection)
    """Rhythms and bounds."""
    alarms: AlarmsSection = Field(default_factory=AlarmsSection)
    """Who is told."""
    models: dict[str, ModelSection] = Field(default_factory=dict)
    """One table per model, by alias."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """One source: file and environment as `source` and `overrides` read them.

        The library's own sources know no lines, and pass a misspelt variable over in silence: a limit would be absent.
        """
        return (init_settings,)


def take(source: Source, problems: list[Problem]) -> Written:
    """The tree that `source` writes. Raises ConfigProblems with `problems` and all others."""
    written: Written | None = None
    try:
        written = Written.model_validate(source.tree)
    except ValidationError as error:
        errors = error.errors(include_url=False)
        split = {found["loc"][:2] for found in errors if _splits_an_alias(found)}
        # What an alias that a dot cut in two lacks is there, in the table behind the dot.
        told = [found for found in errors if found["type"] != "missing" or found["loc"][:2] not in split]
        problems.extend(_problem(source, found) for found in told)
    problems.extend(
        source.problem((*keys, found.key) if found.key else keys, found.value, found.why, found.mend)
        for keys, found in _contradictions(source.tree)
    )
    if problems or written is None:
        raise ConfigProblems(sorted(problems, key=lambda problem: (problem.line or 0, problem.key)))
    return written


def _problem(source: Source, found: ErrorDetails) -> Problem:
    keys = tuple(str(part) for part in found["loc"] if isinstance(part, str))
    why, mend = _explained(keys, found)
    value = None if found["type"] == "missing" else found["input"]
    return source.problem(keys, value, why, mend)


def _explained(keys: Keys, found: ErrorDetails) -> tuple[str, str]:
    context = found.get("ctx", {})
    match found["type"]:
        case kind if kind == REFUSED:
            return str(context["why"]), str(context["mend"])
        case "extra_forbidden":
            return "no such key", _nearest_key(keys, found["input"])
        case "missing":
            return "missing", f"add {keys[-1]} = …"
        case "model_type" | "dict_type" | "model_attributes_type":
            return "not a table", f"write it as [{'.'.join(keys)}]"
        case _:
            return found["msg"].lower(), "see config.example.toml"


def _splits_an_alias(found: ErrorDetails) -> bool:
    keys = found["loc"]
    return found["type"] == "extra_forbidden" and _is_alias_with_dot(keys, found["input"])


def _is_alias_with_dot(keys: tuple[int | str, ...], value: object) -> bool:
    return isinstance(value, dict) and len(keys) > 2 and keys[0] == "models"


def _nearest_key(keys: Keys, value: object) -> str:
    if _is_alias_with_dot(keys, value):
        return f'an alias with a dot needs quotes: [models."{".".join(keys[1:])}"]'
    return nearest(keys[-1], _keys_at(keys[:-1]))


def _keys_at(keys: Keys) -> list[str]:
    section: type[BaseModel] = Written
    rest = list(keys)
    while rest:
        entry = next(entry for name, entry in section.model_fields.items() if (entry.alias or name) == rest[0])
        if (named := named_section(entry)) is not None:
            section, rest = named, rest[2:]
        else:
            section, rest = nested_section(entry) or section, rest[1:]
    return [entry.alias or name for name, entry in section.model_fields.items()]


def _contradictions(tree: Mapping[str, Any]) -> Iterator[tuple[Keys, Contradiction]]:
    """What each section that can be read by itself says against itself, whatever is wrong with the others."""
    if (runpod := _alone(RunpodSection, tree.get("runpod", {}))) is not None:
        yield from ((("runpod",), found) for found in _runpod(runpod))
        yield from ((("runpod",), found) for found in _own_names(runpod, tree.get("models")))
    if (gateway := _alone(GatewaySection, tree.get("gateway", {}))) is not None:
        yield from ((("gateway",), found) for found in _gateway(gateway))
    if (policy := _alone(PolicySection, tree.get("policy", {}))) is not None:
        yield from ((("policy",), found) for found in _policy(policy))
    if (alarms := _alone(AlarmsSection, tree.get("alarms", {}))) is not None:
        yield from ((("alarms",), found) for found in keys_twice(alarms, "webhook"))
    models = tree.get("models")
    for alias, table in models.items() if isinstance(models, dict) else ():
        if (model := _alone(ModelSection, table)) is not None:
            yield from ((("models", alias), found) for found in contradictions(alias, model))
            yield from ((("models", alias), found) for found in _strangers(runpod, model))


def _alone(section: type[S], table: object) -> S | None:
    try:
        return section.model_validate(table)
    except ValidationError:
        return None


def _runpod(section: RunpodSection) -> Iterator[Contradiction]:
    yield from keys_twice(section, "key")
    for key, url in (("base_url", section.api_url), ("proxy_url", section.proxy_url)):
        if url.startswith("http://") and not is_loopback(url.removeprefix("http://").partition("/")[0]):
            yield Contradiction(
                key=key, value=url, why="keys would travel in the clear", mend="write https://; http:// is for loopback"
            )
    if "{pod}" not in section.proxy_url or "{port}" not in section.proxy_url:
        yield Contradiction(
            key="proxy_url", value=section.proxy_url, why="does not name {pod} and {port}", mend="put both in"
        )


def _own_names(runpod: RunpodSection, models: object) -> Iterator[Contradiction]:
    """What is named as another program's is never stopped: no machine of our own may be named so."""
    aliases = models if isinstance(models, dict) else {}
    for foreign in runpod.foreign_prefixes:
        if runpod.prefix.startswith(foreign) or any(_begins_a_name(foreign, runpod, alias) for alias in aliases):
            yield Contradiction(
                key="foreign_prefixes",
                value=foreign,
                why="our own machines are named so, and what is named so is never stopped",
                mend="name only other programs' machines, or change prefix or the alias",
            )


def _begins_a_name(foreign: str, runpod: RunpodSection, alias: str) -> bool:
    stem = f"{runpod.prefix}{alias}-"  # a request id follows
    return stem.startswith(foreign) or re.fullmatch(rf"{re.escape(stem)}r[0-9a-f]{{0,16}}", foreign) is not None


def _strangers(runpod: RunpodSection | None, model: ModelSection) -> Iterator[Contradiction]:
    """An account says once that its models may run where others can look in (CX-2)."""
    if model.cloud_type == "COMMUNITY" and runpod is not None and not runpod.allow_community:
        yield Contradiction(
            key="cloud_type",
            value="COMMUNITY",
            why="on strangers' machines they see weights, requests and keys",
            mend='write "SECURE", or allow_community = true under [runpod]',
        )


def _gateway(section: GatewaySection) -> Iterator[Contradiction]:
    if not 1 <= int(section.listen.rpartition(":")[2]) <= 65535:
        yield Contradiction(key="listen", value=section.listen, why="no such port", mend="write a port from 1 to 65535")


def is_loopback(address: str) -> bool:
    """Does an address with or without a port stay on this machine?"""
    host = address if address.count(":") == 0 or address.endswith("]") else address.rpartition(":")[0]
    host = host.strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _policy(section: PolicySection) -> Iterator[Contradiction]:
    rules = (
        ("lease", section.lease > 2 * section.call_limit, "longer than two call_limits"),
        ("lease_renewal", 2 * section.lease_renewal < section.lease, "less than half of lease"),
        ("listing_steady", section.listing_fast <= section.listing_steady, "at least listing_fast"),
        ("listing_idle", section.listing_steady <= section.listing_idle, "at least listing_steady"),
        (
            "stream_lease_renewal",
            2 * section.stream_lease_renewal < section.stream_lease,
            "less than half of stream_lease",
        ),
        ("hold_max", section.hold_first <= section.hold_max, "at least hold_first"),
    )
    for key, holds, what in rules:
        if not holds:
            value = getattr(section, key)
            yield Contradiction(key=key, value=write_span(value), why="does not fit", mend=f"it must be {what}")
