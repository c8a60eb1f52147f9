"""Which models are there for this client, and how soon would each answer?

As OpenAI's clients read a list of models, or Anthropic's, if one asks: they send a version. Beside what those know of
stands how ready the model is, as the daemon last said; a model of which it has said nothing is `unknown`. Reading this
wakes nothing.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from controller.gateway.clients import Client
from controller.gateway.config import GatewayConfig
from controller.gateway.refusals import Voice
from controller.gateway.routes import View

OWNER: Final = "gpuwarden"
EPOCH: Final = "1970-01-01T00:00:00Z"
"""What those who do not know when a model was released are to write."""

Entry = dict[str, Any]


def listed(config: GatewayConfig, views: Mapping[str, View], client: Client, voice: Voice) -> Entry:
    """All at once: no client has to ask for a second page."""
    entries = list(_entries(config, views, client, voice))
    if voice is not Voice.ANTHROPIC:
        return {"object": "list", "data": entries}
    ids = [entry["id"] for entry in entries]
    return {
        "data": entries,
        "has_more": False,
        "first_id": ids[0] if ids else None,
        "last_id": ids[-1] if ids else None,
    }


def _entries(config: GatewayConfig, views: Mapping[str, View], client: Client, voice: Voice) -> Iterator[Entry]:
    """Each model that this client may use, and behind it its adapters."""
    for alias in config.models:
        readiness = _readiness(views.get(alias))
        if client.may_use(alias):
            yield _named(alias, voice) | readiness
        declared = config.declared.get(alias)
        for adapter in () if declared is None else declared.adapters:
            if client.may_use(alias, adapter):
                yield _named(f"{alias}:{adapter}", voice) | {"parent": alias} | readiness


def one(name: str, config: GatewayConfig, views: Mapping[str, View], client: Client, voice: Voice) -> Entry | None:
    """None where this client has no such model."""
    return next((entry for entry in _entries(config, views, client, voice) if entry["id"] == name), None)


def _named(name: str, voice: Voice) -> Entry:
    if voice is Voice.ANTHROPIC:
        return {"id": name, "type": "model", "display_name": name, "created_at": EPOCH, "lifecycle": "active"}
    return {"id": name, "object": "model", "created": 0, "owned_by": OWNER}


def _readiness(view: View | None) -> Entry:
    """`ready`: a request would be sent on at once. `eta_seconds` is told while it starts, `cold_start_seconds` always:
    what a start took."""
    if view is None:
        view = View(alias="", phase="unknown", wires=())
    starting = view.starting
    return {
        "ready": bool(view.routes),
        "phase": view.phase,
        "starting": None if starting is None else starting.phase,
        "eta_seconds": None if starting is None or starting.eta is None else starting.eta.total_seconds(),
        "cold_start_seconds": None if view.cold_start is None else view.cold_start.total_seconds(),
        "usd_so_far": None if starting is None else starting.usd_so_far,
        "usd_per_hour": view.usd_per_hour,
        "wires": list(view.wires),
        "tools": view.tools,
    }
