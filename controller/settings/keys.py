"""Where does a secret come from, and who else could have read it?

A systemd credential, or a file that only its owner may read; opened once, never through a link, and bounded. The text
of a problem never holds the content.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pydantic import SecretStr

from controller.settings.problems import ConfigProblems, Problem
from controller.settings.source import Untrusted, opening_problem, read_guarded

SECRET_BYTES_MAX: Final = 4096
_PRIVATE: Final = 0o077
# systemd grants a unit's user by an ACL where it can, and that shows as a group bit of root's file.
_PRIVATE_CREDENTIAL: Final = 0o037
_DIGEST_LINE: Final = re.compile(r"sha256:([0-9a-f]{64})(\s+.*)?", re.ASCII)


def secret(
    *, credential: str | None, file: str | None, usual: str, folder: Path, environment: Mapping[str, str]
) -> SecretStr | None:
    """The secret that the config names, else the one of the usual name; None if there is none.

    Raises ConfigProblems when it is named and cannot be had, or is there and must not be trusted.
    """
    directory = environment.get("CREDENTIALS_DIRECTORY")
    if credential is not None:
        return _read(_credential(credential, directory), forbidden_mode=_PRIVATE_CREDENTIAL)
    if file is not None:
        return _read(folder / Path(file).expanduser(), forbidden_mode=_PRIVATE)
    if directory is not None and (path := Path(directory) / usual).exists():
        return _read(path, forbidden_mode=_PRIVATE_CREDENTIAL)
    beside = folder / "keys" / usual
    # A folder that is closed to us holds nothing for us; Path.exists would raise there.
    return _read(beside, forbidden_mode=_PRIVATE) if os.path.lexists(beside) else None


def secret_at(path: Path) -> SecretStr:
    """The secret in a private file. Raises ConfigProblems."""
    return _read(path, forbidden_mode=_PRIVATE)


def missing(what: str, usual: str, folder: Path) -> ConfigProblems:
    """Nobody gave a secret that is needed."""
    return ConfigProblems(
        [_problem(folder / "keys" / usual, f"{what} is missing", "put it there with mode 0600, or name key_file")]
    )


def open_to_everybody(config: Path, listen: str) -> ConfigProblems:
    """There is no client key, beyond loopback."""
    why = "everybody who reaches this address could spend: it is not loopback, and there are no client keys"
    mend = "hand one out with `gpuwarden keys add`, or listen on 127.0.0.1"
    return ConfigProblems(
        [Problem(file=str(config), line=None, key="gateway.listen", value=f'"{listen}"', why=why, mend=mend)]
    )


def key_digests(path: Path) -> dict[str, str]:
    """The clients' key digests in a file, one a line, each with the name behind it if any; # begins a comment."""
    try:
        content = read_guarded(path, bytes_max=256 * 1024, forbidden_mode=0o022).decode()
    except (OSError, Untrusted) as error:
        raise ConfigProblems([_problem(path, *opening_problem(path, error))]) from error
    except UnicodeDecodeError as error:
        raise ConfigProblems([_problem(path, "not UTF-8", "save it as UTF-8")]) from error
    digests: dict[str, str] = {}
    for number, line in enumerate(content.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        if (match := _DIGEST_LINE.fullmatch(line.strip())) is None:
            why, mend = "not a digest", 'write "sha256:" and 64 hexadecimal digits'
            raise ConfigProblems([_problem(path, why, mend, line=number)])
        digests[match[1]] = (match[2] or "").strip()
    return digests


def _credential(name: str, directory: str | None) -> Path:
    if directory is None:
        why = "the config names a systemd credential, and systemd gave none"
        raise ConfigProblems([_problem(Path(name), why, "start it as its unit, or name a file instead")])
    return Path(directory) / name


def _read(path: Path, *, forbidden_mode: int) -> SecretStr:
    try:
        content = read_guarded(path, bytes_max=SECRET_BYTES_MAX + 2, forbidden_mode=forbidden_mode)
    except (OSError, Untrusted) as error:
        raise ConfigProblems([_problem(path, *opening_problem(path, error))]) from error
    found = content.removesuffix(b"\n").removesuffix(b"\r")
    if not 1 <= len(found) <= SECRET_BYTES_MAX or not all(0x21 <= byte <= 0x7E for byte in found):
        why = "does not hold one secret: 1 to 4096 printable characters without spaces, and at most a newline"
        raise ConfigProblems([_problem(path, why, "write the secret alone into it")])
    return SecretStr(found.decode("ascii"))


def _problem(path: Path, why: str, mend: str, *, line: int | None = None) -> Problem:
    return Problem(file=str(path), line=line, key="", value=None, why=why, mend=mend)
