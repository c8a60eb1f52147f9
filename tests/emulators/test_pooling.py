"""Does a model server that places or rates texts answer as the real ones do, and no other?"""

from typing import Any

import pytest

from tests.emulators.test_model_server import ASK, LLAMA
from tests.emulators.world import CHAT, World

EMBED: dict[str, Any] = {"model": "tiny", "input": ["a text", "another"]}
RATE: dict[str, Any] = {"model": "tiny", "query": "red fish", "documents": ["a bird", "red fish", "red car"]}
POOLING = {"args": "org/model --served-model-name tiny --runner pooling"}
LLAMA_EMBEDS = LLAMA | {"args": f"{LLAMA['args']} --embeddings"}
LLAMA_RATES = LLAMA | {"args": f"{LLAMA['args']} --reranking"}


async def asked(body: dict[str, Any], path: str, **pod: Any) -> tuple[int, dict[str, Any]]:
    world = World(token_rate=1e6)
    answer = await world.ask(await world.ready_pod(**pod), path, key="open-sesame", json=body)
    return answer.status_code, answer.json()


@pytest.mark.parametrize("pod", [POOLING, LLAMA_EMBEDS])
async def test_each_text_gets_a_vector(pod: dict[str, Any]) -> None:
    status, answer = await asked(EMBED, "/v1/embeddings", **pod)
    assert (status, [entry["index"] for entry in answer["data"]]) == (200, [0, 1])
    assert answer["usage"] == {"prompt_tokens": 3, "total_tokens": 3}


@pytest.mark.parametrize("pod", [POOLING, LLAMA_RATES])
async def test_texts_come_in_the_order_of_their_rating(pod: dict[str, Any]) -> None:
    status, answer = await asked(RATE, "/v1/rerank", **pod)
    assert (status, [entry["index"] for entry in answer["results"]]) == (200, [1, 2, 0])
    _, best = await asked(RATE | {"top_n": 1}, "/v1/rerank", **pod)
    assert [entry["index"] for entry in best["results"]] == [1]


@pytest.mark.parametrize(
    ("body", "path", "pod", "status"),
    [
        (EMBED, "/v1/embeddings", {}, 404),
        (RATE, "/v1/rerank", {}, 404),
        (CHAT, ASK, POOLING, 404),
        (EMBED, "/v1/embeddings", LLAMA, 501),
        (EMBED, "/v1/embeddings", LLAMA_RATES, 501),
        (RATE, "/v1/rerank", LLAMA, 501),
        (RATE, "/v1/rerank", LLAMA_EMBEDS, 501),
        (CHAT, ASK, LLAMA_EMBEDS, 501),
        (RATE | {"documents": []}, "/v1/rerank", POOLING, 400),
    ],
)
async def test_a_server_of_another_kind_refuses(
    body: dict[str, Any], path: str, pod: dict[str, Any], status: int
) -> None:
    assert (await asked(body, path, **pod))[0] == status


async def test_vllm_serves_adapters_by_their_names_beside_its_own() -> None:
    world = World(token_rate=1e6)
    args = "org/model --served-model-name tiny --enable-lora --lora-modules sql=org/sql fr=/v/fr --max-loras 2"
    pod = await world.ready_pod(args=args)
    listed = (await world.ask(pod, "/v1/models", key="open-sesame")).json()["data"]
    assert [(entry["id"], entry["parent"], entry["root"]) for entry in listed] == [
        ("tiny", None, "org/model"),
        ("sql", "tiny", "org/sql"),
        ("fr", "tiny", "/v/fr"),
    ]
    answer = await world.ask(pod, ASK, key="open-sesame", json=CHAT | {"model": "sql"})
    assert (answer.status_code, answer.json()["model"]) == (200, "sql")
