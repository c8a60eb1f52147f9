"""What does a pod's log stream give?

Server-sent events: the last lines first, then new ones as they come, until the client or the pod goes. As at Runpod
nothing marks the end of the old lines.

Who comes back goes on where it was: `Last-Event-ID` counts before `since`, and either before `tail` (v2 document). An
id of ours names one line; a time alone leaves out all lines of its second (as was seen of `since`).
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from datetime import UTC, datetime
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
        pod, sent = _asked(ask)
    except Refused as refusal:
        await give(exchange, api.problem(refusal.status, refusal.detail, refusal.errors))
        return
    source = ask.request.parameters().get("source")
    await exchange.start(200, list(_HEADERS))
    while pod.alive:
        for number, (at, kind, line) in enumerate(pod.log[sent:], start=sent + 1):
            if source in (None, kind):
                await exchange.write(_event(at, kind, line, number))
        sent = len(pod.log)
        await anyio.sleep(_LOOK_SECONDS)
    await exchange.finish()


def _asked(ask: Ask) -> tuple[Pod, int]:
    """The pod, and how many of its lines are not wanted. Raises Refused."""
    match = LOGS_PATH.fullmatch(ask.request.path)
    api.authorize(ask)
    pod, query = find_pod(ask, match.group(1) if match else ""), ask.request.parameters()
    tail = query.get("tail", "100")
    if not tail.isdigit() or int(tail) > _MOST_LINES:
        raise Refused(422, "Request validation failed.", [f"tail: value must be from 0 to {_MOST_LINES}"])
    seen = ask.request.header("last-event-id")
    if seen:
        moment, _, number = seen.partition("/")
        return pod, _lines_until(pod, "Last-Event-ID", moment, number)
    if "since" in query:
        return pod, _lines_until(pod, "since", query["since"])
    return pod, max(0, len(pod.log) - int(tail))


def _lines_until(pod: Pod, name: str, moment: str, number: str = "") -> int:
    try:
        at = datetime.fromisoformat(moment)
        last = int(number) if number else math.inf
    except ValueError:
        raise Refused(422, "Request validation failed.", [f"{name}: value must be a time in RFC 3339"]) from None
    second = int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp())
    lines = [(int(said_at), count) for count, (said_at, _, _) in enumerate(pod.log, start=1)]
    return bisect_right(lines, (second, last))


def _event(at: float, source: str, line: str, number: int) -> bytes:
    moment = in_rfc3339(at)
    data = json.dumps({"ts": moment, "source": source, "line": line}, separators=(",", ":"))
    return f"id: {moment}/{number:012d}\ndata: {data}\n\n".encode()
