"""Where do store, evidence and sockets lie?

A `state_dir` in the config decides for all of them. Without one, systemd's folders are taken; a config in
/etc/gpuwarden has the same folders by name, so that an operator's command finds the daemon's socket; any other config
keeps its state in a folder beside itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from controller.settings.problems import ConfigProblems, Problem

ETC: Final = Path("/etc/gpuwarden")
GATEWAYS: Final = Path("/var/lib/gpuwarden-gateway")
"""The folder of the gateway's user, which the daemon's cannot read."""
SOCKET_BYTES_MAX: Final = 107
"""Longest path that a Unix socket can be bound to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    state: Path
    logs: Path
    runtime: Path
    gateways: Path
    """What gateways read and keep: clients' keys, and what they spent."""
    beside: str = ""
    """What the names of store and evidence have more where the usual ones may not be used."""

    @property
    def usual_store(self) -> Path:
        return self.state / "gpuwarden.db"

    @property
    def store(self) -> Path:
        return self.state / f"gpuwarden.db{self.beside}"

    @property
    def evidence(self) -> Path:
        return self.logs / f"evidence{self.beside}.jsonl"

    @property
    def clients(self) -> Path:
        return self.gateways / "clients.json"

    @property
    def spent(self) -> Path:
        return self.gateways / "spent.json"

    @property
    def api_socket(self) -> Path:
        return self.runtime / "api.sock"

    @property
    def gateway_socket(self) -> Path:
        return self.runtime / "gateway.sock"


def find_config(option: Path | None, environment: Mapping[str, str]) -> Path:
    """The config to read: as named, else the first that exists. Raises ConfigProblems if there is none."""
    if option is not None:
        return option
    if named := environment.get("GPUWARDEN_CONFIG"):
        return Path(named)
    usual = (Path("config.toml"), ETC / "config.toml")
    for path in usual:
        if path.exists() or path.is_symlink():
            return path
    problem = Problem(
        file=" and ".join(str(path) for path in usual),
        line=None,
        key="",
        value=None,
        why="there is no config",
        mend="write one after config.example.toml, or name it with --config",
    )
    raise ConfigProblems([problem])


def places(state_dir: str | None, config: Path, environment: Mapping[str, str]) -> Places:
    """Raises ConfigProblems if a socket's path would be too long."""
    folder = config.absolute().parent
    if state_dir is not None:
        state = folder / Path(state_dir).expanduser()
        found = Places(state=state, logs=state, runtime=state, gateways=state)
    elif "STATE_DIRECTORY" in environment:
        state = _first(environment["STATE_DIRECTORY"])
        found = Places(
            state=state,
            logs=_first(environment.get("LOGS_DIRECTORY", str(state))),
            runtime=_first(environment.get("RUNTIME_DIRECTORY", str(state))),
            gateways=GATEWAYS if folder == ETC else state,
        )
    elif folder == ETC:
        found = Places(
            state=Path("/var/lib/gpuwarden"),
            logs=Path("/var/log/gpuwarden"),
            runtime=Path("/run/gpuwarden"),
            gateways=GATEWAYS,
        )
    else:
        state = folder / "state"
        found = Places(state=state, logs=state, runtime=state, gateways=state)
    _require_bindable(found, config)
    return found


def _first(folders: str) -> Path:
    """systemd joins several folders by colons."""
    return Path(folders.partition(":")[0])


def _require_bindable(found: Places, config: Path) -> None:
    if len(bytes(found.gateway_socket)) > SOCKET_BYTES_MAX:
        problem = Problem(
            file=str(config),
            line=None,
            key="state_dir",
            value=f'"{found.runtime}"',
            why=f"too long for a socket's path, which has at most {SOCKET_BYTES_MAX} bytes",
            mend="set state_dir to a shorter path",
        )
        raise ConfigProblems([problem])
