"""What are the newest lines of a pod's log?

The log is a stream of events without an end, and nothing marks where the old lines stop (reference, 2.9): it is read
until no more come for a moment, for a bounded time and size, and left (RP-9). The server was seen to end it after a few
events; then newer lines may be missing, and that is said.
"""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

from controller.core.inventory import Unreadable
from controller.core.machine_log import Log, LogLine
from controller.providers.errors import ProviderError
from controller.providers.runpod.account import Account
from controller.transport import MIB, Sip, TransportError

TAIL: Final = 200
LIMIT: Final = Sip(whole=timedelta(seconds=10), quiet=timedelta(seconds=2), body_bytes=MIB)
LINE_MOST: Final = 4096


async def read_log(account: Account, path: str) -> Log | Unreadable:
    """The log of the resource at `path`."""
    began_at = account.clock.now()
    try:
        answer, whole = await account.sip(f"{path}/logs?tail={TAIL}", LIMIT)
    except (ProviderError, TransportError) as error:
        return Unreadable(problem=str(error), at=began_at)
    if answer.code != 200:
        return Unreadable(problem=f"HTTP {answer.code}", at=began_at)
    return Log(lines=tuple(lines_in(answer.body)), read_at=account.clock.now(), whole=whole)


def lines_in(body: bytes) -> Iterator[LogLine]:
    """What is no event of a log line, or was cut in two, is left out."""
    for row in body.decode("utf-8", errors="replace").split("\n"):
        if row.startswith("data:"):
            event = _event(row.removeprefix("data:"))
            text, said = event.get("line"), event.get("ts")
            if isinstance(text, str) and text.strip():
                yield LogLine(said=said[:64] if isinstance(said, str) else "", text=text[:LINE_MOST])


def _event(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
