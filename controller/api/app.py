"""Which socket answers which request?

Two apps on one panel: operators' and gateways'. The table of operators' operations makes both the routes and the
description. A stop-only daemon answers all the same; what it refuses it says.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, compile_path
from starlette.types import ASGIApp, Receive, Scope, Send

from controller.api import acts, gateways, operators, prefetching, stopping
from controller.api.openapi import Described, document
from controller.api.panel import Panel
from controller.api.problems import ANSWERED, answer_for
from controller.api.serve import serve_unix

__all__ = ["Panel", "gateways_app", "operators_app", "serve_unix"]

Operation = Callable[[Panel, Request], Awaitable[Response]]

_NOW: Final = {"now": {"type": "boolean", "default": False}}
_PLACE: Final = {"place": {"type": "string", "minLength": 1, "maxLength": 512}}
_WHOLE: Final = {"type": "integer", "minimum": 0}


async def openapi(panel: Panel, request: Request) -> Response:
    return JSONResponse(document((described for described, _ in OPERATIONS), version=panel.version))


def _reading(path: str, operation: Operation, summary: str, **more: Any) -> tuple[Described, Operation]:
    return Described(method="GET", path=path, summary=summary, **more), operation


def _acting(
    path: str, operation: Operation, summary: str, *, success: int = 202, **more: Any
) -> tuple[Described, Operation]:
    return Described(method="POST", path=path, summary=summary, success=success, **more), operation


OPERATIONS: Final[tuple[tuple[Described, Operation], ...]] = (
    _reading("/v1/status", operators.status, "Everything at a glance."),
    _reading("/v1/models", operators.models, "All models."),
    _reading("/v1/models/{alias}", operators.model, "One model."),
    _reading("/v1/models/{alias}/explain", operators.explain, "Why it runs or not, and what would end that."),
    _acting("/v1/models/{alias}/start", acts.start, "Want it to be up.", body={}),
    _acting("/v1/models/{alias}/restart", acts.restart, "Replace what serves, without an outage.", body={}),
    _acting("/v1/models/{alias}/prefetch", prefetching.prefetch, "Fill its volumes.", body=_PLACE),
    _acting("/v1/models/{alias}/stop", stopping.stop_model, "Owe the stop of all its deployments.", body=_NOW),
    _acting("/v1/models/{alias}/unblock", acts.unblock, "End its hold.", success=200),
    _acting("/v1/unblock", acts.unblock_all, "End every hold.", success=200),
    _reading("/v1/deployments", operators.deployments, "Those that live, and those of the last day."),
    _reading("/v1/deployments/{id}", operators.deployment, "One deployment."),
    _acting("/v1/deployments/{id}/stop", stopping.stop_deployment, "Owe its stop.", body=_NOW),
    _acting("/v1/stop", stopping.stop_all, "Owe the stop of everything.", body=_NOW),
    _reading(
        "/v1/obligations",
        operators.obligations,
        "What has to be stopped some day; with all=1 what ended, too.",
        query={"all": {"enum": ["0", "1"]}},
    ),
    _acting(
        "/v1/obligations/{id}/confirm",
        acts.confirm,
        "Vouch for the end of what is owed.",
        success=200,
        body={"reference": {"type": "string", "minLength": 1, "maxLength": 512}, "force": {"type": "boolean"}},
    ),
    _acting("/v1/installations/{id}/claim", acts.claim_installation, "Take over what it left.", success=200),
    _acting("/v1/account/claim", acts.claim_account, "Say that the account is still the same.", success=200),
    _acting(
        "/v1/config/confirm",
        acts.confirm_config,
        "Say that a config may stop everything that runs.",
        success=200,
        body={
            "digest": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
            "models": {"type": "array", "items": {"type": "string"}},
        },
    ),
    _reading(
        "/v1/evidence",
        operators.evidence,
        "Evidence lines after a number; waits for the next one.",
        query={"after": _WHOLE, "wait": {"type": "number", "minimum": 0}, "limit": {**_WHOLE, "maximum": 1000}},
    ),
    _reading("/v1/spend", operators.spend, "Today's money."),
    _reading("/v1/prices", operators.prices, "What the catalog lately said that one card of each type costs an hour."),
    _reading("/metrics", operators.metric_page, "For Prometheus.", media_type="text/plain"),
    _reading("/healthz", gateways.healthz, "The process lives."),
    _reading("/readyz", operators.readyz, "200, or 503 with the reasons."),
    _reading("/openapi.json", openapi, "This description."),
)

GATEWAY_ROUTES: Final[tuple[tuple[str, str, Operation], ...]] = (
    ("POST", "/v1/models/{alias}/start", gateways.start),
    ("GET", "/v1/routes", gateways.routes),
    ("PUT", "/v1/stream-leases/{gateway}", gateways.stream_leases),
    ("POST", "/v1/reports", gateways.reports),
    ("GET", "/healthz", gateways.healthz),
)


def operators_app(panel: Panel) -> Starlette:
    """For `api.sock`: everything but what gateways alone say."""
    return _app([_route(panel, described.method, described.path, operation) for described, operation in OPERATIONS])


def gateways_app(panel: Panel) -> ASGIApp:
    """For `gateway.sock`: starts, routes, stream leases, reports."""
    table = [(method, compile_path(path)[0], operation) for method, path, operation in GATEWAY_ROUTES]
    others = _app([_route(panel, method, path, operation) for method, path, operation in GATEWAY_ROUTES])

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        """What a gateway says every few seconds is answered at once; through Starlette's layers it took twice as long.
        They have what no gateway of ours says."""
        for method, pattern, operation in table:
            if scope["type"] == "http" and method == scope["method"] and (found := pattern.match(scope["path"])):
                scope["path_params"] = found.groupdict()
                await _answer(panel, operation, scope, receive, send)
                return
        await others(scope, receive, send)

    return app


async def _answer(panel: Panel, operation: Operation, scope: Scope, receive: Receive, send: Send) -> None:
    """What is none of our errors the server answers and logs."""
    request = Request(scope, receive, send)
    try:
        answer = await operation(panel, request)
    except ANSWERED as error:
        answer = await answer_for(request, error)
    await answer(scope, receive, send)


def _app(routes: list[Route]) -> Starlette:
    return Starlette(routes=routes, exception_handlers=dict.fromkeys(ANSWERED, answer_for))


def _route(panel: Panel, method: str, path: str, operation: Operation) -> Route:
    return Route(path, partial(_answered, panel, operation), methods=[method])


async def _answered(panel: Panel, operation: Operation, request: Request) -> Response:
    return await operation(panel, request)
