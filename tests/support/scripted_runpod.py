"""How does a test script the control plane's answers one by one?"""

from collections.abc import Sequence
from typing import Any

import httpx

from controller.providers.reading import Reading
from controller.providers.runpod.account import Account, open_api
from controller.providers.runpod.adapter import RunpodReading, RunpodWriting
from controller.providers.runpod.order import RunpodModel
from controller.providers.writing import Writing
from tests.support.draw import Draw
from tests.support.loop_clock import HandClock
from tests.support.runpod_samples import API_KEY, MODEL, NAMESPACE, raw

EMPTY_QUEUE = {"queuedPods": [], "pagination": {"nextCursor": None, "hasNextPage": False}}
PROBLEM_JSON = {"content-type": "application/problem+json"}


class Scripted:
    """Answers in the given order, the last for ever, and keeps what it was asked; questions for the queue apart."""

    def __init__(
        self,
        *replies: httpx.Response | Exception,
        queue: Sequence[httpx.Response | Exception] = (),
        model: RunpodModel = MODEL,
    ) -> None:
        self._replies = list(replies)
        self._queue = list(queue) or [answer(200, EMPTY_QUEUE)]
        self.queue_requests: list[httpx.Request] = []
        self.requests: list[httpx.Request] = []
        self.clock = HandClock()
        http = open_api(key=API_KEY, api_url="https://api.example/v2", transport=httpx.MockTransport(self._reply))
        self.account = account = Account(http, clock=self.clock, randomness=Draw(0))
        self.reading: Reading = RunpodReading(account, namespace=NAMESPACE, models=[model])
        self.writing: Writing = RunpodWriting(account, namespace=NAMESPACE, models={"qwen": model})

    def _reply(self, request: httpx.Request) -> httpx.Response:
        queued = request.url.path.endswith("/queued-pods") and request.method == "GET"
        replies, asked = (self._queue, self.queue_requests) if queued else (self._replies, self.requests)
        asked.append(request)
        reply = replies.pop(0) if len(replies) > 1 else replies[0]
        if isinstance(reply, Exception):
            raise reply
        return httpx.Response(reply.status_code, headers=reply.headers, content=reply.content)


def answer(code: int, content: Any = None, **headers: str) -> httpx.Response:
    return httpx.Response(code, content=raw(content), headers={"content-type": "application/json", **headers})


def problem(code: int, detail: str = "no", **headers: str) -> httpx.Response:
    return httpx.Response(
        code, content=raw({"title": "T", "status": code, "detail": detail}), headers=PROBLEM_JSON | headers
    )
