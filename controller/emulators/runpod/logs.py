"""What does a pod's log stream give?

Server-sent events: the last lines first, then new ones as they come, until the client or the pod goes. As at Runpod
nothing marks the end of the old lines.
"""

from __future__ import annotations

import json
import re
from typing import Final

import anyio

from controller.emulators.exchange import Exchange, give
from controller.emulators.runpod import api
from controller.emulators.runpod.api_call import Ask
from controller.emulators.runpod.bodies import Refused
from controller.emulators.runpod.pod_calls import find_pod
from controller.emulators.runpod.pods import Pod
from controller.emulators.runpod.shown import in_rfc3339

LOGS_PATH: Final = re.compile(r"/v2/pods/([^/]+)/logs")
_LOOK_SECONDS: Final = 1.0
_MOST_LINES: Final = 5000
_HEADERS: Final = [
    ("content-type", "text/event-stream"),
    ("cache-control", "no-cache"),
    ("connection", "keep-alive"),
    ("x-accel-buffering", "no"),
]


async def stream_logs(ask: Ask, exchange: Exchange) -> None:
    try:
        pod, tail = _asked(ask)
    except Refused as refusal:
        await give(exchange, api.problem(refusal.status, refusal.detail, refusal.errors))
        return
    source = ask.request.parameters().get("source")
    await exchange.start(200, list(_HEADERS))
    sent = max(0, len(pod.log) - tail)
    while pod.alive:
        for number, (at, kind, line) in enumerate(pod.log[sent:], start=sent + 1):
            if source in (None, kind):
                await exchange.write(_event(at, kind, line, number))
        sent = len(pod.log)
        await anyio.sleep(_LOOK_SECONDS)
    await exchange.finish()


def _asked(ask: Ask) -> tuple[Pod, int]:
    match = LOGS_PATH.fullmatch(ask.request.path)
    api.authorize(ask)
    pod = find_pod(ask, match.group(1) if match else "")
    tail = ask.request.parameters().get("tail", "100")
    if not tail.isdigit() or int(tail) > _MOST_LINES:
        raise Refused(422, "Request validation failed.", [f"tail: value must be from 0 to {_MOST_LINES}"])
    return pod, int(tail)


def _event(at: float, source: str, line: str, number: int) -> bytes:
    moment = in_rfc3339(at)
    data = json.dumps({"ts": moment, "source": source, "line": line}, separators=(",", ":"))
    return f"id: {moment}/{number:012d}\ndata: {data}\n\n".encode()
