"""What does each layer of a model keep in the cards' memory, as its config.json tells?

A layer keeps keys and values of every token, or of the tokens inside its window, or one state however long the request
is; one that compresses them keeps a single latent vector a token. What its layers are (`core.layers`) and keep is known
for the architectures in the table below and for no other: a name that is not in it, a layer that its row does not
expect, a number that is missing or odd is `CannotSize`, never a guess (requirements, MS-13). Where the truth lies
between two, the larger is taken. The content comes from anybody, so every number has a bound, and no text of it is
repeated unless it is a word.

Rows follow the model code of vLLM and transformers, as read in 2026.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from controller.core.layers import (
    CannotSize,
    Kind,
    Part,
    Rule,
    by_pattern,
    encoding,
    full,
    full_every,
    only_listed,
    windowed,
    windowed_from,
)

_HEADS_MOST: Final = 4096
_WIDTH_MOST: Final = 2**20
_TOKENS_MOST: Final = 2**31
_WORD: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)
_LANGUAGE_PARTS: Final = ("text_config", "llm_config", "language_config")
_SENSES: Final = ("vision_config", "audio_config")
_DTYPE_BYTES: Final = {"bfloat16": 2, "float16": 2, "float32": 2}
"""Of the cache: vLLM rounds a model of four bytes down to two unless it is told otherwise."""
_RECURRENT_BYTES: Final = 4
"""Of a state's numbers: some are kept in two bytes, by versions and settings that cannot be seen here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """Layers that keep something for each token."""

    layers: int
    heads: int
    """Several cards share them; a single one is kept by every card."""
    elements: int
    """Numbers that one head keeps for one token: key and value, or a latent vector."""
    window: int | None = None
    """Tokens that are kept; None: all of the request."""
    latent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurrent:
    """Layers that keep one state for a request, however long it is."""

    layers: int
    state_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """What a model keeps, layer by layer; no attention and no state for one that only encodes."""

    model_type: str
    attention_heads: int
    attention: tuple[Attention, ...] = ()
    recurrent: tuple[Recurrent, ...] = ()
    element_bytes: int = 2
    context_most: int | None = None
    """Longest request that the model was made for; None: not told, or stretched by its position settings."""
    senses: bool = False
    """It reads pictures or sound too; what that takes while it does is not counted."""


def read_architecture(config: object) -> Architecture:
    """The architecture that a parsed config.json describes. Raises CannotSize."""
    part = Part(_language_part(config))
    family = _FAMILIES[part.model_type]
    for key in _UNEXPECTED:
        if part.content.get(key) and key not in family.expected:
            raise CannotSize(f"it has {key}, which is not known of {part.model_type}")
    kinds = family.layers(part)
    if strange := sorted(set(kinds) - family.kinds):
        raise CannotSize(f"it has layers of {strange[0]}, which is not known of {part.model_type}")
    return Architecture(
        model_type=part.model_type,
        attention_heads=part.whole(
            "num_attention_heads", most=_HEADS_MOST, usual=family.numbers.get("num_attention_heads")
        ),
        attention=tuple(_attention(part, family, kinds)),
        recurrent=tuple(_recurrent(part, family, kinds)),
        element_bytes=_element_bytes(config, part),
        context_most=_context_most(part),
        senses=isinstance(config, Mapping) and any(isinstance(config.get(key), Mapping) for key in _SENSES),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Family:
    """How an architecture lays its layers out, and what each kind of them keeps."""

    layers: Rule
    kinds: frozenset[Kind] = frozenset({Kind.FULL, Kind.SLIDING})
    """What its layers may be."""
    latent: bool = False
    state: Callable[[Part], int] = lambda part: 0
    """Bytes of one recurrent layer's state."""
    numbers: Mapping[str, int] = field(default_factory=dict)
    """What the architecture's own code takes for numbers that its config.json may leave out."""
    says_head_dim: bool = False
    """Its heads are not hidden_size / num_attention_heads wide, so that the width must be told."""
    expected: frozenset[str] = frozenset()


_UNEXPECTED: Final = (
    "kv_lora_rank", "index_head_dim", "index_topk", "num_kv_shared_layers", "v_head_dim", "global_head_dim",
    "swa_head_dim", "swa_num_key_value_heads", "num_global_key_value_heads", "attention_k_eq_v", "is_encoder_decoder",
    "cross_attention_layers", "compress_ratios", "use_cla",
)  # fmt: skip
"""Keys that change what a layer keeps; only the families that expect one may carry it."""


def _language_part(config: object) -> Mapping[str, Any]:
    """The innermost part whose architecture is known. A model that also sees or hears nests it."""
    for _ in range(2):
        if not isinstance(config, Mapping):
            raise CannotSize("its config.json is not a JSON object")
        word = _word(config.get("model_type"))
        nested = next((config[key] for key in _LANGUAGE_PARTS if isinstance(config.get(key), Mapping)), None)
        if nested is not None and word in _WRAPPERS:
            config = nested
        elif word in _FAMILIES:
            return config
        else:
            raise CannotSize(f"the architecture {word} is not known")
    raise CannotSize("its config.json nests the language model too deep")


def _word(value: object) -> str:
    if value is None:
        return "without model_type"
    return value if isinstance(value, str) and _WORD.fullmatch(value) else "with an odd model_type"


def _attention(part: Part, family: _Family, kinds: Sequence[Kind]) -> list[Attention]:
    found: list[Attention] = []
    for kind in (Kind.FULL, Kind.SLIDING):
        if layers := sum(1 for one in kinds if one is kind):
            heads, elements = _latent(part) if family.latent else _grouped(part, family)
            window = None
            if kind is Kind.SLIDING:
                window = part.whole("sliding_window", most=_TOKENS_MOST, usual=family.numbers.get("sliding_window"))
            found.append(Attention(layers=layers, heads=heads, elements=elements, window=window, latent=family.latent))
    return found


def _grouped(part: Part, family: _Family) -> tuple[int, int]:
    """Key and value of each group of heads."""
    heads = part.whole("num_key_value_heads", most=_HEADS_MOST, usual=family.numbers.get("num_key_value_heads"))
    if part.content.get("head_dim") is not None or "head_dim" in family.numbers or family.says_head_dim:
        return heads, 2 * part.whole("head_dim", most=_WIDTH_MOST, usual=family.numbers.get("head_dim"))
    hidden = part.whole("hidden_size", most=_WIDTH_MOST)
    width, rest = divmod(hidden, part.whole("num_attention_heads", most=_HEADS_MOST))
    if rest or not width:
        raise CannotSize("hidden_size in its config.json is no multiple of num_attention_heads")
    return heads, 2 * width


def _latent(part: Part) -> tuple[int, int]:
    """One compressed vector for all heads, and the part of the key that carries the position."""
    rank = part.whole("kv_lora_rank", most=_WIDTH_MOST)
    return 1, rank + part.whole("qk_rope_head_dim", most=_WIDTH_MOST)


def _recurrent(part: Part, family: _Family, kinds: Sequence[Kind]) -> list[Recurrent]:
    layers = sum(1 for one in kinds if one is Kind.STATE)
    return [Recurrent(layers=layers, state_bytes=family.state(part))] if layers else []


def _delta_state(part: Part) -> int:
    """Gated delta rule: the last inputs of a short convolution, and a matrix for each value head."""
    key_heads = part.whole("linear_num_key_heads", most=_HEADS_MOST)
    value_heads = part.whole("linear_num_value_heads", most=_HEADS_MOST)
    key_width = part.whole("linear_key_head_dim", most=_WIDTH_MOST)
    value_width = part.whole("linear_value_head_dim", most=_WIDTH_MOST)
    inputs = 2 * key_heads * key_width + value_heads * value_width
    kept = part.whole("linear_conv_kernel_dim", most=_WIDTH_MOST) - 1
    return 2 * kept * inputs + _RECURRENT_BYTES * value_heads * value_width * key_width


def _mamba2_state(part: Part, *, heads: str, width: str, size: str, groups: str, kernel: str) -> int:
    """The last inputs of a short convolution, and a state for each of the inner numbers; by the names of their keys."""
    inner = part.whole(heads, most=_HEADS_MOST) * part.whole(width, most=_WIDTH_MOST)
    state = part.whole(size, most=_WIDTH_MOST)
    inputs = inner + 2 * part.whole(groups, most=_HEADS_MOST) * state
    kept = part.whole(kernel, most=_WIDTH_MOST) - 1
    return 2 * kept * inputs + _RECURRENT_BYTES * inner * state


def _element_bytes(config: object, part: Part) -> int:
    outer = config if isinstance(config, Mapping) else {}
    named = [content.get(key) for content in (part.content, outer) for key in ("dtype", "torch_dtype")]
    said = next((value for value in named if value is not None), "bfloat16")
    word = said.removeprefix("torch.") if isinstance(said, str) else ""
    if word not in _DTYPE_BYTES:
        raise CannotSize(f"dtype in its config.json is none of {', '.join(_DTYPE_BYTES)}")
    return _DTYPE_BYTES[word]


def _context_most(part: Part) -> int | None:
    said = part.content.get("max_position_embeddings")
    if isinstance(said, bool) or not isinstance(said, int) or not 1 <= said <= _TOKENS_MOST:
        return None
    stretched = any(_stretches(part.content.get(key)) for key in ("rope_scaling", "rope_parameters"))
    return None if stretched else said


def _stretches(positions: object) -> bool:
    """Do these settings let a request be longer than the model was made for? Unknown: perhaps."""
    if positions is None:
        return False
    return not isinstance(positions, Mapping) or positions.get("rope_type", positions.get("type")) != "default"


_PLAIN: Final = _Family(layers=full)
_PLAIN_WITH_WIDTH: Final = _Family(layers=full, says_head_dim=True)
_WINDOWED: Final = _Family(layers=windowed)
_QWEN2: Final = _Family(layers=windowed_from)
_QWEN3: Final = _Family(layers=windowed_from, says_head_dim=True)
_LATENT: Final = _Family(
    layers=full, kinds=frozenset({Kind.FULL}), latent=True, expected=frozenset({"kv_lora_rank", "v_head_dim"})
)
_DELTA: Final = _Family(
    layers=partial(full_every, key="full_attention_interval", usual=4, between=Kind.STATE),
    kinds=frozenset({Kind.FULL, Kind.STATE}),
    state=_delta_state,
    says_head_dim=True,
)
_ENCODING: Final = _Family(layers=encoding, kinds=frozenset({Kind.NONE}))
_MAMBA: Final = frozenset({Kind.FULL, Kind.STATE, Kind.NONE})

_FAMILIES: Final[Mapping[str, _Family]] = {
    **dict.fromkeys(("llama", "granite", "granitemoe", "olmo2", "olmoe", "cohere", "smollm3", "stablelm"), _PLAIN),
    **dict.fromkeys(("ernie4_5_moe", "phimoe", "glm4v_text"), _PLAIN),
    **dict.fromkeys(("gemma", "glm", "glm4", "glm4_moe", "seed_oss", "minimax_m2"), _PLAIN_WITH_WIDTH),
    **dict.fromkeys(("ministral3", "ernie4_5", "nemotron", "glm4v_moe_text"), _PLAIN_WITH_WIDTH),
    **dict.fromkeys(("mistral", "mixtral", "phi3", "starcoder2"), _WINDOWED),
    **dict.fromkeys(("qwen2", "qwen2_moe", "qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text"), _QWEN2),
    **dict.fromkeys(("qwen3", "qwen3_moe", "qwen3_vl_text", "qwen3_vl_moe_text"), _QWEN3),
    **dict.fromkeys(("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"), _DELTA),
    **dict.fromkeys(("deepseek_v2", "deepseek_v3", "kimi_k2", "glm4_moe_lite"), _LATENT),
    **dict.fromkeys(("bert", "roberta", "xlm-roberta", "modernbert"), _ENCODING),
    **dict.fromkeys(("cohere2", "olmo3"), _Family(layers=partial(full_every, key="sliding_window_pattern", usual=4))),
    **dict.fromkeys(
        ("gemma2", "gpt_oss"),
        _Family(layers=partial(full_every, key="sliding_window_pattern", usual=2), says_head_dim=True),
    ),
    "gemma3_text": _Family(
        layers=partial(full_every, key="sliding_window_pattern", usual=6),
        numbers={"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "sliding_window": 4096},
    ),
    # Three layers of four attend in chunks; vLLM keeps all tokens there too, unless a variable of its own allows less.
    "llama4_text": _Family(layers=lambda part: [Kind.FULL] * part.layers, says_head_dim=True),
    "granitemoehybrid": _Family(
        layers=only_listed,
        kinds=_MAMBA,
        state=partial(
            _mamba2_state,
            heads="mamba_n_heads",
            width="mamba_d_head",
            size="mamba_d_state",
            groups="mamba_n_groups",
            kernel="mamba_d_conv",
        ),
    ),
    "nemotron_h": _Family(
        layers=by_pattern,
        kinds=_MAMBA,
        state=partial(
            _mamba2_state,
            heads="mamba_num_heads",
            width="mamba_head_dim",
            size="ssm_state_size",
            groups="n_groups",
            kernel="conv_kernel",
        ),
        says_head_dim=True,
    ),
}

_WRAPPERS: Final = frozenset({
    "gemma3", "mistral3", "llava", "llava_next", "llava_onevision", "qwen2_vl", "qwen2_5_vl", "qwen3_vl",
    "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe", "llama4", "internvl", "internvl_chat", "idefics3", "smolvlm", "glm4v",
    "glm4v_moe", "aya_vision",
})  # fmt: skip
"""Models that see, too: what reads pictures keeps nothing for a request."""
