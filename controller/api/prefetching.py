"""How is a model's volume asked to be filled, and what is it told to who asks?

The wish is remembered for a minute, as that for a start, and is one attempt: what is being filled, or was just filled
and is not proven gone, is named instead of asked for again. Whether anything is started is the prefetcher's decision.
"""

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from controller.api.panel import Panel
from controller.api.problems import Problem, not_found, read_body, refused, text_in, unknown_model
from controller.api.views import Json, refusal_json
from controller.core.deployment import Record
from controller.core.errors import Code
from controller.core.evidence import StopReason
from controller.core.policy import ModelPolicy


async def prefetch(panel: Panel, request: Request) -> Response:
    """Fill the volume in one place, or each that the model has."""
    body = await read_body(request)
    model = panel.models.get(request.path_params["alias"])
    if model is None:
        raise unknown_model(request.path_params["alias"])
    if panel.barred is not None:
        raise refused(panel.barred)
    if panel.store.unwritable_since is not None:
        raise Problem(503, Code.STORE_UNAVAILABLE, "the store cannot be written")
    answers = [_ask(panel, model, place) for place in _places(model, body)]
    panel.ring("observer", "prefetcher")
    return JSONResponse({"schema": 1, "alias": model.alias, "places": answers}, status_code=202)


def _places(model: ModelPolicy, body: dict[str, Any]) -> list[str]:
    declared = [volume.place for volume in model.volumes]
    if not declared:
        raise refused(f"{model.alias} has no volumes, so there is nothing to fill: declare `volumes`")
    if "place" not in body:
        return declared
    place = text_in(body, "place")
    if place not in declared:
        raise not_found(f"volume of {model.alias} in {place!r}; it has {', '.join(declared)}")
    return [place]


def _ask(panel: Panel, model: ModelPolicy, place: str) -> Json:
    there = _under_way(panel, model.alias, place)
    if there is None:
        panel.wants.ask_fill(model.alias, place, now=panel.clock.now())
    refusal = None if there is not None else panel.prefetch_refusal((model.alias, place))
    return {
        "place": place,
        "deployment": None if there is None else there.id,
        "refusal": None if refusal is None else {**refusal_json(refusal, panel.now), "detail": refusal.detail},
    }


def _under_way(panel: Panel, alias: str, place: str) -> Record | None:
    filling = (record for record in panel.live(alias) if record.fills == place)
    return next((record for record in filling if record.reason in {None, StopReason.PREFETCHED}), None)
