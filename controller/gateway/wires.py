"""Which paths go to a model server, and what is particular to each?

All of them but the counting of tokens are inference: these alone wake a model and count as use. A model's view says
which of them its server speaks. The proof is the smallest request of the kind: one token, one embedding, or one rating.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from controller.gateway.refusals import Voice
from controller.gateway.signs import CHAT_SIGNS, MESSAGES_SIGNS, RESPONSES_SIGNS, Signs

ANTHROPIC_HEADER: Final = b"anthropic-version"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    name: str
    """As in a model's `wires`."""
    path: str
    """Below the endpoint's `/v1/`."""
    proof: Mapping[str, Any]
    answer_field: str
    """A real answer has this member."""
    signs: Signs | None = None
    """By what an answer shows that it is whole, or broke off; None where it is never answered as a stream."""
    inference: bool = True
    """Else it wakes nothing, is no use and costs nothing: who runs answers it (B25)."""
    voice: Voice = Voice.OPENAI
    """How its clients are told no."""
    conversation: str = ""
    """The member with the conversation, whose entries may be the system's."""
    standing: str = ""
    """The member with the system's words that stand in front of the conversation, where there is one."""


CHAT: Final = Shape(
    name="chat",
    path="chat/completions",
    proof={"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1, "stream": False},
    answer_field="choices",
    signs=CHAT_SIGNS,
    conversation="messages",
)
COMPLETIONS: Final = Shape(
    name="completions",
    path="completions",
    proof={"prompt": "hi", "max_tokens": 1, "stream": False},
    answer_field="choices",
    signs=CHAT_SIGNS,
)
EMBEDDINGS: Final = Shape(name="embeddings", path="embeddings", proof={"input": "hi"}, answer_field="data")
RERANK: Final = Shape(name="rerank", path="rerank", proof={"query": "hi", "documents": ["hi"]}, answer_field="results")
RESPONSES: Final = Shape(
    name="responses",
    path="responses",
    proof={"input": "hi", "max_output_tokens": 1, "store": False, "stream": False},
    answer_field="object",  # the one token may be the beginning of a thought, of which no output is made
    signs=RESPONSES_SIGNS,
    voice=Voice.RESPONSES,
    conversation="input",
    standing="instructions",
)
MESSAGES: Final = Shape(
    name="messages",
    path="messages",
    proof={"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1, "stream": False},
    answer_field="stop_reason",
    signs=MESSAGES_SIGNS,
    voice=Voice.ANTHROPIC,
    conversation="messages",
    standing="system",
)
COUNT_TOKENS: Final = Shape(
    name="messages",
    path="messages/count_tokens",
    proof={"messages": [{"role": "user", "content": "hi"}]},
    answer_field="input_tokens",
    inference=False,
    voice=Voice.ANTHROPIC,
    conversation="messages",
    standing="system",
)

SHAPES: Final = (CHAT, COMPLETIONS, EMBEDDINGS, RERANK, RESPONSES, MESSAGES, COUNT_TOKENS)
BY_PATH: Final = {f"/v1/{shape.path}": shape for shape in SHAPES}


def proof_shape(wires: Sequence[str]) -> Shape:
    """The first kind that the server speaks; chat where nothing is known."""
    return next((shape for shape in SHAPES if shape.name in wires), CHAT)


def voice_for(shape: Shape | None, headers: Iterable[tuple[bytes, bytes]]) -> Voice:
    """How this client is told no. Where the path says nothing, Anthropic's clients are known by their version."""
    if shape is not None:
        return shape.voice
    return Voice.ANTHROPIC if any(name == ANTHROPIC_HEADER for name, _ in headers) else Voice.OPENAI
