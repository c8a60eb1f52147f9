"""How does a test or the demo get a Runpod of its own?

`Emulator` holds what exists and takes orders; `build_app` is the ASGI application over it, called in process or put
on a socket; `run_emulator` does the latter until it is cancelled, and leaves no program behind.
"""

from __future__ import annotations

import socket

import anyio

from controller.emulators.runpod.app import build_app
from controller.emulators.runpod.emulator import Emulator
from controller.emulators.runpod.reading import BadControl
from controller.emulators.runpod.settings import Settings
from controller.emulators.serve import serve

__all__ = ["BadControl", "Emulator", "Settings", "build_app", "run_emulator"]

_CLOSE_SECONDS = 5.0


async def run_emulator(*, listen: socket.socket, settings: Settings) -> None:
    """Serve an emulator on this socket until cancelled."""
    emulator = Emulator(settings=settings)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(emulator.children.keep, emulator)
            await serve(build_app(emulator), listen=listen)
            group.cancel_scope.cancel()
    finally:
        with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
            await emulator.close()
