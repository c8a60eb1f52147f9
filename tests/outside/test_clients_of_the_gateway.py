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
from tests.gateway.sockets import Served, go_cold, served
from tests.gateway.world import CLIENT_KEY
from tests.outside.programs import run_program

pytestmark = pytest.mark.process

LITELLM = """
import json, sys, litellm

said = []
for provider, address, stream in json.loads(sys.argv[1]):
    asked = {"model": f"{provider}/m1", "api_base": address, "api_key": sys.argv[2], "max_tokens": 5}
    asked["messages"] = [{"role": "user", "content": "count"}]
    if stream:
        chunks = litellm.completion(**asked, stream=True)
        said.append("".join(chunk.choices[0].delta.content or "" for chunk in chunks))
    else:
        said.append(litellm.completion(**asked).choices[0].message.content)
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
            go_cold(gateway, port)
        yield gateways
        assert all(gateway.daemon.starts for gateway in gateways)


async def test_litellm_is_answered_by_cold_models(llama: int, tmp_path: Path) -> None:
    kinds = [("openai", "/v1", False), ("openai", "/v1", True), ("anthropic", "", False), ("anthropic", "", True)]
    async with cold(llama, len(kinds)) as gateways:
        asked = [
            (provider, f"http://127.0.0.1:{gateway.port}{below}", stream)
            for gateway, (provider, below, stream) in zip(gateways, kinds, strict=True)
        ]
        # Else it looks for its prices on the Internet before anything.
        told = {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        said = await run_program("-c", LITELLM, json.dumps(asked), CLIENT_KEY, folder=tmp_path, **told)
    answers = json.loads(said.splitlines()[-1])
    assert len(answers) == len(kinds) and all(answers)


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


async def test_llm_is_answered_by_cold_models(llama: int, tmp_path: Path) -> None:
    async with cold(llama, 2) as gateways:
        tell_llm(tmp_path, gateways)
        words = ["-o", "max_tokens", "5", "count"]
        asked = [["-m", "mine0", *words], ["-m", "mine1", "--no-stream", *words]]
        said = await run_program("-c", LLM, json.dumps(asked), folder=tmp_path, LLM_USER_PATH=str(tmp_path))
    streamed, whole, rest = said.split("---\n")
    assert streamed.strip() and whole.strip() and not rest
