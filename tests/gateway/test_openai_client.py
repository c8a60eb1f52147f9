"""An ordinary OpenAI client, unchanged but for its address and key."""

import asyncio
import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.gateway.sockets import Served, go_cold, served
from tests.gateway.stub_server import DONE, event
from tests.gateway.world import CLIENT_KEY
from tests.support.fake_daemon import route
from tests.support.raw_server import RawExchange, raw_server

if TYPE_CHECKING:
    import openai

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.fixture(scope="module", autouse=True)
def _imported() -> None:
    """Seconds of work: not for those who only collect, and not while a test's time runs."""
    import openai  # noqa: F401


async def model_server(exchange: RawExchange) -> None:
    asked = json.loads(exchange.request.partition(b"\r\n\r\n")[2])
    if asked.get("stream"):
        await exchange.write(HEAD)
        for piece in (event("one "), event("two", "stop"), DONE):
            await exchange.chunk(piece)
        await exchange.write(b"0\r\n\r\n")
        return
    if "input" in asked:
        embedding = {"object": "embedding", "index": 0, "embedding": [0.5, 0.25]}
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        await plainly(exchange, {"object": "list", "model": asked["model"], "data": [embedding], "usage": usage})
        return
    message: dict[str, Any] = {"role": "assistant", "content": "one two"}
    if asked.get("tools"):
        call = {"name": asked["tools"][0]["function"]["name"], "arguments": '{"city":"Bonn"}'}
        message = {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "t1", "type": "function", "function": call}],
        }
    answer = {
        "id": "c1",
        "object": "chat.completion",
        "created": 1,
        "model": asked["model"],
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
    }
    await plainly(exchange, answer)


async def plainly(exchange: RawExchange, answer: dict[str, Any]) -> None:
    body = json.dumps(answer).encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
    await exchange.write(head + body)


def client_of(gateway: Served, **options: Any) -> "openai.AsyncOpenAI":
    import openai

    return openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{gateway.port}/v1", api_key=CLIENT_KEY, **options)


async def streamed(client: "openai.AsyncOpenAI") -> str:
    stream = await client.chat.completions.create(
        model="m1", messages=[{"role": "user", "content": "count"}], stream=True
    )
    return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])


@pytest.mark.process
async def test_it_streams() -> None:
    async with raw_server(model_server) as server, served(server.port) as gateway, client_of(gateway) as client:
        assert await streamed(client) == "one two"


@pytest.mark.process
async def test_it_asks_and_lists() -> None:
    async with raw_server(model_server) as server, served(server.port) as gateway, client_of(gateway) as client:
        answer = await client.chat.completions.create(model="m1", messages=[{"role": "user", "content": "count"}])
        models = [model.id async for model in client.models.list()]
    assert answer.choices[0].message.content == "one two"
    assert models == ["m1"]


@pytest.mark.process
async def test_it_streams_from_a_cold_model_through_signs_of_life() -> None:
    async with (
        raw_server(model_server) as server,
        served(server.port, sign_of_life=timedelta(seconds=0.1)) as gateway,
    ):
        await gateway.change("m1", phase="off", routes=[])
        async with client_of(gateway) as client, asyncio.TaskGroup() as group:
            asked = group.create_task(streamed(client))
            await asyncio.sleep(0.5)
            routes = [route("d2", f"http://127.0.0.1:{server.port}/v1/", proven=False)]
            gateway.daemon.change("m1", phase="ready", routes=routes)
    assert asked.result() == "one two"


@pytest.mark.process
async def test_it_raises_when_the_upstream_dies_in_the_stream() -> None:
    import openai

    async def dies(exchange: RawExchange) -> None:
        await exchange.write(HEAD)
        await exchange.chunk(event("one "))
        await asyncio.sleep(0.02)
        exchange.reset()

    async with (
        raw_server(dies) as server,
        served(server.port) as gateway,
        client_of(gateway, max_retries=0) as client,
    ):
        with pytest.raises(openai.APIError) as caught:
            await streamed(client)
    assert caught.value.code == "upstream_disconnected"


@pytest.mark.process
@pytest.mark.parametrize(
    ("key", "alias", "error"),
    [("other", "m1", "AuthenticationError"), (CLIENT_KEY, "nope", "NotFoundError")],
)
async def test_it_raises_the_error_that_was_meant(key: str, alias: str, error: str) -> None:
    import openai

    async with raw_server(model_server) as server, served(server.port) as gateway:
        client = openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{gateway.port}/v1", api_key=key)
        async with client:
            with pytest.raises(getattr(openai, error)):
                await client.chat.completions.create(model=alias, messages=[])


TOOL: Any = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}


@pytest.mark.process
async def test_it_calls_tools_and_embeds_from_a_cold_model_on() -> None:
    async with raw_server(model_server) as server, served(server.port) as gateway, client_of(gateway) as client:
        await go_cold(gateway, server.port)
        answer = await client.chat.completions.create(
            model="m1", messages=[{"role": "user", "content": "how is it in Bonn?"}], tools=[TOOL]
        )
        vectors = await client.embeddings.create(model="m1", input="word", encoding_format="float")
    calls = answer.choices[0].message.tool_calls or []
    assert [call.to_dict()["function"] for call in calls] == [{"name": "weather", "arguments": '{"city":"Bonn"}'}]
    assert vectors.data[0].embedding == [0.5, 0.25]
