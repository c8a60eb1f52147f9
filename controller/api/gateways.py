"""What does the gateways' socket answer?

Four things, and no more: ask for a model, follow the routes, say what is open, say what was seen. A gateway that is
broken into can start models and nothing else.
"""

from datetime import timedelta

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from controller.api.board import wait_until
from controller.api.panel import Panel
from controller.api.problems import Json, count_in, read_body, text_in, wait_in_query, whole_in_query
from controller.api.reports import take_report
from controller.api.starting import ask_for
from controller.api.streaming import read_leases, renew
from controller.api.views import Routes, look


async def start(panel: Panel, request: Request) -> Response:
    body = await read_body(request)
    text_in(body, "gateway", default="unnamed")
    count_in(body, "waiting", default=0)
    return JSONResponse(ask_for(panel, request.path_params["alias"]), status_code=202)


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
