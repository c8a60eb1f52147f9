"""What would the plain answer have been to a request that was asked as a stream?

A provider's proxy cuts an answer of which no byte comes for some 100 s (PF-10), and a plain answer has none until it is
whole. A model may have its plain requests asked as streams; the pieces are put together here: words are joined, lists
with an index are merged by it, others lengthened, and of all else the last word counts.
"""

import json
from typing import Any, Final, TypeVar

from controller.gateway.signs import DATA
from controller.gateway.wires import CHAT, COMPLETIONS, Shape

JOINED: Final = frozenset({"content", "text", "reasoning", "reasoning_content", "refusal", "arguments"})
KINDS: Final = {CHAT.path: "chat.completion", COMPLETIONS.path: "text_completion"}
STREAMED: Final = {"stream": True, "stream_options": {"include_usage": True}}
PLAIN_ONLY: Final = frozenset({"best_of", "prompt_logprobs", "use_beam_search"})
"""What vLLM does in no stream."""
MOST_BYTES: Final = 128 * 1024 * 1024

T = TypeVar("T")


class TooMuch(Exception):
    """No model says so much: this would be kept without end."""


class _Words:
    """Joined once, at the end: a text that grows by each word would be copied for each."""

    def __init__(self) -> None:
        self.parts: list[str] = []

    def __str__(self) -> str:
        return "".join(self.parts)


def can_be_streamed(shape: Shape, asked: Any) -> bool:
    return shape.path in KINDS and not any(asked.get(name) for name in PLAIN_ONLY)


class Assembly:
    def __init__(self, shape: Shape) -> None:
        self._kind = KINDS[shape.path]
        self._answer: dict[str, Any] = {}
        self._bytes = 0

    def take(self, events: bytes) -> None:
        """Whole events, none of which tells of a failure. Raises `TooMuch`, or `ValueError` for what is no JSON."""
        self._bytes += len(events)
        if self._bytes > MOST_BYTES:
            raise TooMuch
        for found in DATA.finditer(events):
            if not found[1].startswith(b"[DONE]"):
                _merge(self._answer, dict(json.loads(found[1])))

    def answer(self) -> bytes:
        answer = {**self._answer, "object": self._kind}
        choices = sorted(answer.get("choices", ()), key=lambda choice: int(choice.get("index", 0)))
        answer["choices"] = [_whole(choice) for choice in choices] if self._kind == KINDS[CHAT.path] else choices
        return json.dumps(answer, default=str).encode()


def _whole(choice: dict[str, Any]) -> dict[str, Any]:
    message = {"role": "assistant", "content": None, **choice.pop("delta", {})}
    if calls := message.get("tool_calls"):
        message["tool_calls"] = [{name: call[name] for name in call if name != "index"} for call in calls]
        message["content"] = str(message["content"] or "") or None
    return {**choice, "message": message}


def _merge(old: dict[str, Any], new: dict[str, Any]) -> None:
    for name, value in new.items():
        if value is None:
            old.setdefault(name, None)
        elif isinstance(value, str) and name in JOINED:
            _kept(old, name, _Words).parts.append(value)
        elif isinstance(value, dict):
            _merge(_kept(old, name, dict), value)
        elif isinstance(value, list):
            _lengthen(_kept(old, name, list), value)
        else:
            old[name] = value


def _kept(old: dict[str, Any], name: str, kind: type[T]) -> T:
    """What is there of this kind already, or an empty one in its place."""
    had = old.get(name)
    if not isinstance(had, kind):
        had = old[name] = kind()
    return had


def _lengthen(old: list[Any], new: list[Any]) -> None:
    for value in new:
        index = value.get("index") if isinstance(value, dict) else None
        if index is None:
            old.append(value)
            continue
        same = next((had for had in old if isinstance(had, dict) and had.get("index") == index), None)
        if same is None:
            same = {}
            old.append(same)
        _merge(same, value)
