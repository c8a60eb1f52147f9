"""How is an emulated provider started by hand?"""

import signal
import socket
from functools import partial

import anyio

from controller.cli.exits import Exit, Failure
from controller.cli.output import say
from controller.emulators.runpod import Settings, run_emulator
from controller.emulators.serve import open_listener
from controller.settings import is_loopback


def emulate_runpod(listen: str) -> Exit:
    """Until a signal. Its control surface asks for no key, so it stays on loopback."""
    host, _, port = listen.rpartition(":")
    if not is_loopback(listen) or not port.isdigit():
        raise Failure(Exit.USAGE, "an emulator listens on loopback only, as in 127.0.0.1:9000")
    try:
        listener = open_listener(host.strip("[]"), int(port))
    except OSError as error:
        raise Failure(Exit.FAILED, f"cannot listen on {listen}: {error.strerror or error}") from error
    anyio.run(partial(_until_signalled, listener))
    return Exit.OK


async def _until_signalled(listener: socket.socket) -> None:
    address = ":".join(str(part) for part in listener.getsockname()[:2])
    async with anyio.create_task_group() as group:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            group.start_soon(partial(run_emulator, listen=listener, settings=Settings()))
            say(f"emulated Runpod: base_url http://{address}/v2, proxy_url http://{address}/proxy/{{pod}}/{{port}}")
            async for _ in signals:
                break
        group.cancel_scope.cancel()
