"""How does it come to be owed that an operator wants something stopped?

A stop is accepted when its duty is on record, never when it is proven. Where the store takes no writes it is accepted
all the same for what has a committed obligation (invariant 4): everybody reads that it is due, it is sent, and recorded
first thing when writing works. The answer says so, for until then only this process knows.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from controller.api.operators import known_model
from controller.api.panel import Panel
from controller.api.problems import Problem, flag_in, not_found, read_body
from controller.core.book import Book
from controller.core.deployment import Record
from controller.core.errors import Code
from controller.core.evidence import StopReason
from controller.core.identity import DeploymentId, ObligationId
from controller.core.lifecycle import Phase
from controller.core.policy import HostingPolicy
from controller.store import duties
from controller.store.errors import StoreUnwritable
from controller.store.transaction import Tx


async def stop_model(panel: Panel, request: Request) -> Response:
    alias = known_model(panel, request)
    immediately = flag_in(await read_body(request), "now")
    panel.wants.satisfied(alias)
    panel.wants.forget_fills(alias)
    return await _stop(panel, {record.id for record in panel.live(alias)}, immediately=immediately)


async def stop_deployment(panel: Panel, request: Request) -> Response:
    deployment = DeploymentId(request.path_params["id"])
    immediately = flag_in(await read_body(request), "now")
    record = panel.book.records.get(deployment)
    if record is None:
        raise not_found(f"deployment {deployment!r}")
    panel.wants.satisfied(record.model)
    return await _stop(panel, {deployment}, immediately=immediately)


async def stop_all(panel: Panel, request: Request) -> Response:
    immediately = flag_in(await read_body(request), "now")
    for alias in panel.models:
        panel.wants.satisfied(alias)
        panel.wants.forget_fills(alias)
    return await _stop(panel, {record.id for record in panel.book.live()}, immediately=immediately, strays=True)


async def _stop(
    panel: Panel, deployments: Iterable[DeploymentId], *, immediately: bool, strays: bool = False
) -> Response:
    """The obligations that have to end until it is done."""
    wanted = frozenset(deployments)

    def oblige(tx: Tx) -> list[ObligationId]:
        owed = list(_obligations(tx.book, wanted, strays=strays))
        for record in _to_oblige(tx.book, wanted, immediately=immediately):
            policy = _policy(panel, record)
            duties.require_stop_of(tx, record, StopReason.OPERATOR_REQUEST, now_at_once=immediately, policy=policy)
        return owed

    try:
        obligations, more = await panel.store.write(oblige), {}
    except StoreUnwritable as problem:
        _owe_unwritten(panel, wanted, problem, immediately=immediately)
        obligations, more = list(_obligations(panel.book, wanted, strays=strays)), {"unrecorded": str(problem)}
    panel.ring()
    return JSONResponse({"schema": 1, "obligations": obligations, **more}, status_code=202)


def _obligations(book: Book, wanted: frozenset[DeploymentId], *, strays: bool) -> Iterator[ObligationId]:
    """`strays`: also what no deployment holds."""
    for name in sorted(wanted):
        yield from (duty.id for duty in book.duties(name))
    if strays:
        yield from (duty.id for duty in book.obligations.values() if duty.open and duty.deployment is None)


def _to_oblige(book: Book, wanted: frozenset[DeploymentId], *, immediately: bool) -> list[Record]:
    """Without what is owed already, and not to be put off."""
    return [
        record
        for record in book.live()
        if record.id in wanted
        and (record.phase is not Phase.STOP_REQUIRED or (immediately and record.drain_until is not None))
    ]


def _policy(panel: Panel, record: Record) -> HostingPolicy:
    model = panel.models.get(record.model)
    return panel.policy if model is None else replace(panel.policy, drain_limit=model.drain_limit)


def _owe_unwritten(
    panel: Panel, wanted: frozenset[DeploymentId], problem: StoreUnwritable, *, immediately: bool
) -> None:
    """Raises Problem if there is one whose stop has to be on record first: nobody knows yet what it made."""
    left = []
    for record in _to_oblige(panel.book, wanted, immediately=immediately):
        drain_until = duties.drain_until_of(
            record, now_at_once=immediately, policy=_policy(panel, record), now=panel.store.now
        )
        panel.store.owe_unwritten(record, StopReason.OPERATOR_REQUEST, drain_until=drain_until)
        if panel.book.records[record.id].phase is not Phase.STOP_REQUIRED:
            left.append(record.id)
    if left:
        panel.ring()
        words = (
            f"{problem}: the stop of {', '.join(left)} has to be on record first, for what its create made is not known"
            " yet. Whatever else was asked is being stopped. Make room, and ask again; what bills is in the provider's"
            " console"
        )
        raise Problem(503, Code.STORE_UNAVAILABLE, words)
