"""What does the gateways' socket answer?

Four things, and no more: ask for a model, follow the routes, say what is open, say what was seen. A gateway that is
broken into can start models and nothing else.
"""

from datetime import timedelta
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from controller.api.board import wait_until
from controller.api.panel import Panel
from controller.api.problems import (
    Json,
    count_in,
    flag_in,
    read_body,
    seconds_in,
    text_in,
    wait_in_query,
    whole_in_query,
)
from controller.api.reports import take_report
from controller.api.starting import Callers, ask_for_callers, callers_left
from controller.api.streaming import read_leases, renew
from controller.api.views import Routes, look
from controller.core.policy import STARTUP_DEADLINE_MOST

RETURN_MOST: Final = STARTUP_DEADLINE_MOST.total_seconds()


async def start(panel: Panel, request: Request) -> Response:
    """Asks for a model, in the name of those who wait; with `left`, says only that none of them does any more."""
    body = await read_body(request)
    left, alias = flag_in(body, "left"), request.path_params["alias"]
    callers = Callers(
        gateway=text_in(body, "gateway", default="unnamed"),
        waiting=count_in(body, "waiting", default=0),
        returning=timedelta(seconds=seconds_in({"returning_seconds": 0} | body, "returning_seconds", most=RETURN_MOST)),
    )
    said = callers_left(panel, alias, callers) if left else ask_for_callers(panel, alias, callers)
    return JSONResponse(await said, status_code=202)


async def routes(panel: Panel, request: Request) -> Response:
    """Answers when the version is not `after` (a former run of ours may have counted further), at the latest after
    `wait`; at once without `after`."""
    after, wait = whole_in_query(request, "after"), wait_in_query(request)
    seen = look(panel)

    def another() -> bool:
        nonlocal seen
        seen = look(panel)
        return seen.version != after

    if after == seen.version:
        await wait_until(
            another,
            board=panel.board,
            closing=panel.closing,
            limit=timedelta(seconds=wait),
        )
    return JSONResponse(_routes(panel, seen))


def _routes(panel: Panel, seen: Routes) -> Json:
    return {
        "schema": 1,
        "version": seen.version,
        "controller": panel.run_id,
        "stream_lease_seconds": panel.stream_leases.lifetime.total_seconds(),
        "models": seen.models,
    }


async def stream_leases(panel: Panel, request: Request) -> Response:
    gateway = text_in(request.path_params, "gateway")
    stated = read_leases(await read_body(request), now=panel.now)
    return JSONResponse(await renew(panel, gateway, stated))


async def reports(panel: Panel, request: Request) -> Response:
    await take_report(panel, await read_body(request))
    return JSONResponse({"schema": 1}, status_code=202)


async def healthz(panel: Panel, request: Request) -> Response:
    """The process lives; nothing more is said."""
    return JSONResponse({"schema": 1, "ok": True})
