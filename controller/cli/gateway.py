"""How is a gateway put together and run?

The composition root of `gpuwarden gateway`: config and keys in, a bound address, signals, and an end that lets open
requests finish; in this process, or in several workers. It holds model servers' keys and digests of clients' keys, and
never the provider's.
"""

import gc
import os
import resource
import signal
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import structlog

from controller import log
from controller.api.binding import bind_unix
from controller.api.client import DaemonClient
from controller.cli.exits import Exit
from controller.cli.heralds import STOP_MARGIN, Herald, ToParent, ToSystemd
from controller.cli.listening import Sockets, close_all, listeners
from controller.cli.worker_metrics import metrics_of_all
from controller.cli.workers import Ties, Workers
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
_MIB: Final = 1 << 20


def run_gateway(settings: Settings, workers: int | None = None) -> Exit:
    """Until a signal. Raises ConfigProblems for a key that is missing, Failure for an address that is taken."""
    log.configure(settings.written.log_level)
    _allow_open_files()
    config = gateway_config(settings)
    count = workers or settings.written.gateway.workers
    sockets = listeners(
        settings.written.gateway.listen,
        workers=count,
        environment=os.environ,
        process_id=os.getpid(),
        open_to_all=settings.client_keys() is None,
    )
    notifier = Notifier(os.environ, process_id=os.getpid())
    try:
        if count == 1:
            run = partial(_run, settings, config, sockets[0], ToSystemd(notifier))
            anyio.run(run, backend_options={"use_uvloop": True})
        else:
            _run_workers(settings, config, sockets, notifier)
    finally:
        close_all(sockets)
    return Exit.OK


def _allow_open_files() -> None:
    """As many as the system lets it have. A stream takes two, and a login gives 1024: the 500th client was accepted and
    closed without a word, and its model server reported as unreachable."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _run_workers(settings: Settings, config: GatewayConfig, sockets: Sequence[Sockets], notifier: Notifier) -> None:
    with tempfile.TemporaryDirectory(prefix="gpuwarden-gateway-") as folder:
        Workers(
            count=len(sockets),
            work=partial(_work, settings, config, sockets, Path(folder)),
            on_stop=partial(close_all, sockets),
            clock=SystemClock(),
            notifier=notifier,
            ends_within=config.drain_limit + STOP_MARGIN,
        ).run()


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


def _work(settings: Settings, config: GatewayConfig, sockets: Sequence[Sockets], folder: Path, ties: Ties) -> int:
    """In a worker's own process."""
    own = sockets[ties.number]
    for others in sockets:
        for each in others:
            if each not in own:
                each.close()  # so that it closes with its own worker
    place, peers = metrics_of_all(folder, workers=len(sockets), own=ties.number)
    config = replace(config, join_metrics=peers)
    anyio.run(
        partial(_run, settings, config, own, ToParent(ties), own_metrics=place), backend_options={"use_uvloop": True}
    )
    return Exit.OK


async def _run(
    settings: Settings, config: GatewayConfig, sockets: Sockets, herald: Herald, *, own_metrics: Path | None = None
) -> None:
    gateway = build(
        config,
        daemon=DaemonClient.at_socket(str(settings.places.gateway_socket)),
        upstream=Pool(),
        clock=SystemClock(),
        randomness=SystemRandomness(),
    )
    gc.freeze()  # what is there now stays: to look at it again would hold up whoever asks just then
    stopped = anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(gateway.run)
        if own_metrics is not None:
            group.start_soon(serve, gateway.own_metrics, [bind_unix(own_metrics, mode=0o600)], stopped)
        group.start_soon(partial(_stop_when_signalled, gateway, herald, stopped, limit=config.drain_limit))
        group.start_soon(herald.until_alone)
        herald.serves()
        group.start_soon(_beat, herald, gateway)
        await serve(gateway.app, sockets, stopped, direct=gateway.direct)
        group.cancel_scope.cancel()


async def _stop_when_signalled(gateway: Gateway, herald: Herald, stopped: anyio.Event, *, limit: timedelta) -> None:
    """The first signal lets open requests end, a second one does not."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        async for number in signals:
            if number != signal.SIGHUP:
                break
            _log.info("config_kept", why="client keys and server keys are read anew; the rest needs a restart")
        herald.stops(limit)
        async with anyio.create_task_group() as group:
            group.start_soon(_drain, gateway, group.cancel_scope)
            async for number in signals:
                if number != signal.SIGHUP:
                    group.cancel_scope.cancel()
                    break
    stopped.set()


async def _drain(gateway: Gateway, scope: anyio.CancelScope) -> None:
    await gateway.drain()
    scope.cancel()


async def _beat(herald: Herald, gateway: Gateway) -> None:
    """Tell that the loop turns."""
    if herald.rhythm is None:
        return
    while True:
        herald.lives(gateway.live)
        await anyio.sleep(herald.rhythm.total_seconds())
