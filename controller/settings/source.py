"""What does the config file say, and on which line?

The file decides over money, so it is taken only when nobody else could have written it: a regular file, no link, not
writable by group or world, at most 256 KiB. Lines are looked up only when there is something to complain about.
"""

import os
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from controller.settings.problems import ConfigProblems, Problem, shown

Keys = tuple[str, ...]

FILE_BYTES_MAX: Final = 256 * 1024
_STATEMENT_LINES_MAX: Final = 1000
_DECODE_PLACE: Final = re.compile(r"\s*\(at line (\d+), column \d+\)|\s*\(at end of document\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A parsed config, and enough to say where each key came from."""

    file: str
    tree: dict[str, Any]
    text: str = ""
    overrides: Mapping[Keys, str] = field(default_factory=dict)
    """Keys that the environment set, and by which variable."""

    def problem(self, keys: Keys, value: object, why: str, mend: str) -> Problem:
        """A problem with `keys`, at the line that set them or the nearest table around them."""
        key = ".".join(quoted(part) for part in keys)
        if (variable := self._override(keys)) is not None:
            return Problem(file="environment", line=None, key=variable, value=shown(key, value), why=why, mend=mend)
        return Problem(file=self.file, line=self._line(keys), key=key, value=shown(key, value), why=why, mend=mend)

    def _override(self, keys: Keys) -> str | None:
        found = [self.overrides[keys[:size]] for size in range(len(keys), 0, -1) if keys[:size] in self.overrides]
        return found[0] if found else None

    def _line(self, keys: Keys) -> int | None:
        lines: dict[Keys, int] = {}
        for stated, line in _statements(self.text):
            for size in range(1, len(stated) + 1):
                lines.setdefault(stated[:size], line)
        return next((lines[keys[:size]] for size in range(len(keys), 0, -1) if keys[:size] in lines), None)


def read(path: Path) -> Source:
    """Raises ConfigProblems when the file cannot be had, must not be trusted, or is no TOML."""
    text = _text(path)
    try:
        return Source(file=str(path), text=text, tree=tomllib.loads(text, parse_float=Decimal))
    except tomllib.TOMLDecodeError as error:
        raise ConfigProblems([_syntax(str(path), text, str(error))]) from error


def read_guarded(path: Path, *, bytes_max: int, forbidden_mode: int, also_owner: int | None = None) -> bytes:
    """The bytes of a file that nobody else could have swapped or read. Raises OSError or Untrusted.

    `also_owner` may own it beside us and root: whoever owns the folder could have put any file there.
    """
    # Opened once and judged by the descriptor; non-blocking, so that a fifo cannot hang the start.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(descriptor, "rb") as opened:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise Untrusted(why="not a regular file", mend="give a plain file")
        if found.st_uid not in (0, os.geteuid(), also_owner):
            raise Untrusted(why="owned by another user", mend=f"chown it to uid {os.geteuid()} or root")
        if found.st_mode & forbidden_mode:
            mode = stat.S_IMODE(found.st_mode)
            raise Untrusted(
                why=f"its mode {mode:04o} lets others in", mend=f"chmod {mode & ~forbidden_mode & 0o777:04o} {path}"
            )
        content = opened.read(bytes_max + 1)
    if len(content) > bytes_max:
        raise Untrusted(why=f"larger than {bytes_max} bytes", mend="it is another file, or make it smaller")
    return content


class Untrusted(Exception):
    """The file is there and must not be used."""

    def __init__(self, *, why: str, mend: str) -> None:
        super().__init__(why)
        self.why = why
        self.mend = mend


def opening_problem(path: Path, error: OSError | Untrusted) -> tuple[str, str]:
    """Why a file could not be had, and the mend."""
    match error:
        case Untrusted():
            return error.why, error.mend
        case FileNotFoundError():
            return "there is no such file", "create it, or name another"
        case PermissionError():
            return "may not be read by this user", f"give it to uid {os.geteuid()}"
        case _ if path.is_symlink():
            return "a symbolic link", "name the file itself"
        case _:
            return (error.strerror or "cannot be read").lower(), "name a readable file"


def _text(path: Path) -> str:
    try:
        return read_guarded(path, bytes_max=FILE_BYTES_MAX, forbidden_mode=0o022).decode()
    except (OSError, Untrusted) as error:
        why, mend = opening_problem(path, error)
    except UnicodeDecodeError:
        why, mend = "not UTF-8", "save it as UTF-8"
    raise ConfigProblems([Problem(file=str(path), line=None, key="", value=None, why=why, mend=mend)])


def _syntax(file: str, text: str, message: str) -> Problem:
    place = _DECODE_PLACE.search(message)
    lines = text.splitlines()
    number = int(place[1]) if place and place[1] else max(len(lines), 1)
    said = _DECODE_PLACE.sub("", message)
    content = lines[number - 1].strip() if number <= len(lines) else ""
    why, mend = _explained(said, content)
    key, equals, value = content.partition("=")
    if not equals or content.startswith("["):
        return Problem(file=file, line=number, key=content[:80], value=None, why=why, mend=mend)
    bare = value.partition("#")[0].strip()
    key = key.strip()[:80]
    # What is not yet parsed may be anything, a secret included: only short plain words are repeated.
    harmless = bare if re.fullmatch(r"[a-z]{1,12}", bare) and shown(key, bare) else None
    return Problem(file=file, line=number, key=key, value=harmless, why=why, mend=mend)


def _explained(said: str, content: str) -> tuple[str, str]:
    if re.search(r"=\s*(null|nil|none|~)\s*(#.*)?$", content, re.IGNORECASE):
        return "TOML has no null, and nothing here is unlimited", "remove the line to get the default"
    if said.startswith("Expected ']'") and re.fullmatch(r"\[[A-Za-z0-9_.\-\"]+", content):
        return "the name of this table is not closed", f"write it as {content}]"
    if said.startswith("Cannot declare"):
        return "this table is declared twice", "give each model an alias of its own, and join what belongs together"
    if said.startswith("Cannot overwrite"):
        return "this key is set twice", "keep one of the two"
    if said.startswith("Invalid value"):
        return "not a TOML value", 'texts need quotes, as in "30m"; true and false are written small'
    return f"not TOML: {said[:200]}", "mend the line"


def quoted(part: str) -> str:
    return part if re.fullmatch(r"[A-Za-z0-9_-]+", part) else f'"{part}"'


def _statements(text: str) -> Iterator[tuple[Keys, int]]:
    """Each table and key of a valid TOML text with the line where it begins."""
    lines = text.splitlines()
    table: Keys = ()
    number = 0
    while number < len(lines):
        size, parsed = _statement(lines, number)
        keys = _path(parsed)
        if lines[number].lstrip().startswith("["):
            table = keys
            yield table, number + 1
        elif keys:
            yield (*table, *keys), number + 1
        number += size


def _statement(lines: list[str], begin: int) -> tuple[int, dict[str, Any]]:
    """How many lines the statement at `begin` takes, and what it says."""
    for size in range(1, min(_STATEMENT_LINES_MAX, len(lines) - begin) + 1):
        try:
            return size, tomllib.loads("\n".join(lines[begin : begin + size]))
        except tomllib.TOMLDecodeError:
            continue
    return 1, {}


def _path(parsed: dict[str, Any]) -> Keys:
    """The dotted key of a single statement: as deep as there is one entry that is a table by itself."""
    keys: list[str] = []
    found: Any = parsed
    while isinstance(found, dict) and len(found) == 1:
        ((key, found),) = found.items()
        keys.append(key)
    return tuple(keys)
