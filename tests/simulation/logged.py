"""What does the daemon's log say that nobody may overlook, and does it keep secrets?

A task or a call that failed with anything but a disk that takes no writes, or a store that another daemon took over, is
a fault of ours, even where supervision contains it. Log lines go nowhere; these two are kept with the program that
wrote them.
"""

import asyncio
import re
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any, Final

import structlog

from tests.simulation.town import SECRETS

CONTAINED: Final = frozenset({"pass_failed", "work_failed"})
GROUP: Final = re.compile(r"^[| ]*ExceptionGroup: .* \(\d+ sub-exceptions?\)$")
PASSING: Final = ("StoreUnwritable", "StoreUnreadable", "StoreTaken")


@contextmanager
def failures_kept() -> Iterator[None]:
    """While inside, every log line of this process is looked at, and dropped."""
    structlog.configure(processors=[_keep], logger_factory=structlog.ReturnLoggerFactory())
    try:
        yield
    finally:
        structlog.reset_defaults()


def _keep(_: Any, __: str, event: MutableMapping[str, Any]) -> Any:
    said = repr(event)
    if any(secret in said for secret in SECRETS):
        _note(f"a secret is in a log line: {event['event']}")
    if event["event"] in CONTAINED:
        text = str(event.get("error", ""))
        if not excused(text):
            _note(f"{event['event']} {event.get('task', event.get('work'))}: {text}")
    raise structlog.DropEvent


def _note(problem: str) -> None:
    program = getattr(asyncio.get_running_loop(), "program", None)
    if program is not None:
        program.problems.append(problem)


def excused(text: str) -> bool:
    """Of a group each member is looked at: the last line of its part of the traceback says what it is. A member that is
    a group itself has its own members behind it."""
    parts = re.split(r"^[ |]*\+-[-+ \d]*$", text, flags=re.M)
    members = parts[1:-1] if len(parts) > 1 else parts
    said = [lines[-1] for part in members if (lines := part.strip(" |\n").splitlines())]
    return all(GROUP.search(line) or any(name in line for name in PASSING) for line in said)
