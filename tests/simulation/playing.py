"""What is different in a process while it plays?

anyio's scopes are walked in order and ask nobody which library runs; stores take locks that die with their program; the
log is looked at and dropped; the first task is number one. All of it ends with the play: whoever runs an event loop of
his own in this process next is else told that one runs already.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from sniffio import current_async_library_cvar

from tests.simulation.logged import failures_kept
from tests.simulation.loop import restart_numbers, scopes_in_order
from tests.simulation.machine import with_locks


@contextmanager
def playing() -> Iterator[None]:
    """While inside, programs of a simulation may run in this process."""
    library = current_async_library_cvar.set("asyncio")  # as `anyio.run` says to every task; else each call finds out
    try:
        with ExitStack() as changed:
            for change in (scopes_in_order(), failures_kept(), with_locks()):
                changed.enter_context(change)
            restart_numbers()
            yield
    finally:
        current_async_library_cvar.reset(library)
