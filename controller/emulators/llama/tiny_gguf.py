"""What is the smallest model that llama.cpp loads and that answers in readable words?

A llama with two layers and random weights, written in GGUF version 3 with the standard library alone. Only whole
words have weights in its head, so whatever it computes, it says words. About half a megabyte; the same seed gives the
same file.
"""

from __future__ import annotations

import random
import struct
import sys
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

_MAGIC: Final = b"GGUF"
_VERSION: Final = 3
_ALIGNMENT: Final = 32
_U32, _I32, _F32, _BOOL, _TEXT, _LIST = 4, 5, 6, 7, 8, 9
_ALL_F32: Final = 0
_NORMAL, _UNKNOWN, _CONTROL, _BYTE = 1, 2, 3, 6

_WIDTH, _HEADS, _KV_HEADS, _LAYERS, _INNER, _CONTEXT = 64, 4, 2, 2, 128, 32_768
_KV_WIDTH: Final = _WIDTH // _HEADS * _KV_HEADS
_EPSILON: Final = 1e-5
_SPECIAL: Final = ("<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>")
_END: Final = 4
_SPACE: Final = "\u2581"
_WORDS: Final = (
    *("a", "about", "after", "again", "all", "always", "and", "answer", "any", "are", "as", "at", "away", "back", "be"),
    *("been", "before", "best", "better", "between", "big", "both", "bright", "but", "by", "can", "clear", "cold"),
    *("come", "could", "day", "deep", "do", "down", "each", "early", "end", "even", "every", "far", "few", "find"),
    *("first", "for", "found", "from", "full", "gave", "go", "good", "great", "green", "had", "half", "has", "have"),
    *("he", "her", "here", "high", "him", "his", "home", "how", "if", "in", "into", "is", "it", "its", "just", "keep"),
    *("kind", "know", "last", "late", "left", "light", "like", "little", "long", "look", "made", "make", "many", "may"),
    *("more", "most", "much", "my", "near", "never", "new", "next", "no", "not", "now", "of", "off", "old", "on"),
    *("one", "only", "open", "or", "other", "our", "out", "over", "own", "part", "quiet", "rain", "read", "right"),
    *("river", "road", "said", "same", "say", "sea", "see", "she", "should", "side", "slow", "small", "so", "some"),
    *("soon", "still", "stone", "such", "sun", "take", "tell", "than", "that", "the", "their", "them", "then"),
    *("there", "these", "they", "thing", "this", "time", "to", "tree", "two", "under", "until", "up", "us", "use"),
    *("very", "warm", "was", "water", "way", "we", "well", "were", "what", "when", "where", "which", "while", "who"),
    *("why", "will", "wind", "with", "word", "work", "would", "write", "year", "yes", "you", "your"),
)
_TEMPLATE: Final = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@dataclass(frozen=True, slots=True)
class _Tensor:
    """`shape` as GGUF has it: the fastest dimension first."""

    name: str
    shape: tuple[int, ...]
    values: array[float]


def write_tiny_model(path: Path, *, seed: int = 1) -> None:
    """Write the model to `path`. Raises OSError."""
    vocabulary = _vocabulary()
    tensors = list(_tensors(len(vocabulary[0]), random.Random(seed)))
    facts = list(_facts(*vocabulary))
    with path.open("wb") as out:
        out.write(_MAGIC + struct.pack("<IQQ", _VERSION, len(tensors), len(facts)))
        out.writelines(facts)
        _write_index(out, tensors)
        for tensor in tensors:
            _pad(out)
            out.write(_little_endian(tensor.values))


def _vocabulary() -> tuple[list[str], list[float], list[int]]:
    """Pieces, scores and kinds. Words score above single letters, so that text is cut into words where it can be."""
    letters = [chr(code) for code in range(33, 127)] + [_SPACE]
    pieces = [*_SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256)), *(_SPACE + word for word in _WORDS), *letters]
    kinds = [_UNKNOWN] + [_CONTROL] * (len(_SPECIAL) - 1) + [_BYTE] * 256 + [_NORMAL] * (len(_WORDS) + len(letters))
    scores = [0.0] * (len(_SPECIAL) + 256)
    scores += [-float(rank) for rank in range(len(_WORDS))]
    scores += [-1000.0 - rank for rank in range(len(letters))]
    return pieces, scores, kinds


def _facts(pieces: list[str], scores: list[float], kinds: list[int]) -> Iterator[bytes]:
    """The key-value part, entry by entry."""
    yield _fact("general.architecture", _TEXT, _text("llama"))
    yield _fact("general.name", _TEXT, _text("tiny-words"))
    yield _fact("general.file_type", _U32, _u32(_ALL_F32))
    numbers = {
        "context_length": _CONTEXT,
        "embedding_length": _WIDTH,
        "block_count": _LAYERS,
        "feed_forward_length": _INNER,
        "attention.head_count": _HEADS,
        "attention.head_count_kv": _KV_HEADS,
        "rope.dimension_count": _WIDTH // _HEADS,
        "vocab_size": len(pieces),
    }
    for name, number in numbers.items():
        yield _fact(f"llama.{name}", _U32, _u32(number))
    yield _fact("llama.attention.layer_norm_rms_epsilon", _F32, struct.pack("<f", _EPSILON))
    yield _fact("tokenizer.ggml.model", _TEXT, _text("llama"))
    yield _fact("tokenizer.ggml.pre", _TEXT, _text("default"))
    yield _fact("tokenizer.ggml.tokens", _LIST, _list(_TEXT, map(_text, pieces), len(pieces)))
    yield _fact("tokenizer.ggml.scores", _LIST, _list(_F32, (struct.pack("<f", s) for s in scores), len(scores)))
    yield _fact("tokenizer.ggml.token_type", _LIST, _list(_I32, (struct.pack("<i", k) for k in kinds), len(kinds)))
    for role, piece in (("bos", 1), ("eos", _END), ("unknown", 0)):
        yield _fact(f"tokenizer.ggml.{role}_token_id", _U32, _u32(piece))
    yield _fact("tokenizer.ggml.add_bos_token", _BOOL, b"\x01")
    yield _fact("tokenizer.ggml.add_eos_token", _BOOL, b"\x00")
    yield _fact("tokenizer.chat_template", _TEXT, _text(_TEMPLATE))


def _tensors(pieces: int, rng: random.Random) -> Iterator[_Tensor]:
    yield _random("token_embd.weight", (_WIDTH, pieces), rng, 1.0)
    yield _head(pieces, rng)
    yield _ones("output_norm.weight")
    narrow, wide = _WIDTH**-0.5, _INNER**-0.5
    for layer in range(_LAYERS):
        prefix = f"blk.{layer}."
        yield _ones(f"{prefix}attn_norm.weight")
        yield _ones(f"{prefix}ffn_norm.weight")
        yield _random(f"{prefix}attn_q.weight", (_WIDTH, _WIDTH), rng, narrow)
        yield _random(f"{prefix}attn_k.weight", (_WIDTH, _KV_WIDTH), rng, narrow)
        yield _random(f"{prefix}attn_v.weight", (_WIDTH, _KV_WIDTH), rng, narrow)
        yield _random(f"{prefix}attn_output.weight", (_WIDTH, _WIDTH), rng, narrow)
        yield _random(f"{prefix}ffn_gate.weight", (_WIDTH, _INNER), rng, narrow)
        yield _random(f"{prefix}ffn_up.weight", (_WIDTH, _INNER), rng, narrow)
        yield _random(f"{prefix}ffn_down.weight", (_INNER, _WIDTH), rng, wide)


def _head(pieces: int, rng: random.Random) -> _Tensor:
    """Weights for words alone; all other pieces stay at 0 and lose. The end sometimes wins, but seldom."""
    values = array("f", bytes(4 * _WIDTH * pieces))
    first = len(_SPECIAL) + 256
    for piece in range(first, first + len(_WORDS)):
        values[piece * _WIDTH : (piece + 1) * _WIDTH] = _gauss(_WIDTH, rng, 0.5)
    values[_END * _WIDTH : (_END + 1) * _WIDTH] = _gauss(_WIDTH, rng, 0.25)
    return _Tensor("output.weight", (_WIDTH, pieces), values)


def _random(name: str, shape: tuple[int, int], rng: random.Random, scale: float) -> _Tensor:
    return _Tensor(name, shape, _gauss(shape[0] * shape[1], rng, scale))


def _ones(name: str) -> _Tensor:
    return _Tensor(name, (_WIDTH,), array("f", [1.0] * _WIDTH))


def _gauss(count: int, rng: random.Random, scale: float) -> array[float]:
    return array("f", (rng.gauss(0.0, scale) for _ in range(count)))


def _write_index(out: BinaryIO, tensors: list[_Tensor]) -> None:
    """Names, shapes and places of the tensors; each place is rounded up, counted from the end of the index."""
    place = 0
    for tensor in tensors:
        dimensions = struct.pack(f"<{len(tensor.shape)}Q", *tensor.shape)
        out.write(_text(tensor.name) + _u32(len(tensor.shape)) + dimensions + struct.pack("<IQ", _ALL_F32, place))
        place += -(-len(tensor.values) * 4 // _ALIGNMENT) * _ALIGNMENT


def _pad(out: BinaryIO) -> None:
    out.write(bytes(-out.tell() % _ALIGNMENT))


def _little_endian(values: array[float]) -> bytes:
    if sys.byteorder == "big":
        values = array("f", values)
        values.byteswap()
    return values.tobytes()


def _fact(name: str, kind: int, value: bytes) -> bytes:
    return _text(name) + _u32(kind) + value


def _list(kind: int, entries: Iterable[bytes], count: int) -> bytes:
    return struct.pack("<IQ", kind, count) + b"".join(entries)


def _text(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def _u32(number: int) -> bytes:
    return struct.pack("<I", number)
