"""Does the OpenAI client stream and ask through the gateway, unchanged but for its address and key?"""

import hashlib
from typing import TYPE_CHECKING

import pytest

from tests.processes.box import Box, box

if TYPE_CHECKING:
    import openai

pytestmark = pytest.mark.process

CLIENT_KEY = "a-clients-key"


@pytest.fixture(scope="module", autouse=True)
def _imported() -> None:
    """Seconds of work: not for those who only collect, and not while a test's time runs."""
    import openai  # noqa: F401


def client_of(world: Box, key: str) -> "openai.AsyncOpenAI":
    import openai

    return openai.AsyncOpenAI(base_url=world.address, api_key=key)


async def streamed(client: "openai.AsyncOpenAI") -> str:
    stream = await client.chat.completions.create(
        model="m1", messages=[{"role": "user", "content": "count"}], stream=True, max_tokens=8
    )
    return "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])


async def asked(client: "openai.AsyncOpenAI") -> str | None:
    answer = await client.chat.completions.create(
        model="m1", messages=[{"role": "user", "content": "count"}], max_tokens=8
    )
    return answer.choices[0].message.content


async def test_a_cold_model_starts_streams_and_answers_without_any_key_of_ours() -> None:
    async with box() as world:
        await world.run_daemon()
        await world.run_gateway()
        async with client_of(world, "whatever") as client:
            text = await streamed(client)
            assert text and await asked(client) == text
            assert [model.id async for model in client.models.list()] == ["m1"]
        assert len(await world.creates()) == 1


async def test_with_client_keys_the_right_one_is_served_and_another_starts_nothing() -> None:
    import openai

    async with box() as world:
        world.configure(gateway=f'keys = ["sha256:{hashlib.sha256(CLIENT_KEY.encode()).hexdigest()}"]')
        await world.run_daemon()
        await world.run_gateway()
        async with client_of(world, "another") as stranger:
            with pytest.raises(openai.AuthenticationError):
                await streamed(stranger)
        assert await world.creates() == []
        async with client_of(world, CLIENT_KEY) as client:
            text = await streamed(client)
            assert text and await asked(client) == text


async def test_a_key_that_was_handed_out_is_charged_for_the_start_it_waited_for_and_refused_beyond_its_budget() -> None:
    import openai

    async with box() as world:
        await world.run_daemon()
        made = await world.cli("keys", "add", "alice", "--usd-per-day", "0.000001")
        await world.run_gateway()
        async with client_of(world, made.out.strip()) as client:
            assert await streamed(client)
            with pytest.raises(openai.RateLimitError) as refused:
                await streamed(client)
    assert refused.value.code == "budget_exhausted"
    assert float(refused.value.response.headers["x-gpuwarden-usd-today"]) > 0
    assert refused.value.response.headers["x-gpuwarden-usd-limit"] == "0.000001"
