"""Do models that place or rate texts, and adapters of a model, start, serve and stop like any other?"""

import json
from typing import Any

import anyio
import pytest

from controller.http1 import Outgoing
from tests.scenarios.test_declarations import LLAMA, MODEL
from tests.scenarios.world import Box, World, scenario
from tests.support.asgi_wire import AsgiWire

EMBED: dict[str, Any] = {"model": "m1", "input": ["one", "two"]}
RATE: dict[str, Any] = {"model": "m1", "query": "red fish", "documents": ["a bird", "red fish"]}
CHAT: dict[str, Any] = {"model": "m1", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 2}

KINDS = [
    ("", "embeddings", "/v1/embeddings", EMBED, ("/v1/rerank", RATE)),
    ("", "rerank", "/v1/rerank", RATE, ("/v1/embeddings", EMBED)),
    (LLAMA, "embeddings", "/v1/embeddings", EMBED, ("/v1/chat/completions", CHAT)),
    (LLAMA, "rerank", "/v1/rerank", RATE, ("/v1/chat/completions", CHAT)),
]


def written(world: World, lines: str) -> None:
    section = MODEL.format(lines=f'idle_after = "300s"\n{lines}')
    if 'image = "ghcr' in lines:
        section = section.replace('image = "vllm/vllm-openai:v0.31.0"\n', "")
    world.write(section)


@pytest.mark.parametrize(("server", "wire", "path", "body", "other"), KINDS, ids=lambda value: str(value)[:20])
def test_a_model_that_reads_only_is_woken_by_its_own_wire_alone_serves_and_is_idled_out(
    server: str, wire: str, path: str, body: dict[str, Any], other: tuple[str, dict[str, Any]]
) -> None:
    async def play(world: World) -> None:
        written(world, f'{server}wires = ["{wire}"]')
        async with world.box() as box:
            await anyio.sleep(30)
            refusal, told = await ask(box, *other)
            assert (refusal, told["error"]["code"]) == (400, "not_served")
            assert not world.pods()
            answered, found = await ask(box, path, body)
            assert answered == 200, found
            assert len(found["data" if wire == "embeddings" else "results"]) == 2
            assert len(world.alive()) == 1
            await world.until(lambda: not world.alive(), within=600)
            await anyio.sleep(300)

    scenario(play)


def test_an_adapter_wakes_its_model_answers_by_its_own_name_and_keeps_the_machine_in_use() -> None:
    async def play(world: World) -> None:
        written(world, 'adapters = { sql = "org/sql-lora" }')
        async with world.box() as box:
            await anyio.sleep(30)
            refusal, told = await ask(box, "/v1/chat/completions", CHAT | {"model": "m1:fr"})
            assert (refusal, told["error"]["code"], world.pods()) == (404, "unknown_model", [])
            assert await asked(box, "m1:sql") == "sql"
            for _ in range(3):
                await anyio.sleep(200)
                assert await asked(box, "m1:sql") == "sql"
            assert len(world.pods()) == 1, "its use is use of the model"
            assert await asked(box, "m1") == "org/m1"
            await world.until(lambda: not world.alive(), within=600)
            await anyio.sleep(300)

    scenario(play)


@pytest.mark.parametrize(("pinned", "details"), [(True, {None}), (False, {None, "runs vLLM 0.32.0"})])
def test_what_an_unpinned_image_turned_out_to_hold_is_evidence(pinned: bool, details: set[str | None]) -> None:
    async def play(world: World) -> None:
        section = MODEL.format(lines='idle_after = "300s"\nallow_unpinned = true')
        world.write(section if pinned else section.replace(":v0.31.0", ":latest"))
        async with world.box() as box:
            assert await asked(box, "m1") == "org/m1"
            assert {line.get("detail") for line in world.events("deployment.phase")} == details
            await world.until(lambda: not world.alive(), within=600)
            await anyio.sleep(300)

    scenario(play)


async def ask(box: Box, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    request = Outgoing(
        method="POST",
        url=f"http://gateway{path}",
        headers=((b"content-type", b"application/json"),),
        body=json.dumps(body).encode(),
        head_limit=None,
        silence_limit=None,
    )
    answer = await AsgiWire({"gateway": box.gateway.app}).send(request)
    try:
        return answer.status, json.loads(await answer.read(1 << 20))
    finally:
        answer.close()


async def asked(box: Box, model: str) -> str:
    """The name that the model server answered by."""
    answered, found = await ask(box, "/v1/chat/completions", CHAT | {"model": model})
    assert answered == 200, found
    return str(found["model"])
