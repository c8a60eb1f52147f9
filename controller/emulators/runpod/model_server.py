"""What does the model server behind a pod answer?

As vLLM 0.32 and llama.cpp b11434 were seen to answer: which paths the key guards, the bodies of refusals, and streams
that come word by word. A client that goes away ends its request at once and is counted as aborted. What is said is
made of words that depend on the request only.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import anyio

from controller.emulators.exchange import Answer, Exchange, Request, give, in_json, in_text
from controller.emulators.runpod import pods, pooling, scrape
from controller.emulators.runpod.generation import Generation, answer_whole, read_generation, stream
from controller.emulators.runpod.launch import Launch
from controller.emulators.runpod.open_requests import Work
from controller.emulators.runpod.pods import Pod

_VLLM_GUARDED: Final = ("/v1", "/v2", "/inference", "/cohere")
_LLAMA_OPEN: Final = ("/health", "/v1/health")
_GENERATES: Final = {
    "/v1/chat/completions": "chat",
    "/v1/completions": "text",
    "/v1/responses": "responses",
    "/v1/messages": "messages",
    "/invocations": "chat",
}
_READS: Final = (pooling.EMBEDS, pooling.RATES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """One pod's model server at one moment."""

    pod: Pod
    launch: Launch
    now: float
    token_rate: float

    @property
    def state(self) -> str:
        return self.pod.upstream.state

    @property
    def names(self) -> tuple[str, ...]:
        """The model's own, by any of which it is asked for."""
        return ("some-other-model",) if self.state == "wrong-model" else self.launch.names

    @property
    def all_names(self) -> tuple[str, ...]:
        """Those of its adapters too."""
        return (*self.names, *(name for name, _ in self.launch.adapters))


async def answer(served: Served, request: Request, exchange: Exchange) -> None:
    """Answer one request that reached the server. Raises ConnectionCut where the server dies under it."""
    if not _is_let_in(served, request):
        await give(exchange, _unauthorized(served.launch))
        return
    plain = _plain(served, request)
    if plain is not None:
        await give(exchange, plain)
        return
    await _infer(served, request, exchange)


def loading(launch: Launch) -> Answer | None:
    """What is answered while the model loads: vLLM does not listen yet, llama.cpp says 503 on every path."""
    if launch.kind == "vllm":
        return None
    return in_json(503, {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}})


def _is_let_in(served: Served, request: Request) -> bool:
    launch = served.launch
    if launch.kind == "vllm":
        guarded = request.path.startswith(_VLLM_GUARDED) and request.method != "OPTIONS"
    else:
        guarded = request.path not in _LLAMA_OPEN
    if not guarded or served.state == "open":
        return True
    if served.state == "refusing-key":
        return False
    given = request.bearer()
    if launch.kind == "llama":
        given = given or request.header("x-api-key")
    return not launch.keys or given in launch.keys


def _unauthorized(launch: Launch) -> Answer:
    if launch.kind == "vllm":
        return in_json(401, {"error": "Unauthorized"})
    return in_json(401, {"error": {"message": "Invalid API Key", "type": "authentication_error", "code": 401}})


def _plain(served: Served, request: Request) -> Answer | None:
    """Answers that need no model; None for inference."""
    if request.path in _GENERATES or request.path in _READS:
        lacking = pooling.lacks(served.launch, request.path)
        return lacking if request.method == "POST" else lacking or _wrong_method(served.launch)
    reads = _VLLM_READS if served.launch.kind == "vllm" else _LLAMA_READS
    if request.path in reads:
        return reads[request.path](served) if request.method == "GET" else _wrong_method(served.launch)
    if served.launch.kind == "vllm":
        return in_json(404, {"detail": "Not Found"})
    return in_json(404, {"error": {"message": "File Not Found", "type": "not_found_error", "code": 404}})


def _wrong_method(launch: Launch) -> Answer:
    if launch.kind == "vllm":
        return in_json(405, {"detail": "Method Not Allowed"})
    return in_json(404, {"error": {"message": "File Not Found", "type": "not_found_error", "code": 404}})


def _empty(_: Served) -> Answer:
    return Answer(status=200)


def _vllm_load(served: Served) -> Answer:
    return in_json(200, {"server_load": len(served.pod.upstream.open)})


def _vllm_metrics(served: Served) -> Answer:
    return in_text(200, scrape.vllm(served.pod, served.names[0], served.now), kind=scrape.KIND)


def _models(served: Served) -> Answer:
    entry = _vllm_entry if served.launch.kind == "vllm" else _llama_entry
    listed = [entry(served, name) for name in served.names]
    adapters = [
        _vllm_entry(served, name) | {"root": place, "parent": served.names[0]} for name, place in served.launch.adapters
    ]
    return in_json(200, {"object": "list", "data": listed + adapters})


def _llama_metrics(served: Served) -> Answer:
    if served.launch.metrics:
        return in_text(200, scrape.llama(served.pod), kind=scrape.KIND)
    refused = {"message": "This server does not support metrics endpoint.", "type": "not_supported_error"}
    return in_json(501, {"error": refused | {"code": 501}})


def _llama_health(_: Served) -> Answer:
    return in_json(200, {"status": "ok"})


def _props(served: Served) -> Answer:
    launch = served.launch
    return in_json(200, {"default_generation_settings": {"n_ctx": launch.context}, "total_slots": launch.slots})


def _slots(served: Served) -> Answer:
    return in_json(200, [_slot(served, number) for number in range(served.launch.slots)])


def _slot(served: Served, number: int) -> dict[str, Any]:
    """A slot that never worked tells less; one that did goes on telling of its last task."""
    work, now = served.pod.upstream.open.in_slot(number), anyio.current_time()
    empty = {"id": number, "n_ctx": served.launch.context, "speculative": False, "is_processing": False}
    if work is None:
        return empty
    written = work.written(now)
    following = {"has_next_token": work.open, "has_new_line": False, "n_remain": work.most - written}
    return empty | {
        "is_processing": work.open,
        "id_task": work.number,
        "n_prompt_tokens": work.prompt,
        "n_prompt_tokens_processed": work.taken(now),
        "n_prompt_tokens_cache": 0,
        "params": {"max_tokens": work.most, "n_predict": work.most},
        "next_token": [following | {"n_decoded": written}],
    }


def _vllm_entry(served: Served, name: str) -> dict[str, Any]:
    return {
        "id": name,
        "object": "model",
        "created": int(served.now),
        "owned_by": "vllm",
        "root": served.launch.model,
        "parent": None,
        "max_model_len": served.launch.context,
        "permission": [],
    }


def _llama_entry(served: Served, name: str) -> dict[str, Any]:
    return {
        "id": name,
        "aliases": [name],
        "object": "model",
        "created": int(served.now),
        "owned_by": "llamacpp",
        "meta": {"n_ctx": served.launch.context, "n_ctx_train": 32768},
    }


async def _infer(served: Served, request: Request, exchange: Exchange) -> None:
    upstream, dies_at = served.pod.upstream, pods.dies_at(served.pod, served.now)
    upstream.requests += 1
    try:
        with upstream.open.one(seconds_left=None if dies_at is None else dies_at - served.now) as work:
            if served.state == "hung":
                await anyio.sleep_forever()
            await _generate(served, request, exchange, work)
    except anyio.get_cancelled_exc_class():
        upstream.aborted += 1
        raise


async def _generate(served: Served, request: Request, exchange: Exchange, work: Work) -> None:
    upstream = served.pod.upstream
    try:
        body = json.loads(request.body)
        asked = dict(body)
    except (ValueError, TypeError):
        await give(exchange, _refusal(served, 400, "BadRequestError", "body", "the body is not a JSON object"))
        return
    if (refusal := _wrong_name(served, asked)) is not None:
        await give(exchange, refusal)
        return
    if request.path in _READS:
        read = pooling.answer(served.launch, request.path, _name(served, asked), asked)
        await give(exchange, read or _refusal(served, 400, "BadRequestError", "documents", "there is nothing to rate"))
        return
    generation = read_generation(
        asked, shape=_GENERATES[request.path], name=_name(served, asked), launch=served.launch, at=served.now
    )
    if generation is None:
        await give(exchange, _refusal(served, 400, "BadRequestError", "messages", "there is nothing to answer"))
        return
    if (refusal := _too_long(served, generation)) is not None:
        await give(exchange, refusal)
        return
    upstream.prompt_words += generation.prompt_words
    work.prompt, work.most = generation.prompt_words, len(generation.words)
    write = stream if generation.streams else answer_whole
    pace = 1 / (upstream.token_rate or served.token_rate)
    await write(generation, exchange, upstream=upstream, work=work, pace=pace, first=upstream.first_token_seconds)


def _name(served: Served, asked: dict[str, Any]) -> str:
    given = asked.get("model")
    return given if isinstance(given, str) and given in served.all_names else served.names[0]


def _wrong_name(served: Served, asked: dict[str, Any]) -> Answer | None:
    """vLLM knows its names only; llama.cpp with one model does not look."""
    given = asked.get("model")
    if served.launch.kind == "llama" or given is None or given in served.all_names:
        return None
    text = f"The model `{given}` does not exist. Valid aliases: {', '.join(served.all_names)}."
    return _refusal(served, 404, "NotFoundError", "model", text)


def _too_long(served: Served, generation: Generation) -> Answer | None:
    size, most = generation.prompt_words, served.launch.context
    if size <= most:
        return None
    if served.launch.kind == "llama":
        text = f"request ({size} tokens) exceeds the available context size ({most} tokens), try increasing it"
        fault = {"code": 400, "message": text, "type": "exceed_context_size_error"}
        return in_json(400, {"error": fault | {"n_prompt_tokens": size, "n_ctx": most}})
    text = f"This model's maximum context length is {most} tokens. However, your prompt contains {size} input tokens."
    return _refusal(served, 400, "BadRequestError", "input_tokens", text)


def _refusal(served: Served, status: int, kind: str, parameter: str, text: str) -> Answer:
    if served.launch.kind == "llama":
        return in_json(status, {"error": {"message": text, "type": "invalid_request_error", "code": status}})
    return in_json(status, {"error": {"message": text, "type": kind, "param": parameter, "code": status}})


Read = Callable[[Served], Answer]

_VLLM_READS: Final[dict[str, Read]] = {
    "/health": _empty,
    "/ping": _empty,
    "/version": lambda _: in_json(200, {"version": "0.32.0"}),
    "/load": _vllm_load,
    "/metrics": _vllm_metrics,
    "/v1/models": _models,
}
_LLAMA_READS: Final[dict[str, Read]] = {
    "/health": _llama_health,
    "/v1/health": _llama_health,
    "/metrics": _llama_metrics,
    "/v1/models": _models,
    "/slots": _slots,
    "/props": _props,
}
