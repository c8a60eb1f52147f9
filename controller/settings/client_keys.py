"""Which keys were handed out to clients, and how is that written down?

`gpuwarden keys` makes each key from 256 random bits, shows it once and keeps its SHA-256 alone. A plain hash is right
for such a key, and a slow one would be wrong: nobody can try 2^256 keys, however fast the hash, and the gateway pays
for it with each request. Passwords, which people choose, would need another.

The file is private and closed, as the config is: owned by us, root, or whoever owns its folder; mode 0600; no unknown
word. It is replaced whole, under a lock on its folder, so that readers never see half of it and two commands at once
lose nothing.
"""

import fcntl
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from controller.ids import Randomness
from controller.settings.problems import ConfigProblems, Problem
from controller.settings.sections import CLOSED
from controller.settings.source import Untrusted, opening_problem, read_guarded
from controller.settings.values import text, usd, whole, words

PREFIX: Final = "sk-gpuwarden-"
"""Begins as clients expect of such a key, and tells who finds one where it belongs."""
RANDOM_BYTES: Final = 32
KEYS_MOST: Final = 1024
FILE_BYTES_MAX: Final = 2 * 1024 * 1024
_OTHERS: Final = 0o077
_MEND: Final = "mend it, or move it away and hand out new keys with `gpuwarden keys add`"


def _instant(value: object) -> datetime:
    return value if isinstance(value, datetime) else datetime.fromisoformat(str(value))


Name = Annotated[str, text(r"[A-Za-z0-9][A-Za-z0-9_.@+-]{0,63}", "1 to 64 letters, digits and _ . @ + -")]
Digest = Annotated[str, text(r"sha256:[0-9a-f]{64}", 'write "sha256:" and the digest in hexadecimal')]
Models = Annotated[tuple[str, ...], words(r"[!-~]{1,200}", "name models by their aliases", least=1, most=256)]


class HandedKey(BaseModel):
    """One key, as it is written down: never itself."""

    model_config = CLOSED

    name: Name
    """Whose it is: what logs, metrics and `revoke` say."""
    digest: Digest
    models: Models | None = None
    """Aliases (with all adapters), or ALIAS:ADAPTER; none: every model."""
    requests_per_minute: Annotated[int, whole(1, 60_000)] | None = None
    concurrent: Annotated[int, whole(1, 10_000)] | None = None
    usd_per_day: Annotated[Decimal, usd(1_000_000)] | None = None
    created_at: Annotated[datetime, BeforeValidator(_instant)] | None = None


class _File(BaseModel):
    model_config = CLOSED

    schema_: Annotated[int, whole(1, 1)] = Field(alias="schema")
    keys: Annotated[tuple[HandedKey, ...], Field(max_length=KEYS_MOST)]


def made_key(randomness: Randomness) -> str:
    return PREFIX + randomness.token_hex(RANDOM_BYTES)


def digest_of(key: str) -> str:
    return f"sha256:{hashlib.sha256(key.encode()).hexdigest()}"


def read_keys(path: Path) -> tuple[HandedKey, ...] | None:
    """What was handed out; None where no key ever was. Raises ConfigProblems."""
    try:
        content = read_guarded(path, bytes_max=FILE_BYTES_MAX, forbidden_mode=_OTHERS, also_owner=_owner(path.parent))
    except FileNotFoundError:
        return None
    except (OSError, Untrusted) as error:
        raise _problem(path, *opening_problem(path, error)) from error
    try:
        keys = _File.model_validate(json.loads(content)).keys
    except (ValueError, RecursionError) as error:  # pydantic's errors are ValueErrors
        raise _problem(path, _said(error), _MEND) from error
    if len({key.name for key in keys}) != len(keys) or len({key.digest for key in keys}) != len(keys):
        raise _problem(path, "names a key twice", _MEND)
    return keys


def _said(error: Exception) -> str:
    """Where it is at fault; never what stands there."""
    if not isinstance(error, ValidationError):
        return "not JSON"
    first = error.errors(include_input=False, include_url=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def change_keys(path: Path, change: Callable[[tuple[HandedKey, ...]], tuple[HandedKey, ...]]) -> None:
    """Writes what `change` makes of the present keys. Raises ConfigProblems, OSError, and what `change` raises."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _alone(path.parent) as folder:
        _write(path, change(read_keys(path) or ()))
        os.fsync(folder)


@contextmanager
def _alone(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def _write(path: Path, keys: tuple[HandedKey, ...]) -> None:
    entries = [key.model_dump(mode="json", exclude_none=True) for key in keys]
    content = json.dumps({"schema": 1, "keys": entries}, indent=1).encode()
    descriptor, beside = tempfile.mkstemp(dir=path.parent, prefix=".clients-")  # 0600, and a name that nobody had
    try:
        with open(descriptor, "wb") as opened:
            if os.geteuid() == 0 and (owner := _owner(path.parent)) is not None:
                os.fchown(descriptor, owner, -1)  # root writes for the gateway's user, who must be able to read it
            opened.write(content + b"\n")
            opened.flush()
            os.fsync(descriptor)
        os.replace(beside, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside)
        raise


def _owner(folder: Path) -> int | None:
    try:
        return folder.stat().st_uid
    except OSError:
        return None


def unlimited(named: Mapping[str, str]) -> Iterator[HandedKey]:
    """Keys that the config names by digest alone, under the first word behind it, or the digest's beginning."""
    taken: set[str] = set()
    for digest, comment in named.items():
        name = re.sub(r"[^A-Za-z0-9_.@+-]", "", (comment.split() or [""])[0])[:64].lstrip("_.@+-")
        if not name or name in taken:
            name = f"sha256-{digest[:12]}"
        taken.add(name)
        yield HandedKey(name=name, digest=f"sha256:{digest}")


def shown(key: HandedKey) -> dict[str, Any]:
    """Without the digest, which is nobody's business."""
    return key.model_dump(mode="json", exclude={"digest"})


def _problem(path: Path, why: str, mend: str) -> ConfigProblems:
    return ConfigProblems([Problem(file=str(path), line=None, key="", value=None, why=why, mend=mend)])
