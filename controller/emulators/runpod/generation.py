"""What does a model server write, and in which envelope?

OpenAI's chat, completions and responses and Anthropic's messages, whole or as a stream, around the same words. The
words come at a rate; a stream sends its head at once, as vLLM does, and the first word after the ordered wait.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import anyio

from controller.emulators.exchange import ConnectionCut, Exchange, give, in_json
from controller.emulators.runpod.launch import Launch
from controller.emulators.runpod.open_requests import Work
from controller.emulators.runpod.pods import Upstream

_WORDS: Final = (
    *("the", "of", "to", "and", "in", "is", "it", "that", "was", "for", "on", "are", "as", "with", "his", "they", "at"),
    *(
        "be",
        "this",
        "have",
        "from",
        "or",
        "one",
        "had",
        "by",
        "word",
        "but",
        "not",
        "what",
        "all",
        "were",
        "we",
        "when",
    ),
    *("your", "can", "said", "there", "use", "an", "each", "which", "she", "how", "their", "if", "will", "up", "other"),
)
_DEFAULT_LENGTH: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """One request to write `length` words. `gap` is the longest silence of its stream, 0 for none."""

    shape: str
    id: str
    name: str
    created: int
    words: tuple[str, ...]
    prompt_words: int
    streams: bool
    with_usage: bool
    gap: float

    @property
    def text(self) -> str:
        return "".join(self.words)


def read_generation(asked: dict[str, Any], *, shape: str, name: str, launch: Launch, at: float) -> Generation | None:
    """What to write for this body, or None if it holds no prompt."""
    prompt = _prompt(asked, shape)
    if prompt is None:
        return None
    seed = zlib.crc32(prompt.encode())
    options = asked.get("stream_options")
    return Generation(
        shape=shape,
        id=f"{seed:08x}",
        name=name,
        created=int(at),
        words=tuple(" " + _WORDS[(seed + 7 * step) % len(_WORDS)] for step in range(_length(asked))),
        prompt_words=len(prompt.split()),
        streams=asked.get("stream") is True,
        with_usage=launch.usage_always or (isinstance(options, dict) and options.get("include_usage") is True),
        gap=launch.keep_alive_seconds,
    )


class ServerDied(ConnectionCut):
    """The model server ends in the middle of an answer, as a test ordered."""


async def answer_whole(
    generation: Generation,
    exchange: Exchange,
    *,
    upstream: Upstream,
    work: Work,
    pace: float,
    first: float,
) -> None:
    """Write all words, then answer. Raises ServerDied."""
    work.begins, work.pace = anyio.current_time() + first, pace
    dies_after = upstream.die_after_chunks
    if dies_after is not None and dies_after < len(generation.words):
        await anyio.sleep(first + pace * dies_after)
        raise ServerDied
    await anyio.sleep(first + pace * len(generation.words))
    await _hang_if_hung(upstream)
    upstream.words += len(generation.words)
    await give(exchange, in_json(200, _whole(generation)))


async def stream(
    generation: Generation,
    exchange: Exchange,
    *,
    upstream: Upstream,
    work: Work,
    pace: float,
    first: float,
) -> None:
    """Answer word by word. Raises ServerDied after as many as were ordered."""
    await exchange.start(200, [("content-type", "text/event-stream; charset=utf-8"), ("cache-control", "no-cache")])
    for opening in _opening(generation):
        await exchange.write(opening)
    await _wait(exchange, first, generation.gap)
    work.begins = anyio.current_time()
    for number, word in enumerate(generation.words):
        if number == upstream.die_after_chunks:
            raise ServerDied
        await _wait(exchange, pace, generation.gap)
        await _hang_if_hung(upstream)
        upstream.words += 1
        work.words += 1
        await exchange.write(_piece(generation, word, last=number == len(generation.words) - 1))
    for closing in _closing(generation):
        await exchange.write(closing)
    await exchange.finish()


async def _hang_if_hung(upstream: Upstream) -> None:
    """An engine that hangs in the middle keeps its connections and says nothing more."""
    if upstream.state == "hung":
        await anyio.sleep_forever()


async def _wait(exchange: Exchange, seconds: float, gap: float) -> None:
    """Wait, with a comment line at every `gap` seconds if the server was started so."""
    while 0 < gap < seconds:
        await anyio.sleep(gap)
        await exchange.write(b": keep-alive\n\n")
        seconds -= gap
    await anyio.sleep(seconds)


def _length(asked: dict[str, Any]) -> int:
    for name in ("max_completion_tokens", "max_tokens", "max_output_tokens"):
        value = asked.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return _DEFAULT_LENGTH


def _prompt(asked: dict[str, Any], shape: str) -> str | None:
    given = asked.get({"chat": "messages", "messages": "messages", "responses": "input"}.get(shape, "prompt"))
    if isinstance(given, str):
        return given
    if not isinstance(given, list) or not given:
        return None
    return " ".join(_said(entry) for entry in given)


def _said(entry: object) -> str:
    content = entry.get("content", "") if isinstance(entry, dict) else entry
    return content if isinstance(content, str) else json.dumps(content)


def _usage(generation: Generation) -> dict[str, Any]:
    read, written = generation.prompt_words, len(generation.words)
    if generation.shape in ("messages", "responses"):
        return {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def _whole(generation: Generation) -> dict[str, Any]:
    text, usage = generation.text, _usage(generation)
    if generation.shape == "messages":
        message = {"id": f"msg_{generation.id}", "type": "message", "role": "assistant", "model": generation.name}
        content = [{"type": "text", "text": text}]
        return message | {"content": content, "stop_reason": "max_tokens", "stop_sequence": None, "usage": usage}
    if generation.shape == "responses":
        return _response(generation, "completed", [_output(generation)])
    choice: dict[str, Any] = {"index": 0, "logprobs": None, "finish_reason": "length"}
    if generation.shape == "chat":
        choice["message"] = {"role": "assistant", "content": text}
        return _envelope(generation, "chat.completion", [choice]) | {"usage": usage}
    choice["text"] = text
    return _envelope(generation, "text_completion", [choice]) | {"usage": usage}


def _envelope(generation: Generation, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
    prefix = "chatcmpl" if kind.startswith("chat") else "cmpl"
    return {
        "id": f"{prefix}-{generation.id}",
        "object": kind,
        "created": generation.created,
        "model": generation.name,
        "choices": choices,
    }


def _response(generation: Generation, status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": f"resp_{generation.id}",
        "object": "response",
        "created_at": generation.created,
        "model": generation.name,
        "status": status,
        "output": output,
        "usage": _usage(generation) if status == "completed" else None,
    }


def _output(generation: Generation) -> dict[str, Any]:
    content = [{"type": "output_text", "text": generation.text, "annotations": []}]
    return {"id": f"msg_{generation.id}", "type": "message", "role": "assistant", "content": content}


def _opening(generation: Generation) -> Iterator[bytes]:
    if generation.shape == "chat":
        choice = {"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}
        yield _data(_envelope(generation, "chat.completion.chunk", [choice]))
    elif generation.shape == "messages":
        message = _whole(generation) | {"content": [], "stop_reason": None}
        message["usage"] = {"input_tokens": generation.prompt_words, "output_tokens": 0}
        yield _event("message_start", message=message)
        yield _event("content_block_start", index=0, content_block={"type": "text", "text": ""})
    elif generation.shape == "responses":
        yield _event("response.created", response=_response(generation, "in_progress", []))


def _piece(generation: Generation, word: str, *, last: bool) -> bytes:
    if generation.shape == "messages":
        return _event("content_block_delta", index=0, delta={"type": "text_delta", "text": word})
    if generation.shape == "responses":
        return _event("response.output_text.delta", output_index=0, content_index=0, delta=word)
    choice: dict[str, Any] = {"index": 0, "logprobs": None, "finish_reason": "length" if last else None}
    if generation.shape == "chat":
        choice["delta"] = {"content": word}
        return _data(_envelope(generation, "chat.completion.chunk", [choice]))
    choice["text"] = word
    return _data(_envelope(generation, "text_completion", [choice]))


def _closing(generation: Generation) -> Iterator[bytes]:
    if generation.shape == "messages":
        yield _event("content_block_stop", index=0)
        usage = {"output_tokens": len(generation.words)}
        yield _event("message_delta", delta={"stop_reason": "max_tokens", "stop_sequence": None}, usage=usage)
        yield _event("message_stop")
    elif generation.shape == "responses":
        yield _event("response.completed", response=_response(generation, "completed", [_output(generation)]))
    else:
        if generation.with_usage:
            kind = "chat.completion.chunk" if generation.shape == "chat" else "text_completion"
            yield _data(_envelope(generation, kind, []) | {"usage": _usage(generation)})
        yield b"data: [DONE]\n\n"


def _data(content: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(content, separators=(",", ":")).encode() + b"\n\n"


def _event(kind: str, **content: Any) -> bytes:
    return f"event: {kind}\n".encode() + _data({"type": kind} | content)
