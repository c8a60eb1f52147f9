"""What did the operator configure?

One TOML file for all processes, with overrides from the environment. `load` takes it whole or raises every problem it
has; what it yields are the policies of `core`, the sections as they were written, and the places and secrets that a
composition root asks for. Nobody but composition roots and the CLI sees any of it, and nothing is read at import.

The tree is a pydantic-settings class; what it is made from is read by `source` and `overrides`, which know lines.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from controller.core.errors import Refusal
from controller.core.policy import HostingPolicy, ModelPolicy
from controller.settings import client_keys, derived, hub_sizes, keys, places
from controller.settings.client_keys import HandedKey
from controller.settings.hub_sizes import HubSize
from controller.settings.models import ModelSection
from controller.settings.overrides import overridden
from controller.settings.places import Places, find_config
from controller.settings.problems import ConfigProblems, Problem
from controller.settings.source import Source, read
from controller.settings.written import Written, is_loopback, take

__all__ = [
    "ConfigProblems",
    "HandedKey",
    "Places",
    "Problem",
    "Settings",
    "find_config",
    "is_loopback",
    "load",
    "load_accepted",
    "settled",
    "sized",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A config that was taken."""

    file: Path
    """Relative paths in it begin at its folder."""
    written: Written
    places: Places
    tree: Mapping[str, Any] = field(repr=False)
    environment: Mapping[str, str] = field(repr=False)
    hub_sizes: Mapping[str, HubSize] = field(default_factory=dict)
    """Of those models whose size the hub told and the config does not state, by alias."""

    @property
    def models(self) -> Mapping[str, ModelSection]:
        return self.written.models

    def hosting_policy(self) -> HostingPolicy:
        return derived.hosting_policy(self.written)

    def model_policies(self) -> dict[str, ModelPolicy]:
        return derived.model_policies(self.written)

    def key_secret(self, alias: str) -> str:
        """Name of the provider's secret with the key of this model's server."""
        return derived.key_secret(alias, self.models[alias])

    def disk_gb(self, alias: str) -> int:
        """Container disk to ask for first: beside the model's volume, if it has any."""
        section = self.models[alias]
        found = derived.volume_disk_gb(section) if section.volumes else derived.fetching_disk_gb(section)
        if found is None:
            raise LookupError(alias)  # refused by `load`
        return found

    def fetching_disk_gb(self, alias: str) -> int | None:
        """Container disk to ask for where the weights lie on it; None where no machine has as much."""
        return derived.fetching_disk_gb(self.models[alias])

    def model_files(self, alias: str) -> Path:
        """The folder where a model's files, or its config.json alone, are looked for; it need not exist."""
        return self._folder / "models" / alias

    def runpod_key(self) -> SecretStr:
        """The account's key. Raises ConfigProblems if there is none or it must not be trusted."""
        section = self.written.runpod
        found = self._secret(section.key_credential, section.key_file, "runpod")
        if found is None:
            raise keys.missing("the account's key", "runpod", self._folder)
        return found

    def server_key(self, alias: str) -> SecretStr:
        """The key of a model's server, for the gateway. Raises ConfigProblems as `runpod_key` does."""
        section = self.models[alias]
        found = self._secret(section.key_credential, section.key_file, alias)
        if found is None:
            raise keys.missing(f"the key of {alias}'s server", alias, self._folder)
        return found

    def probe_key(self, alias: str) -> SecretStr | None:
        """The same key for the daemon's probe, only where the config names one."""
        section = self.models[alias]
        if section.probe_key_credential is None and section.probe_key_file is None:
            return None
        return self._secret(section.probe_key_credential, section.probe_key_file, alias)

    def webhook(self) -> SecretStr | None:
        """Where alarms are posted, if anywhere."""
        section = self.written.alarms
        if section.webhook_credential is None and section.webhook_file is None:
            return None
        return self._secret(section.webhook_credential, section.webhook_file, "webhook")

    def client_keys(self, *, once_closed: bool = False) -> tuple[HandedKey, ...] | None:
        """Who may use the gateway: keys of the config, of its file, and those handed out; None: everybody who reaches
        it. Raises ConfigProblems. An address that was `once_closed` never opens, whatever became of its files."""
        section = self.written.gateway
        named = {entry.removeprefix("sha256:"): "" for entry in section.keys}
        if section.keys_file is not None:
            named |= keys.key_digests(self.client_key_files[1])
        handed = client_keys.read_keys(self.places.clients)
        if once_closed:
            return (*client_keys.unlimited(named), *(handed or ()))
        if not named and not handed and not is_loopback(section.listen):
            # An emptied file must not open the address to everybody.
            raise keys.open_to_everybody(self.file, section.listen)
        if not named and handed is None and section.keys_file is None:
            return None
        return (*client_keys.unlimited(named), *(handed or ()))

    @property
    def client_key_files(self) -> tuple[Path, ...]:
        """What `client_keys` reads, beside the config."""
        file = self.written.gateway.keys_file
        return (self.places.clients, *(() if file is None else (self._folder / Path(file).expanduser(),)))

    @property
    def handed_keys_hidden(self) -> bool:
        """Whose folder is closed to this user: nothing can be said of them."""
        folder = self.places.gateways
        return folder.is_dir() and not os.access(folder, os.X_OK)

    def accepted(self) -> str:
        """This config as text, to be taken again by `load_accepted` when the file went bad. Holds no secret."""
        return _written({"schema": 1, "file": str(self.file.absolute()), "config": self._daemons})

    def digest(self) -> str:
        """By this an operator confirms exactly this config, wherever its file lies (SHA-256, hexadecimal)."""
        return hashlib.sha256(_written(self._daemons).encode()).hexdigest()

    @property
    def _daemons(self) -> Mapping[str, Any]:
        """All but what is for gateways alone."""
        return {key: value for key, value in self.tree.items() if key != "gateway"}

    def _secret(self, credential: str | None, file: str | None, usual: str) -> SecretStr | None:
        return keys.secret(
            credential=credential, file=file, usual=usual, folder=self._folder, environment=self.environment
        )

    @property
    def _folder(self) -> Path:
        return self.file.absolute().parent


def load(path: Path, environment: Mapping[str, str]) -> Settings:
    """Raises ConfigProblems with everything that is wrong. No secret is opened yet."""
    source, problems = overridden(read(path), environment, Written)
    return settled(path, source, problems, environment)


def sized(settings: Settings, sizes: Mapping[str, HubSize]) -> Settings:
    """With what the hub told of sizes where the config states none; `sizes` by `hub_sizes.what`. One for which no disk
    would do is not taken: it stands in the way of nothing that the config says."""
    told: dict[str, HubSize] = {}
    models = dict(settings.models)
    for alias, section in settings.models.items():
        size = sizes.get(hub_sizes.what(section))
        if size is None or "model_size_gb" in section.model_fields_set:
            continue
        filled = section.model_copy(update={"model_size_gb": size.size_gb})
        filled.model_fields_set.discard("model_size_gb")
        if section.volumes or derived.fetching_disk_gb(filled) is not None:
            models[alias], told[alias] = filled, size
    return replace(settings, written=settings.written.model_copy(update={"models": models}), hub_sizes=told)


def load_accepted(text: str, environment: Mapping[str, str]) -> Settings:
    """The config that `Settings.accepted` wrote; its gateway section is the default. Raises ConfigProblems."""
    try:
        content = json.loads(text, parse_float=Decimal)
        file, tree = Path(content["file"]), dict(content["config"])
    except (ValueError, KeyError, TypeError) as error:
        problem = Problem(
            file="the last accepted config",
            line=None,
            key="",
            value=None,
            why="cannot be read back",
            mend="mend the config file",
        )
        raise ConfigProblems([problem]) from error
    return settled(file, Source(file="the last accepted config", tree=tree), [], environment)


def settled(path: Path, source: Source, problems: list[Problem], environment: Mapping[str, str]) -> Settings:
    """What `source` says, with its places. Raises ConfigProblems with `problems` and all others."""
    written = take(source, problems)
    settings = Settings(
        file=path,
        written=written,
        places=places.places(written.state_dir, path, environment),
        tree=source.tree,
        environment=environment,
    )
    settings = sized(settings, hub_sizes.read(settings.places.state))
    try:
        settings.hosting_policy()
        settings.model_policies()
    except Refusal as error:
        # The sections' own rules are meant to say it better; this is the net under them.
        raise ConfigProblems([source.problem((), None, str(error), "see config.example.toml")]) from error
    return settings


def _written(tree: Mapping[str, Any]) -> str:
    return json.dumps(tree, default=_number, sort_keys=True)


def _number(value: object) -> float:
    if isinstance(value, Decimal):
        return float(value)
    raise TypeError(type(value).__name__)
