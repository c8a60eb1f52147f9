"""Which paths are inference, and what is particular to each?

Only these paths wake a model and count as use. A model's view says which of them its server speaks. The proof is the
smallest request of the kind: one token, one embedding, or one rating.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    name: str
    """As in a model's `wires`."""
    path: str
    """Below the endpoint's `/v1/`."""
    proof: Mapping[str, Any]
    answer_field: str
    """A real answer has this member."""
    streams: bool = True
    """It can be answered as a stream, which then ends with `data: [DONE]`; one that does not was cut."""


CHAT: Final = Shape(
    name="chat",
    path="chat/completions",
    proof={"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1, "stream": False},
    answer_field="choices",
)
COMPLETIONS: Final = Shape(
    name="completions",
    path="completions",
    proof={"prompt": "hi", "max_tokens": 1, "stream": False},
    answer_field="choices",
)
EMBEDDINGS: Final = Shape(
    name="embeddings", path="embeddings", proof={"input": "hi"}, answer_field="data", streams=False
)
RERANK: Final = Shape(
    name="rerank", path="rerank", proof={"query": "hi", "documents": ["hi"]}, answer_field="results", streams=False
)

SHAPES: Final = (CHAT, COMPLETIONS, EMBEDDINGS, RERANK)
BY_PATH: Final = {f"/v1/{shape.path}": shape for shape in SHAPES}


def proof_shape(wires: Sequence[str]) -> Shape:
    """The first kind that the server speaks; chat where nothing is known."""
    return next((shape for shape in SHAPES if shape.name in wires), CHAT)


def system_first(messages: object, *, merge: bool = False) -> list[Any] | None:
    """The messages with those of the system in front, both orders kept; None where nothing has to move.

    llama.cpp's chat templates refuse or drop a system message that is not the first, and some take no second one:
    `merge` makes one of them (MS-12).
    """
    if not isinstance(messages, list):
        return None
    system = [entry for entry in messages if isinstance(entry, dict) and entry.get("role") == "system"]
    others = [entry for entry in messages if not (isinstance(entry, dict) and entry.get("role") == "system")]
    if merge and len(system) > 1 and (one := _as_one(system)) is not None:
        return [one, *others]
    moved = system + others
    return moved if any(new is not old for new, old in zip(moved, messages, strict=True)) else None


def _as_one(system: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The first with what all of them say; None where one says it in a form that is not known here."""
    contents = [entry.get("content") for entry in system]
    if all(isinstance(content, str) for content in contents):
        return {**system[0], "content": "\n\n".join(map(str, contents))}
    parts: list[Any] = []
    for content in contents:
        if not isinstance(content, str | list):
            return None
        parts += [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {**system[0], "content": parts}
