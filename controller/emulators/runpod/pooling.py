"""What does a model server answer that places or rates texts instead of writing them?

Vectors and ratings depend on the request only. A text is rated by the share of the query's words that it has, so that
an order can be told to be right. Servers of one kind do not have the paths of the other, each in its own words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from controller.emulators.exchange import Answer, in_json
from controller.emulators.runpod.launch import Launch

EMBEDS: Final = "/v1/embeddings"
RATES: Final = "/v1/rerank"
_DIMENSIONS: Final = 8
_LLAMA_LACKS: Final = {
    EMBEDS: "This server does not support embeddings. Start it with `--embeddings`",
    RATES: "This server does not support reranking. Start it with `--reranking`",
}


def lacks(launch: Launch, path: str) -> Answer | None:
    """The answer of a server that was not started for this path; None where it was."""
    if launch.kind == "vllm":
        offered = (path in (EMBEDS, RATES)) == (launch.runner == "pooling")
        return None if offered else in_json(404, {"detail": "Not Found"})
    offered = launch.runner == {EMBEDS: "embeddings", RATES: "rerank"}.get(path, "generate")
    if offered:
        return None
    text = _LLAMA_LACKS.get(path, "This server does not support completions. Start it without `--embeddings`")
    return in_json(501, {"error": {"code": 501, "message": text, "type": "not_supported_error"}})


def answer(launch: Launch, path: str, name: str, asked: Mapping[str, Any]) -> Answer | None:
    """None where there is nothing to read."""
    return _embedded(name, asked) if path == EMBEDS else _rated(launch, name, asked)


def _embedded(name: str, asked: Mapping[str, Any]) -> Answer:
    given = asked.get("input", "")
    texts = given if isinstance(given, list) else [given]
    data = [
        {"object": "embedding", "index": at, "embedding": [1.0 / (1 + at + step) for step in range(_DIMENSIONS)]}
        for at in range(len(texts))
    ]
    return in_json(200, {"object": "list", "data": data, "model": name, "usage": _usage(texts)})


def _rated(launch: Launch, name: str, asked: Mapping[str, Any]) -> Answer | None:
    query, given = asked.get("query"), asked.get("documents")
    if not isinstance(query, str) or not isinstance(given, list) or not given:
        return None
    texts = [str(text.get("text", "")) if isinstance(text, dict) else str(text) for text in given]
    wanted = set(query.split())
    shares = [(len(wanted & set(text.split())) / max(1, len(wanted)), at) for at, text in enumerate(texts)]
    top = asked.get("top_n")
    most = top if isinstance(top, int) and top > 0 else len(texts)
    results = [
        {"index": at, "relevance_score": share} | ({"document": {"text": texts[at]}} if launch.kind == "vllm" else {})
        for share, at in sorted(shares, key=lambda entry: (-entry[0], entry[1]))[:most]
    ]
    kind = {"id": "rerank-0"} if launch.kind == "vllm" else {"object": "list"}
    return in_json(200, {**kind, "model": name, "results": results, "usage": _usage([query, *texts])})


def _usage(texts: list[Any]) -> dict[str, int]:
    words = sum(len(str(text).split()) for text in texts)
    return {"prompt_tokens": words, "total_tokens": words}
