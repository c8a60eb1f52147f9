"""What is different in a process while it plays?

anyio's scopes are walked in order and ask nobody which library runs; stores take locks that die with their program,
and wait for nobody else's lock: who holds it could not let go meanwhile; the log is looked at and dropped; the first
task is number one. All of it ends with the play: whoever runs an event loop of his own in this process next is else
told that one runs already.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from unittest import mock

from sniffio import current_async_library_cvar

from controller.store import database
from tests.simulation.logged import failures_kept
from tests.simulation.loop import restart_numbers, scopes_in_order
from tests.simulation.machine import with_locks


@contextmanager
def playing() -> Iterator[None]:
    """While inside, programs of a simulation may run in this process."""
    library = current_async_library_cvar.set("asyncio")  # as `anyio.run` says to every task; else each call finds out
    try:
        with ExitStack() as changed:
            for change in (scopes_in_order(), failures_kept(), with_locks(), _no_waiting()):
                changed.enter_context(change)
            restart_numbers()
            yield
    finally:
        current_async_library_cvar.reset(library)


def _no_waiting() -> AbstractContextManager[object]:
    return mock.patch.object(database, "PRAGMAS", (*database.PRAGMAS, "PRAGMA busy_timeout=0"))
