"""What do clients that people use make of a start that failed, and of an answer that broke off (B47)?

Each raises an error whose message is the reason, and none hangs or takes what it got for a whole answer.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.gateway.sockets import Served, fail_to_start, served
from tests.gateway.stub_server import event
from tests.gateway.test_endings import HEAD, silent
from tests.gateway.test_real_clients import ASK, ASK_RESPONSES, _imported, anthropics, openais
from tests.support.raw_server import RawExchange, raw_server

if TYPE_CHECKING:
    import anthropic
    import openai

pytestmark = [pytest.mark.process, pytest.mark.usefixtures(_imported.__name__)]

REASON = "CUDA out of memory"
LIMIT_S = 20.0

Attempt = Callable[[Served], Awaitable[object]]


async def openai_asks(gateway: Served) -> object:
    async with openais(gateway) as client:
        return await client.chat.completions.create(**ASK)


async def openai_streams(gateway: Served) -> object:
    async with openais(gateway) as client:
        return [chunk async for chunk in await client.chat.completions.create(**ASK, stream=True)]


async def openai_asks_for_a_response(gateway: Served) -> object:
    async with openais(gateway) as client:
        return await client.responses.create(**ASK_RESPONSES)


async def openai_streams_a_response(gateway: Served) -> object:
    async with openais(gateway) as client:
        return [each async for each in await client.responses.create(**ASK_RESPONSES, stream=True)]


async def anthropic_asks(gateway: Served) -> object:
    async with anthropics(gateway) as client:
        return await client.messages.create(**ASK)


async def anthropic_streams(gateway: Served) -> object:
    async with anthropics(gateway) as client, client.messages.stream(**ASK) as stream:
        return await stream.get_final_message()


STREAMED: list[Attempt] = [openai_streams, openai_streams_a_response, anthropic_streams]
STREAM_STATUS: dict[Attempt, int] = {anthropic_streams: 200}
"""Only Anthropic's client tells the status of an answer that began well."""
PLAIN: list[Attempt] = [openai_asks, openai_asks_for_a_response, anthropic_asks]


async def raised_by(attempt: Attempt, gateway: Served) -> "openai.APIError | anthropic.APIError":
    import anthropic
    import openai

    with pytest.raises((openai.APIError, anthropic.APIError)) as caught:
        await asyncio.wait_for(attempt(gateway), LIMIT_S)
    assert isinstance(caught.value, openai.APIError | anthropic.APIError)
    return caught.value


@asynccontextmanager
async def failing() -> AsyncIterator[Served]:
    async with raw_server(silent) as server, served(server.port, sign_of_life=timedelta(seconds=0.1)) as gateway:
        await fail_to_start(gateway, REASON)
        yield gateway
        assert server.requests == []


async def test_the_reason_of_a_failed_start_is_what_is_raised() -> None:
    """All at once, as some try three times by themselves."""

    async def raised(attempt: Attempt) -> "openai.APIError | anthropic.APIError":
        async with failing() as gateway:
            return await raised_by(attempt, gateway)
        raise AssertionError("unreachable")

    attempts = [*PLAIN, *STREAMED]
    for attempt, caught in zip(attempts, await asyncio.gather(*map(raised, attempts)), strict=True):
        assert REASON in str(caught)
        assert "start_failed" in str(caught.body)
        assert getattr(caught, "status_code", None) == (503 if attempt in PLAIN else STREAM_STATUS.get(attempt))


def named_event(kind: str, **more: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **more})}\n\n".encode()


ANTHROPIC_BEGIN = named_event(
    "message_start",
    message={
        "id": "x",
        "type": "message",
        "role": "assistant",
        "model": "m1",
        "content": [],
        "stop_reason": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    },
) + named_event("content_block_start", index=0, content_block={"type": "text", "text": ""})
RESPONSES_BEGIN = named_event(
    "response.output_text.delta",
    sequence_number=1,
    item_id="i",
    output_index=0,
    content_index=0,
    delta="one",
    logprobs=[],
)


@pytest.mark.parametrize(
    ("attempt", "begun"),
    [
        (openai_streams, event("one")),
        (openai_streams_a_response, RESPONSES_BEGIN),
        (anthropic_streams, ANTHROPIC_BEGIN),
    ],
)
async def test_a_stream_that_broke_off_is_no_answer(attempt: Attempt, begun: bytes) -> None:
    async def breaks_off(exchange: RawExchange) -> None:
        await exchange.write(HEAD)
        await exchange.chunk(begun)
        await asyncio.sleep(0.02)
        exchange.reset()

    async with raw_server(breaks_off) as server, served(server.port) as gateway:
        caught = await raised_by(attempt, gateway)
        assert len(server.requests) == 1
    assert "upstream_disconnected" in str(caught.body)
