"""Is there anything that makes the operators' API answer with 500?"""

import json
import os
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.api.app import OPERATIONS, operators_app
from controller.api.openapi import document
from controller.core.errors import Code
from controller.http1 import Outgoing
from tests.api.world import World, world
from tests.support.asgi_wire import AsgiWire
from tests.support.fuzzing import Asked, asked

EXAMPLES = int(os.environ.get("GPUWARDEN_FUZZ", "3"))
"""Each with up to 60 requests."""
DOCUMENT = document((described for described, _ in OPERATIONS), version="0")
KNOWN: dict[str, list[Any]] = {
    "alias": ["qwen"],
    "id": ["qwen-1", "o-1"],
    "model": ["qwen"],
    "installation": ["other"],
    "after": [0, 1],
}
HEADERS = {"content-type": [b"text/plain", b"application/json; charset=latin-1"], "accept": [b"text/html"]}
WORDS = {code.value for code in Code}


async def play(requests: list[Asked], folder: Path) -> None:
    async with world(folder) as house:
        await house.serve()
        await house.declare("qwen-2", slot=1)
        wire = AsgiWire({"api": operators_app(house.panel)})
        for each in requests:
            await _ask(house, wire, each)


async def _ask(house: World, wire: AsgiWire, each: Asked) -> None:
    request = Outgoing(method=each.method, url=f"http://api{each.path}", headers=each.headers, body=each.body)
    with anyio.move_on_after(0.5):  # what waits for news waits long
        answer = await wire.send(request)
        try:
            assert answer.failure is None, (each, answer.failure)
            assert answer.status != 500, each
            if answer.status >= 400 and each.method != "HEAD":
                told = json.loads(await answer.read(1 << 20))
                assert told["code"] in WORDS, (each, told)
                assert told["status"] == answer.status
        finally:
            answer.close()


@settings(max_examples=EXAMPLES, derandomize=EXAMPLES <= 3, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(asked(DOCUMENT, KNOWN, HEADERS), min_size=40, max_size=60))
def test_nothing_that_is_sent_is_answered_with_500(requests: list[Asked]) -> None:
    with TemporaryDirectory() as folder:
        anyio.run(partial(play, requests, Path(folder)))
