"""Do LiteLLM and `llm`, with nothing but base URL and key changed, get a cold model's answer from real llama.cpp?

Each of the two takes seconds to be imported, so that one process of it asks for all: every request comes to a gateway
of its own, whose model is cold.
"""

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from tests.gateway.llama import llama_server
from tests.gateway.sockets import Served, fail_to_start, go_cold, served
from tests.gateway.test_endings import silent
from tests.gateway.world import CLIENT_KEY
from tests.outside.programs import run_program
from tests.support.raw_server import raw_server

pytestmark = pytest.mark.process

REASON = "CUDA out of memory"
LITELLM = """
import json, sys, litellm

said = []
for provider, address, stream in json.loads(sys.argv[1]):
    asked = {"model": f"{provider}/m1", "api_base": address, "api_key": sys.argv[2], "max_tokens": 5}
    asked["messages"] = [{"role": "user", "content": "count"}]
    try:
        answer = litellm.completion(**asked, stream=stream)
        words = [chunk.choices[0].delta.content or "" for chunk in answer] if stream else []
        said.append(["answered", "".join(words) if stream else answer.choices[0].message.content])
    except Exception as error:
        said.append([type(error).__name__, str(error)])
print(json.dumps(said))
"""
LLM_FAILS = """
import json, sys, click, llm.cli

said = []
for words in json.loads(sys.argv[1]):
    try:
        llm.cli.cli.main(words, standalone_mode=False)
        said.append("answered")
    except click.ClickException as error:
        said.append(error.format_message())
print(json.dumps(said))
"""
LLM = """
import json, sys, llm.cli

for words in json.loads(sys.argv[1]):
    llm.cli.cli.main(words, standalone_mode=False)
    print("---")
"""


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with llama_server(tmp_path_factory.mktemp("llama")) as port:
        yield port


@asynccontextmanager
async def cold(port: int, number: int) -> AsyncIterator[Sequence[Served]]:
    """So many gateways, each with a model that only the first request starts; a stream that waits sees life twice."""
    async with AsyncExitStack() as stack:
        gateways = [
            await stack.enter_async_context(served(port, sign_of_life=timedelta(seconds=0.2))) for _ in range(number)
        ]
        for gateway in gateways:
            gateway.daemon.change("m1", server="llama_cpp")
            await go_cold(gateway, port)
        yield gateways
        assert all(gateway.daemon.starts for gateway in gateways)


async def test_litellm_is_answered_by_cold_models_and_told_why_a_start_failed(llama: int, tmp_path: Path) -> None:
    kinds = [("openai", "/v1", False), ("openai", "/v1", True), ("anthropic", "", False), ("anthropic", "", True)]
    async with cold(llama, len(kinds)) as good, failing(len(kinds)) as bad:
        asked = [
            (provider, f"http://127.0.0.1:{gateway.port}{below}", stream)
            for gateways in (good, bad)
            for gateway, (provider, below, stream) in zip(gateways, kinds, strict=True)
        ]
        # Else it looks for its prices on the Internet before anything.
        told = {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        said = await run_program("-c", LITELLM, json.dumps(asked), CLIENT_KEY, folder=tmp_path, **told)
    outcomes = json.loads(said.splitlines()[-1])
    answers, refusals = outcomes[: len(kinds)], outcomes[len(kinds) :]
    assert len(answers) == len(refusals) == len(kinds)
    assert all(kind == "answered" and text for kind, text in answers), answers
    assert all(kind != "answered" and REASON in text for kind, text in refusals), refusals


def tell_llm(folder: Path, gateways: Sequence[Served]) -> None:
    """As its documentation says: models beside its own, and a key by name."""
    (folder / "keys.json").write_text(json.dumps({"mine": CLIENT_KEY}))
    (folder / "extra-openai-models.yaml").write_text(
        "".join(
            f"- model_id: mine{number}\n  model_name: m1\n  api_key_name: mine\n"
            f"  api_base: http://127.0.0.1:{gateway.port}/v1\n"
            for number, gateway in enumerate(gateways)
        )
    )


@asynccontextmanager
async def failing(number: int) -> AsyncIterator[Sequence[Served]]:
    """So many gateways whose model's start fails while it is waited for; a stream has begun by then."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(raw_server(silent))
        gateways = [
            await stack.enter_async_context(served(server.port, sign_of_life=timedelta(seconds=0.1)))
            for _ in range(number)
        ]
        for gateway in gateways:
            await fail_to_start(gateway, REASON)
        yield gateways
        assert server.requests == []


async def test_llm_is_told_why_a_start_failed(tmp_path: Path) -> None:
    async with failing(2) as gateways:
        tell_llm(tmp_path, gateways)
        asked = [["-m", "mine0", "count"], ["-m", "mine1", "--no-stream", "count"]]
        said = await run_program("-c", LLM_FAILS, json.dumps(asked), folder=tmp_path, LLM_USER_PATH=str(tmp_path))
    messages = json.loads(said.splitlines()[-1])
    assert len(messages) == 2 and all(REASON in message for message in messages), messages


async def test_llm_is_answered_by_cold_models(llama: int, tmp_path: Path) -> None:
    async with cold(llama, 2) as gateways:
        tell_llm(tmp_path, gateways)
        words = ["-o", "max_tokens", "5", "count"]
        asked = [["-m", "mine0", *words], ["-m", "mine1", "--no-stream", *words]]
        said = await run_program("-c", LLM, json.dumps(asked), folder=tmp_path, LLM_USER_PATH=str(tmp_path))
    streamed, whole, rest = said.split("---\n")
    assert streamed.strip() and whole.strip() and not rest
