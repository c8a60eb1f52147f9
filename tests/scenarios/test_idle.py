"""What is use of a machine, and whose use is it?

Case B25: monitoring, listings and requests that are refused neither wake a model nor keep its machine. Case B38: a
request that ends on the machine that was replaced takes nothing from the count of the one that came after it.
"""

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from controller.http1 import Outgoing
from tests.scenarios.world import Box, World, scenario
from tests.support.asgi_wire import AsgiWire

KEY, WRONG = "a-clients-key", "somebody-elses"
CHAT = b'{"model": "m1", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 4}'
POLLED = (
    ("GET", "/v1/models", KEY, b""),
    ("GET", "/health", KEY, b""),
    ("GET", "/healthz", KEY, b""),
    ("GET", "/metrics", KEY, b""),
    ("HEAD", "/v1/chat/completions", KEY, b""),
    ("OPTIONS", "/v1/chat/completions", KEY, b""),
    ("POST", "/v1/chat/completions", WRONG, b'{"model": "m1", "messages": []}'),
    ("POST", "/v1/chat/completions", KEY, b'{"model": "m2", "messages": []}'),
    ("POST", "/v1/chat/completions", KEY, b'{"model": "m1"'),
)


async def ask(box: Box, method: str, path: str, key: str, body: bytes) -> int:
    """One request with this key, and what came of it."""
    headers = ((b"authorization", f"Bearer {key}".encode()), (b"content-type", b"application/json"))
    request = Outgoing(
        method=method, url=f"http://gateway{path}", headers=headers, body=body, head_limit=None, silence_limit=None
    )
    answer = await AsgiWire({"gateway": box.gateway.app}).send(request)
    await answer.read(1 << 20)
    answer.close()
    return answer.status


async def poll(box: Box) -> None:
    for method, path, key, body in POLLED:
        status = await ask(box, method, path, key, body)
        assert (method == "GET" and path != "/health") or status >= 400, (method, path, status)


@asynccontextmanager
async def polled(box: Box) -> AsyncIterator[None]:
    """Somebody looks at everything every 5 s."""

    async def go_on() -> None:
        while True:
            await poll(box)
            await anyio.sleep(5)

    async with anyio.create_task_group() as group:
        group.start_soon(go_on)
        yield
        group.cancel_scope.cancel()


def test_who_only_looks_or_is_refused_neither_keeps_a_machine_nor_wakes_a_model() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        world.client_keys = frozenset({hashlib.sha256(KEY.encode()).hexdigest()})
        async with world.box() as box:
            assert await ask(box, "POST", "/v1/chat/completions", KEY, CHAT) == 200
            served_at = world.now_s
            async with polled(box):
                await world.until(lambda: bool(world.deletes()), within=400)
                assert 299.9 <= world.deletes()[0]["s"] - served_at <= 360
                await world.at(world.now_s + 3600)
            assert (len(world.creates()), world.alive()) == (1, [])

    scenario(play)


def test_a_stream_that_ends_on_the_machine_before_is_none_of_the_next_one_s() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            await box.chat(world)
            (first,) = world.alive()
            before = world.soon(box.chat(world, stream=True, max_tokens=300))
            await world.at(world.now_s + 5)
            await box.operators.post("/v1/models/m1/restart", {})
            await world.until(lambda: len(world.alive()) == 2, within=60)
            (second,) = [pod["id"] for pod in world.alive() if pod["id"] != first["id"]]
            await world.until(lambda: served_by(box) == second, within=200)
            after = world.soon(box.chat(world, stream=True, max_tokens=900))
            await world.until(lambda: before.done, within=400)
            assert not after.done and box.gateway.leases.open_requests == 1
            await world.until(lambda: after.done, within=1000)
            assert [pending.got.body.endswith(b"data: [DONE]\n\n") for pending in (before, after)] == [True, True]
            assert [call["pod"] for call in world.deletes()] == [first["id"]]

    scenario(play, token_rate=1)


def served_by(box: Box) -> str | None:
    """The machine to which the next request would go."""
    ready = [record for record in box.daemon.store.book.live("m1") if record.replaces is not None and record.proven_at]
    return ready[0].key.incarnation if ready and ready[0].key is not None else None
