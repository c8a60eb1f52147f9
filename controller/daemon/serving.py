"""How does the daemon run as a service?

Sockets, signals, systemd's notifications and watchdog around a built daemon. Ready once the sockets are bound, whether
the provider answers or not. SIGTERM ends it in bounded time whatever hangs, stops no machine and keeps every
obligation; a second one ends it at once.
"""

import os
import signal
import sys
from datetime import timedelta
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Final

import anyio
import structlog
from anyio.abc import TaskStatus

from controller import log as logs
from controller.api.app import gateways_app, operators_app, serve_unix
from controller.api.board import Closing
from controller.api.panel import Panel
from controller.core.errors import Refusal
from controller.core.obligation import KeepOpen, Obligation, settle
from controller.core.policy import StopEvidence
from controller.daemon.built import Daemon, Seams
from controller.daemon.modes import Decided, decide, start
from controller.daemon.rehearsal import rehearse
from controller.notify import Notifier
from controller.settings import ConfigProblems, find_config
from controller.store.errors import StoreDamaged, StoreError, StoreInUse, StoreNewer
from controller.supervision import GaveUp

BAD_CONFIG: Final = 78
IN_USE: Final = 6
SOCKET_MODE: Final = 0o660
API_END: Final = timedelta(seconds=3)
STOP_SPAN: Final = timedelta(seconds=20)
WATCH_EVERY: Final = timedelta(seconds=10)

log = structlog.get_logger(__name__)


def main(config: Path | None) -> int:
    """Run until a signal. Returns the exit code: 0 after SIGTERM, 1 when a task failed for ever, 6, 78."""
    try:
        decided = decide(find_config(config, os.environ), os.environ)
    except ConfigProblems as problems:
        _say(problems)
        return BAD_CONFIG
    logs.configure(decided.settings.written.log_level)
    logs.register_secret(decided.settings.runpod_key().get_secret_value())
    try:
        return anyio.run(partial(_serve, decided), backend_options={"use_uvloop": True})
    except StoreInUse as refused:
        _say(refused)
        return IN_USE
    except (StoreNewer, StoreDamaged, Refusal, ConfigProblems) as refused:
        _say(refused)
        return BAD_CONFIG
    except StoreError as refused:
        _say(refused)
        return 1


def _say(refused: BaseException) -> None:
    sys.stderr.write(f"{refused}\n")


async def _serve(decided: Decided) -> int:
    notifier = Notifier(os.environ, process_id=os.getpid())
    daemon = await start(decided, Seams())
    for problem in daemon.mode.problems:
        log.error("stop_only", problem=problem)
    if daemon.mode.refused is not None:
        log.error("config_refused", problem=daemon.mode.refused)
    closing = Closing()
    try:
        code = await _run(daemon, notifier, closing)
    finally:
        await daemon.close()
    return code


async def _run(daemon: Daemon, notifier: Notifier, closing: Closing) -> int:
    failed: list[BaseException] = []
    panel = panel_of(daemon, closing)
    async with anyio.create_task_group() as group:
        await group.start(_watch_signals, daemon, closing)
        group.start_soon(_tasks, daemon, failed, closing)
        async with anyio.create_task_group() as serving:
            places = daemon.settings.places
            for app, path in (
                (operators_app(panel), places.api_socket),
                (gateways_app(panel), places.gateway_socket),
            ):
                await serving.start(partial(serve_unix, app, path, mode=SOCKET_MODE, closing=closing))
            group.start_soon(_beat, daemon, notifier)
            await rehearse(daemon)
            notifier.ready()
            log.info("ready", run=daemon.run_id, owner=daemon.policy.owner, mode=daemon.mode.name)
            await closing.wait()
            notifier.stopping()
            notifier.needs(STOP_SPAN)
            daemon.executor.shut()
            serving.cancel_scope.deadline = anyio.current_time() + API_END.total_seconds()
        group.cancel_scope.cancel()
    return 1 if failed else 0


async def _tasks(daemon: Daemon, failed: list[BaseException], closing: Closing) -> None:
    """Run the tasks; one that fails for ever ends the daemon, and the unit starts it clean."""
    try:
        await daemon.run()
    except* GaveUp as gave_up:
        failed.append(gave_up)
        log.critical("task_gave_up", error=str(gave_up.exceptions[0]))
        closing.set()


async def _watch_signals(
    daemon: Daemon, closing: Closing, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
) -> None:
    """TERM and INT end, the second at once; USR1 and HUP open the evidence file anew."""
    kinds = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP)
    with anyio.open_signal_receiver(*kinds) as signals:
        task_status.started()
        async for number in signals:
            if number in {signal.SIGUSR1, signal.SIGHUP}:
                daemon.evidence_writer.reopen()
                log.info("evidence_reopened")
            elif closing.is_set():
                os._exit(1)
            else:
                log.info("stopping", signal=signal.Signals(number).name)
                closing.set()


async def _beat(daemon: Daemon, notifier: Notifier) -> None:
    """Feed the watchdog from the tasks' progress, never from a bare timer (B18)."""
    every = min(WATCH_EVERY, notifier.watchdog / 2) if notifier.watchdog is not None else WATCH_EVERY
    while True:
        silent = [pulse.name for pulse in daemon.pulses if pulse.silent(daemon.clock.now())]
        if silent:
            log.error("tasks_silent", tasks=silent)
        else:
            notifier.alive()
        owed = len(daemon.store.book.owed())
        notifier.said(f"{len(daemon.store.book.live())} deployments, {owed} owed stops")
        await anyio.sleep(every.total_seconds())


def panel_of(daemon: Daemon, closing: Closing) -> Panel:
    """All that the API may look at or ring."""
    panel = Panel(
        store=daemon.store,
        view=daemon.view,
        wants=daemon.wants,
        waits=daemon.waits,
        stream_leases=daemon.stream_leases,
        doubts=daemon.doubts,
        policy=daemon.policy,
        models=daemon.models,
        run_id=daemon.run_id,
        version=version("gpuwarden"),
        stop_only=daemon.mode.stop_only,
        barred=daemon.mode.barred,
        mode=daemon.mode.name,
        problems=daemon.mode.problems,
        pulses=daemon.pulses,
        started_at=daemon.started_at,
        clock=daemon.clock,
        ring=daemon.ring,
        refusal=daemon.reconciler.refusals.get,
        prefetch_refusal=daemon.prefetcher.refusals.get,
        idle=daemon.idle_reaper.decide,
        abandonment=daemon.abandonment.decide,
        waiting_for=partial(_waiting_for, daemon),
        closing=closing,
    )
    daemon.reconciler.on_refusal(panel.board.ring)
    return panel


def _waiting_for(daemon: Daemon, duty: Obligation) -> str:
    """Which proof an obligation still lacks, in words."""
    if not duty.due and duty.key is not None:
        return "nothing: no stop is wanted yet"
    verdict = settle(
        duty,
        daemon.settler.sight(duty),
        settle_after=daemon.policy.settle,
        accepted_suffices=daemon.policy.stop_evidence is StopEvidence.ACCEPTED,
    )
    return verdict.waiting_for if isinstance(verdict, KeepOpen) else "to be written down"
