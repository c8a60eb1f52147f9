"""Does a file of tests leave the process as it found it?

What one changes and does not change back, another meets: it fails, or holds for the wrong reason, and only when the two
happen to share a process.
"""

import gc
import os
import signal
import sys
import time
from collections.abc import Iterator
from inspect import isclass, isroutine
from types import ModuleType
from typing import Any, Final

from anyio._core._eventloop import current_async_library

OWN: Final = ("controller", "anyio", "asyncio", "httpx", "sniffio", "time", "signal")
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE)
PYTESTS: Final = "PYTEST_"


def found() -> dict[str, Any]:
    """What the process is like now, by the name of each part."""
    parts: dict[str, Any] = {
        "the event loop that runs": current_async_library(),
        "the folder": os.getcwd(),
        "whether garbage is collected": gc.isenabled(),
        "the zone": time.tzname,
    }
    parts |= {f"what {number.name} does": signal.getsignal(number) for number in SIGNALS}
    parts |= {f"${name}": value for name, value in os.environ.items() if not name.startswith(PYTESTS)}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in OWN and module is not None:
            parts |= _routines(name, module)
    return parts


def changed(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """The parts that are not what they were. A part that came with a module imported since is none."""
    gone = object()
    return [part for part, was in before.items() if after.get(part, gone) != was] + [
        part for part in after if part.startswith("$") and part not in before
    ]


def _routines(name: str, module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Functions and classes of a module, and the functions of those classes that are ours or our libraries'."""
    for key, value in list(vars(module).items()):
        if isroutine(value) or isclass(value):
            yield f"{name}.{key}", value
        if isclass(value) and value.__module__.partition(".")[0] in OWN:
            for inner, routine in list(vars(value).items()):
                if isroutine(routine):
                    yield f"{name}.{key}.{inner}", routine
