"""How is a gateway put together and run?

The composition root of `gpuwarden gateway`: config and keys in, a bound address, signals, and an end that lets open
requests finish. It holds model servers' keys and digests of clients' keys, and never the provider's.
"""

import os
import signal
import socket
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import structlog

from controller import log
from controller.api.client import DaemonClient
from controller.cli.exits import Exit, Failure
from controller.clock import SystemClock
from controller.gateway.app import Gateway, build
from controller.gateway.clients import Client, ReadClients
from controller.gateway.config import Declared, GatewayConfig
from controller.gateway.day_book import DayBook
from controller.gateway.serve import serve
from controller.http1 import Pool
from controller.ids import SystemRandomness
from controller.notify import Notifier
from controller.settings import ConfigProblems, HandedKey, Settings

Signature = tuple[int, ...] | None

_log = structlog.get_logger(__name__)
_BACKLOG: Final = 2048
_MIB: Final = 1 << 20
_STOP_MARGIN: Final = timedelta(seconds=15)


def run_gateway(settings: Settings) -> Exit:
    """Until a signal. Raises ConfigProblems for a key that is missing, Failure for an address that is taken."""
    log.configure(settings.written.log_level)
    config = gateway_config(settings)
    with bound(settings.written.gateway.listen) as listener:
        anyio.run(partial(_run, settings, config, listener), backend_options={"use_uvloop": True})
    return Exit.OK


def gateway_config(settings: Settings) -> GatewayConfig:
    section = settings.written.gateway
    return GatewayConfig(
        models={alias: _server_key(settings, alias) for alias in settings.models},
        declared=declared(settings),
        read_clients=_clients(settings),
        day_book=DayBook(settings.places.spent),
        access_log=log.line_writer() if section.access_log else None,
        body_limit=section.body_limit_mib * _MIB,
        lease_interval=settings.written.policy.stream_lease_renewal,
        head_limit=section.first_byte_limit,
        silence_limit=section.silence_limit,
    )


def declared(settings: Settings) -> dict[str, Declared]:
    return {
        alias: Declared(wires=model.wires, tools=model.tools, adapters=model.adapters)
        for alias, model in settings.model_policies().items()
    }


def _server_key(settings: Settings, alias: str) -> Callable[[], str]:
    """Read anew at each request, so that a changed key needs no restart; a file that went bad leaves the former."""
    latest = settings.server_key(alias).get_secret_value()
    log.register_secret(latest)

    def read() -> str:
        nonlocal latest
        try:
            found = settings.server_key(alias).get_secret_value()
        except ConfigProblems:
            return latest
        if found != latest:
            log.register_secret(found)
            latest = found
        return latest

    return read


def _clients(settings: Settings) -> ReadClients:
    """Looked at with a stat, read where a file is another than before. Raises ConfigProblems at first; a file that went
    bad later leaves the former keys, and one that is gone none of its own."""
    files = settings.client_key_files
    seen: list[Signature] | None = [_signature(path) for path in files]
    latest = settings.client_keys()
    told = False

    def read() -> tuple[Client, ...] | None:
        nonlocal seen, latest, told
        found = [_signature(path) for path in files]
        if found == seen and told:
            return None
        if found != seen:
            seen = found
            try:
                latest = settings.client_keys(once_closed=latest is not None)
            except ConfigProblems as problems:
                _log.error("client_keys_unreadable", problem=str(problems))
                return None
        told = True
        return None if latest is None else tuple(map(_client, latest))

    return read


def _signature(path: Path) -> Signature:
    """Another one for each file that is put there; None where there is none."""
    try:
        found = path.stat(follow_symlinks=False)
    except OSError:
        return None
    return (found.st_ino, found.st_mtime_ns, found.st_size, found.st_mode, found.st_uid)


def _client(key: HandedKey) -> Client:
    return Client(
        name=key.name,
        digest=key.digest.removeprefix("sha256:"),
        models=None if key.models is None else frozenset(key.models),
        requests_per_minute=key.requests_per_minute,
        concurrent=key.concurrent,
        usd_per_day=key.usd_per_day,
    )


def bound(listen: str) -> socket.socket:
    """A listening socket. Raises Failure if there can be none."""
    host, _, port = listen.rpartition(":")
    host = host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, int(port)))
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise Failure(Exit.FAILED, f"cannot listen on {listen}: {error.strerror or error}") from error
    return listener


async def _run(settings: Settings, config: GatewayConfig, listener: socket.socket) -> None:
    gateway = build(
        config,
        daemon=DaemonClient.at_socket(str(settings.places.gateway_socket)),
        upstream=Pool(),
        clock=SystemClock(),
        randomness=SystemRandomness(),
    )
    notifier = Notifier(os.environ, process_id=os.getpid())
    stopped = anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(gateway.run)
        group.start_soon(_beat, notifier, gateway)
        group.start_soon(partial(_stop_when_signalled, gateway, notifier, stopped, limit=config.drain_limit))
        notifier.ready()
        await serve(gateway.app, [listener], stopped)
        group.cancel_scope.cancel()


async def _stop_when_signalled(gateway: Gateway, notifier: Notifier, stopped: anyio.Event, *, limit: timedelta) -> None:
    """The first signal lets open requests end, a second one does not."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            break
        notifier.stopping()
        notifier.needs(limit + _STOP_MARGIN)
        async with anyio.create_task_group() as group:
            group.start_soon(_drain, gateway, group.cancel_scope)
            async for _ in signals:
                group.cancel_scope.cancel()
                break
    stopped.set()


async def _drain(gateway: Gateway, scope: anyio.CancelScope) -> None:
    await gateway.drain()
    scope.cancel()


async def _beat(notifier: Notifier, gateway: Gateway) -> None:
    """Tell systemd that the loop turns."""
    if notifier.watchdog is None:
        return
    while True:
        notifier.alive()
        notifier.said(f"{gateway.live} open requests")
        await anyio.sleep(notifier.watchdog.total_seconds() / 2)
