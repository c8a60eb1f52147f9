"""What do machines' logs say that must be acted on, or kept?

A stall of several cards obliges a stop (MC-3, RP-51). What a server died of is kept with its deployment for as long as
that is on record: once its stop is sent, the log goes away with the machine (MS-14). How several cards reach each other
goes into the evidence, since no document says whether they are one machine (MC-4). The looking is the observer's.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Final

from controller.core import machine_log
from controller.core.crash_loop import Starts
from controller.core.deployment import Record
from controller.core.evidence import StopReason
from controller.core.lifecycle import Phase
from controller.core.machine_log import Logged
from controller.core.policy import HostingPolicy, ModelPolicy
from controller.core.topology import Topology, joined
from controller.core.view import View
from controller.news import Looks
from controller.store import owing
from controller.store.errors import Stale
from controller.store.lines import of_record
from controller.store.store import Store
from controller.store.transaction import Tx
from controller.supervision import Cell, for_each

QUESTION: Final = "OU-7"


class LogWatcher:
    """One pass over what starts or serves, and had its log looked at."""

    name = "log_watcher"
    period = timedelta(seconds=60)
    looks_at = Looks.of(book=("standing", "starts"), view_held=("logs",))

    def __init__(
        self, *, store: Store, view: Cell[View], policy: HostingPolicy, models: Mapping[str, ModelPolicy]
    ) -> None:
        self._store = store
        self._view = view
        self._policy = policy
        self._models = models

    async def run_pass(self) -> None:
        await for_each(self._store.book.live(), self._consider)

    async def _consider(self, record: Record) -> None:
        logged, model = self._view.value.logs.get(record.id), self._models.get(record.model)
        if logged is None or model is None or record.phase not in {Phase.REQUESTED, Phase.ACTIVE}:
            return
        stall: StopReason | None = None
        if model.cards > 1:
            stall = machine_log.stalled(logged, phase=record.phase, stall_after=self._policy.stall_after)
        known = self._store.book.starts.get(record.id, Starts())
        if stall is None and _with(known, logged) == known:
            return

        due = [] if stall is None else [owing.Due(record=record, reason=stall)]
        try:
            await owing.oblige_by(self._store, lambda book, now: due, along=lambda tx: _keep(tx, record, logged))
        except Stale:
            return


def _with(starts: Starts, logged: Logged) -> Starts:
    cause = starts.cause if logged.cause is None else logged.cause.value
    return replace(starts, cause=cause, topology=joined(starts.topology, logged.topology))


def _keep(tx: Tx, decided_on: Record, logged: Logged) -> None:
    record = tx.current(decided_on)
    before = tx.book.starts.get(record.id, Starts())
    after = _with(before, logged)
    tx.put_starts(record.id, after)
    if after.topology is not None and after.topology != before.topology:
        tx.line("qualification.finding", **of_record(record), detail=_finding(after.topology))


def _finding(topology: Topology) -> dict[str, object]:
    """In the words of the qualification run, which asks the same of one machine (OU-7)."""
    said = "yes" if topology.together else "no"
    shown = {"ranks": topology.ranks, "nodes": topology.nodes, "ways": ", ".join(topology.ways) or None}
    return {"question": QUESTION, "asked": "all cards are in one machine", "said": said, **shown, "text": topology.text}
