"""What was recorded, what is being recorded, and is the record whole?

The file is the record for others to read; the store is the one it was copied from. `verify` checks the file's chain
through all rotations that are left, and then each of its lines against the store.
"""

import gzip
import json
import math
import re
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TextIO

import anyio

from controller.cli import offline
from controller.cli.exits import Exit, Failure
from controller.cli.link import Daemon, Link
from controller.cli.output import cell, say
from controller.cli.tail import Tail
from controller.core.evidence_chain import forgotten
from controller.core.evidence_chain import verify as verify_chain
from controller.settings import Settings

Body = dict[str, Any]

_POLL_SECONDS: Final = 0.25
_PAGE: Final = 1000
_ON_ITS_WAY_SECONDS: Final = 5.0
"""A line that is committed is in the file by then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLine:
    """One line of the evidence files, and where it stands."""

    file: Path
    number: int
    content: Body


async def show(settings: Settings, *, lines: int, as_json: bool) -> Exit:
    """The newest lines: of the file, else of the daemon, else of the store."""
    code, found = Exit.OK, [line.content for line in _filed(settings.places.evidence)][-lines:]
    if not found:
        stored, source = await _stored(settings, after=0)
        found, code = stored[-lines:], Exit.OK if source == "daemon" else Exit.UNREACHABLE
    for line in found:
        show_line(line, as_json=as_json)
    return code


async def follow(settings: Settings, *, lines: int, as_json: bool) -> None:
    """Until cancelled."""
    path = settings.places.evidence
    if not path.exists():
        say(f"no evidence at {path} yet; waiting for it")
    tail = Tail(path)
    try:
        begin = tail.lines()
        for text in begin[-lines:] if lines else ():
            _show_text(text, as_json=as_json)
        while True:
            await anyio.sleep(_POLL_SECONDS)
            for text in tail.lines():
                _show_text(text, as_json=as_json)
    finally:
        tail.close()


def _show_text(text: str, *, as_json: bool) -> None:
    if as_json:
        print(text, flush=True)
        return
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        line = None
    if isinstance(line, dict):
        show_line(line, as_json=False)
    else:
        say(f"unreadable line: {text[:80]!r}")


def show_line(line: Body, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(line, ensure_ascii=False), flush=True)
        return
    phase, proof = _object(line.get("phase")), _object(line.get("evidence"))
    parts = [
        line.get("deployment") or line.get("model"),
        f"{phase.get('from')} → {phase.get('to')}" if phase else None,
        line.get("obligation"),
        line.get("reason"),
        f"{proof.get('kind')} ({proof.get('reference')})" if proof else None,
        line.get("detail"),
    ]
    words = " ".join(cell(part) for part in parts if part not in (None, "", {}))
    print(f"{cell(line.get('at'))} {cell(line.get('event')):<22} {words}".rstrip(), flush=True)


def _object(value: Any) -> Body:
    return value if isinstance(value, dict) else {}


async def verify(settings: Settings, *, as_json: bool) -> Exit:
    """Raises Failure naming the first line that does not hold."""
    lines = list(_filed(settings.places.evidence))
    if not lines:
        raise Failure(Exit.FAILED, f"no evidence at {settings.places.evidence}")
    if (broken := verify_chain(line.content for line in lines)) is not None:
        raise _not_whole(lines[broken.position - 1], broken.what)
    source, stored = await _compared(settings, lines)
    answer = {"ok": True, "lines": len(lines), "compared": stored, "source": source, "hash": lines[-1].content["hash"]}
    if as_json:
        print(json.dumps({"schema": 1, **answer}))
    else:
        say(f"whole: {len(lines)} lines, {stored} of them compared with the {source}")
    return Exit.OK if source == "daemon" else Exit.UNREACHABLE


def _not_whole(line: FileLine, what: str) -> Failure:
    return Failure(Exit.FAILED, f"{line.file}:{line.number}: seq {line.content.get('seq')}: {what}")


def _filed(path: Path) -> Iterator[FileLine]:
    """Every line in the evidence files, oldest first. Raises Failure on one that is no JSON object."""
    for file in rotations(path):
        try:
            with _opened(file) as content:
                for number, text in enumerate(content, start=1):
                    yield FileLine(file=file, number=number, content=_parsed(file, number, text))
        except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
            raise Failure(Exit.FAILED, f"{file}: cannot be read: {error}") from error


def _opened(file: Path) -> TextIO:
    if file.suffix == ".gz":
        return gzip.open(file, "rt", encoding="utf-8")
    return file.open(encoding="utf-8")


def rotations(path: Path) -> list[Path]:
    """The file and what it was rotated to, oldest first: .2.gz, .1, and the file itself."""
    numbered: dict[int, Path] = {}
    for found in sorted(path.parent.glob(f"{path.name}.*")) if path.parent.is_dir() else ():
        if match := re.fullmatch(r"\.(\d{1,6})(\.gz)?", found.name.removeprefix(path.name)):
            numbered.setdefault(int(match[1]), found)
    files = [numbered[number] for number in sorted(numbered, reverse=True)]
    return [*files, path] if path.exists() else files


def _parsed(file: Path, number: int, text: str) -> Body:
    try:
        found = json.loads(text, parse_constant=_no_constant, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise Failure(Exit.FAILED, f"{file}:{number}: not JSON: {error}") from error
    if not isinstance(found, dict):
        raise Failure(Exit.FAILED, f"{file}:{number}: not a JSON object")
    return found


def _no_constant(word: str) -> object:
    raise ValueError(word)


def _finite(digits: str) -> float:
    if math.isinf(value := float(digits)):
        raise ValueError(digits)
    return value


async def _compared(settings: Settings, lines: list[FileLine]) -> tuple[str, int]:
    """Where the lines were compared with what, and how many."""
    first = int(lines[0].content["seq"])
    stored, source = await _stored(settings, after=first - 1)
    filed = {int(line.content["seq"]): line for line in lines}
    newest = max(filed)
    compared = 0
    known: set[int] = set()
    for line in stored:
        seq = int(line["seq"])
        known.add(seq)
        if (found := filed.get(seq)) is not None:
            compared += 1
            if found.content["hash"] != line.get("hash"):
                raise _not_whole(found, f"the {source} holds another line of this seq")
        elif seq < newest:
            raise Failure(Exit.FAILED, f"seq {seq} is in the {source}, and in no file")
    lost = [numbers for line in stored if (numbers := forgotten(line))]
    for line_seq, found in filed.items():
        if any(line_seq in numbers for numbers in lost):
            continue  # told by runs that a restored store declares not to remember
        if known and line_seq >= min(known) and line_seq not in known:
            raise _not_whole(found, f"the {source} knows no such line")
    await _require_written(settings, newest, max(known, default=0), source)
    return source, compared


async def _require_written(settings: Settings, newest: int, committed: int, source: str) -> None:
    """The newest lines may be on their way to the file; with a daemon that runs, not for long."""
    if committed <= newest:
        return
    if source == "store":
        say(
            f"seq {newest + 1} to {committed} are in the store and not yet in a file: a daemon writes them at its start"
        )
        return
    for _ in range(round(_ON_ITS_WAY_SECONDS / _POLL_SECONDS)):
        await anyio.sleep(_POLL_SECONDS)
        if max((int(line.content["seq"]) for line in _filed(settings.places.evidence)), default=0) >= committed:
            return
    raise Failure(Exit.FAILED, f"seq {newest + 1} to {committed} are in the daemon's store, and in no file")


async def _stored(settings: Settings, *, after: int) -> tuple[list[Body], str]:
    """All lines of the store from `after` on: by the daemon, or from its file while it is down."""
    try:
        with closing(Link(settings.places.api_socket)) as daemon:
            return await _pages(daemon, after), "daemon"
    except Failure as failure:
        if failure.code is not Exit.UNREACHABLE:
            raise
        say(f"{failure.words}; reading its store instead")
        return offline.evidence(settings.places.store, after=after, limit=1_000_000)["lines"], "store"


async def _pages(daemon: Daemon, after: int) -> list[Body]:
    found: list[Body] = []
    while True:
        page = (await daemon.get(f"/v1/evidence?after={after}&wait=0&limit={_PAGE}")).get("lines", [])
        found += page
        if len(page) < _PAGE:
            return found
        after = int(page[-1]["seq"])
