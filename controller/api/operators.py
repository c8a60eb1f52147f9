"""What does the operators' socket show?

Reading only: nothing here changes anything, and what is unknown is said to be.
"""

import json
from datetime import timedelta
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from controller.api import facts, metrics, money
from controller.api.board import wait_until
from controller.api.explain import lines_of, models_of
from controller.api.panel import Panel
from controller.api.problems import bad_field, not_found, problem_answer, unknown_model, wait_in_query, whole_in_query
from controller.api.readiness import reasons
from controller.core.errors import Code
from controller.core.identity import DeploymentId
from controller.core.lifecycle import LIVE
from controller.store.history import ended_duties
from controller.store.load import remembered
from controller.store.outbox import lines_after

LINES_MOST: Final = 1000
ENDED_MOST: Final = 1000


async def status(panel: Panel, request: Request) -> Response:
    return JSONResponse(facts.status(panel))


async def models(panel: Panel, request: Request) -> Response:
    return JSONResponse({"schema": 1, "models": facts.models(panel)})


async def model(panel: Panel, request: Request) -> Response:
    return JSONResponse({"schema": 1, "model": facts.model(panel, known_model(panel, request))})


def known_model(panel: Panel, request: Request) -> str:
    """The path's alias: configured, or still alive. Raises Problem(unknown_model)."""
    alias: str = request.path_params["alias"]
    if alias not in models_of(panel):
        raise unknown_model(alias)
    return alias


async def explain(panel: Panel, request: Request) -> Response:
    alias = known_model(panel, request)
    lines = [line.as_json() for line in lines_of(panel, alias)]
    return JSONResponse({"schema": 1, "alias": alias, "lines": lines})


async def deployments(panel: Panel, request: Request) -> Response:
    told = (r for r in panel.book.records.values() if r.phase in LIVE or remembered(r, panel.now))
    records = sorted(told, key=lambda record: (record.declared_at, record.id))
    return JSONResponse({"schema": 1, "deployments": [facts.deployment(panel, record) for record in records]})


async def deployment(panel: Panel, request: Request) -> Response:
    record = panel.book.records.get(DeploymentId(request.path_params["id"]))
    if record is None:
        raise not_found(f"deployment {request.path_params['id']!r}")
    return JSONResponse({"schema": 1, "deployments": [facts.deployment(panel, record)]})


async def obligations(panel: Panel, request: Request) -> Response:
    """The open ones, oldest first; with `all=1` those that ended too, the latest thousand."""
    ended = []
    if request.query_params.get("all", "0") not in {"0", ""}:
        ended = await panel.store.read(lambda connection: ended_duties(connection, limit=ENDED_MOST))
    duties = [duty for duty in panel.book.obligations.values() if duty.open]
    still_open = {duty.id for duty in duties}
    duties += [duty for duty in ended if duty.id not in still_open]
    duties.sort(key=lambda duty: (duty.opened_at, duty.id))
    return JSONResponse({"schema": 1, "obligations": [facts.obligation(panel, duty) for duty in duties]})


async def evidence(panel: Panel, request: Request) -> Response:
    """Lines after a number; waits up to `wait` seconds for the next one."""
    after = whole_in_query(request, "after", default=0) or 0
    limit = whole_in_query(request, "limit", default=LINES_MOST)
    if limit is None or not 1 <= limit <= LINES_MOST:
        raise bad_field("limit", f"1 to {LINES_MOST} is wanted")
    await wait_until(
        lambda: panel.book.seq_latest > after,
        board=panel.board,
        closing=panel.closing,
        limit=timedelta(seconds=wait_in_query(request)),
    )
    lines = await panel.store.read(lambda connection: lines_after(connection, after, limit=limit))
    last = lines[-1][0] if lines else after
    return JSONResponse({"schema": 1, "lines": [json.loads(text) for _, text in lines], "last": last})


async def spend(panel: Panel, request: Request) -> Response:
    return JSONResponse({"schema": 1, **facts.spend(panel), "storage": money.of_storage(panel)})


async def prices(panel: Panel, request: Request) -> Response:
    return JSONResponse({"schema": 1, **facts.prices(panel)})


async def metric_page(panel: Panel, request: Request) -> Response:
    await metrics.count_new_lines(panel)
    return PlainTextResponse(metrics.page(panel), media_type="text/plain; version=0.0.4")


async def readyz(panel: Panel, request: Request) -> Response:
    found = reasons(panel)
    if not found:
        return JSONResponse({"schema": 1, "ready": True, "reasons": []})
    code = Code.STORE_UNAVAILABLE if panel.store.unwritable_since is not None else Code.REFUSED
    return problem_answer(503, code, "; ".join(found), ready=False, reasons=found)
