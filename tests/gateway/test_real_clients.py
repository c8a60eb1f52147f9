"""Do clients that people use work against real llama.cpp, with nothing but base URL and key changed, from cold on?"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.gateway.llama import llama_server
from tests.gateway.sockets import Served, go_cold, served
from tests.gateway.world import CLIENT_KEY

if TYPE_CHECKING:
    import anthropic
    import openai

pytestmark = pytest.mark.process

SAY: Final[Any] = [{"role": "user", "content": "count"}]
ASK: Final[Any] = {"model": "m1", "messages": SAY, "max_tokens": 5}
ASK_RESPONSES: Final[Any] = {"model": "m1", "input": "count", "max_output_tokens": 5}


@pytest.fixture(scope="module", autouse=True)
def _imported() -> None:
    """Seconds of work: not for those who only collect, and not while a test's time runs."""
    import anthropic  # noqa: F401
    import openai  # noqa: F401


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with llama_server(tmp_path_factory.mktemp("llama")) as port:
        yield port


@asynccontextmanager
async def cold(port: int) -> AsyncIterator[Served]:
    """The model is started by the first request; a waiting stream shows life twice before it is there."""
    async with served(port, sign_of_life=timedelta(seconds=0.2)) as gateway:
        await gateway.change("m1", server="llama_cpp")
        await go_cold(gateway, port)
        yield gateway
        assert len({alias for _, alias, _ in gateway.daemon.starts}) == 1


def openais(gateway: Served) -> "openai.AsyncOpenAI":
    import openai

    return openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{gateway.port}/v1", api_key=CLIENT_KEY)


def anthropics(gateway: Served, key: str = CLIENT_KEY) -> "anthropic.AsyncAnthropic":
    import anthropic

    return anthropic.AsyncAnthropic(base_url=f"http://127.0.0.1:{gateway.port}", api_key=key)


async def test_openais_client_asks(llama: int) -> None:
    async with cold(llama) as gateway, openais(gateway) as client:
        answer = await client.chat.completions.create(**ASK)
    assert answer.choices[0].message.content
    assert answer.usage is not None and answer.usage.completion_tokens


async def test_openais_client_streams(llama: int) -> None:
    async with cold(llama) as gateway, openais(gateway) as client:
        stream = await client.chat.completions.create(**ASK, stream=True)
        words = [chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices]
    assert "".join(words)


async def test_openais_client_asks_for_a_response(llama: int) -> None:
    async with cold(llama) as gateway, openais(gateway) as client:
        answer = await client.responses.create(**ASK_RESPONSES)
    assert answer.output_text


async def test_openais_client_streams_a_response(llama: int) -> None:
    async with cold(llama) as gateway, openais(gateway) as client:
        events = [event async for event in await client.responses.create(**ASK_RESPONSES, stream=True)]
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert events[-1].type == "response.completed"


async def test_anthropics_client_asks(llama: int) -> None:
    async with cold(llama) as gateway, anthropics(gateway) as client:
        answer = await client.messages.create(**ASK)
    assert answer.content[0].type == "text" and answer.content[0].text
    assert answer.stop_reason == "max_tokens"


async def test_anthropics_client_streams(llama: int) -> None:
    async with cold(llama) as gateway, anthropics(gateway) as client, client.messages.stream(**ASK) as stream:
        words = [text async for text in stream.text_stream]
        message = await stream.get_final_message()
    assert "".join(words) == "".join(block.text for block in message.content if block.type == "text") != ""


async def test_anthropics_client_counts_tokens(llama: int) -> None:
    async with served(llama) as gateway, anthropics(gateway) as client:
        assert (await client.messages.count_tokens(model="m1", messages=SAY)).input_tokens > 0


async def test_anthropics_client_raises_what_was_meant(llama: int) -> None:
    import anthropic

    async with served(llama) as gateway, anthropics(gateway, "another") as stranger, anthropics(gateway) as client:
        with pytest.raises(anthropic.AuthenticationError):
            await stranger.messages.create(**ASK)
        with pytest.raises(anthropic.NotFoundError):
            await client.messages.create(**{**ASK, "model": "nope"})


async def test_both_clients_read_which_models_there_are(llama: int) -> None:
    async with served(llama) as gateway, anthropics(gateway) as client, openais(gateway) as other:
        theirs = [model async for model in await client.models.list()]
        named = await other.models.retrieve("m1")
        assert [model.id async for model in other.models.list()] == ["m1"]
    assert [(model.id, model.display_name) for model in theirs] == [("m1", "m1")]
    assert (named.model_extra or {})["phase"] == theirs[0].to_dict()["phase"] == "ready"
