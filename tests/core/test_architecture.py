"""Is a config.json read for what it says, and is everything that is not known refused instead of guessed?"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.architecture import Architecture, Attention, Recurrent, read_architecture
from controller.core.layers import CannotSize
from tests.core import model_samples as samples


def refused(config: object) -> str:
    with pytest.raises(CannotSize) as found:
        read_architecture(config)
    return found.value.why


def test_grouped_heads_are_read_with_the_width_that_follows_from_the_hidden_size() -> None:
    assert read_architecture(samples.QWEN25_7B) == Architecture(
        model_type="qwen2",
        attention_heads=28,
        attention=(Attention(layers=28, heads=4, elements=256),),
        context_most=32768,
    )


def test_states_are_read_with_their_bytes() -> None:
    assert read_architecture(samples.QWEN3_NEXT_80B).recurrent == (Recurrent(layers=36, state_bytes=2_146_304),)
    assert read_architecture(samples.NEMOTRON_NANO_9B).recurrent == (Recurrent(layers=27, state_bytes=5_316_608),)


def test_a_granite_hybrid_is_read_by_its_listed_layers() -> None:
    granite = {
        "model_type": "granitemoehybrid", "num_hidden_layers": 4, "num_attention_heads": 12, "hidden_size": 1536,
        "num_key_value_heads": 4, "layer_types": ["mamba", "mamba", "attention", "mamba"], "mamba_n_heads": 48,
        "mamba_d_head": 64, "mamba_d_state": 128, "mamba_n_groups": 1, "mamba_d_conv": 4,
    }  # fmt: skip
    found = read_architecture(granite)
    assert found.attention == (Attention(layers=1, heads=4, elements=256),)
    # 3 × (3,072 + 2 × 128) × 2 + 3,072 × 128 × 4 bytes.
    assert found.recurrent == (Recurrent(layers=3, state_bytes=1_592_832),)


def test_the_language_part_of_a_model_that_sees_is_found_with_the_dtype_around_it() -> None:
    assert read_architecture(samples.GEMMA3_27B).model_type == "gemma3_text"
    odd = samples.GEMMA3_27B | {"torch_dtype": "int4"}
    assert refused(odd) == "dtype in its config.json is none of bfloat16, float16, float32"


def test_a_model_that_sees_may_also_be_written_flat() -> None:
    flat = read_architecture(samples.QWEN25_7B | {"model_type": "qwen2_5_vl", "vision_config": {}})
    assert (flat.model_type, flat.attention[0].layers, flat.senses) == ("qwen2_5_vl", 28, True)
    assert read_architecture(samples.GEMMA3_27B).senses
    assert not read_architecture(samples.QWEN25_7B).senses


@pytest.mark.parametrize(
    ("stretch", "most"),
    [
        (None, 40960),
        ({"rope_type": "default", "rope_theta": 1e6}, 40960),
        ({"type": "yarn", "factor": 4.0}, None),
        ([], None),
    ],
)
def test_the_longest_request_is_known_unless_positions_are_stretched(stretch: object, most: int | None) -> None:
    for key in ("rope_scaling", "rope_parameters"):
        assert read_architecture(samples.QWEN3_8B | {key: stretch}).context_most == most


UNKNOWN = [
    ({"model_type": "hyena_ssm", "num_hidden_layers": 4}, "the architecture hyena_ssm is not known"),
    ({"num_hidden_layers": 4}, "the architecture without model_type is not known"),
    ({"model_type": "a\x1b[2J"}, "the architecture with an odd model_type is not known"),
    ({"model_type": ["llama"]}, "the architecture with an odd model_type is not known"),
    ({"model_type": "gemma3"}, "the architecture gemma3 is not known"),
    ({"model_type": "newsees", "text_config": samples.QWEN3_8B}, "the architecture newsees is not known"),
    ({"model_type": "gemma3", "text_config": {"model_type": "newlang"}}, "the architecture newlang is not known"),
    ({"model_type": "llava", "text_config": samples.GEMMA3_27B}, "nests the language model too deep"),
    ([], "its config.json is not a JSON object"),
    (None, "its config.json is not a JSON object"),
]


@pytest.mark.parametrize(("config", "why"), UNKNOWN, ids=lambda value: str(value)[:40])
def test_what_is_not_known_is_not_guessed(config: object, why: str) -> None:
    assert why in refused(config)


BROKEN: list[tuple[samples.Json, samples.Json, str]] = [
    (samples.QWEN25_7B, {"num_key_value_heads": 0}, "num_key_value_heads in its config.json is no whole number"),
    (samples.QWEN25_7B, {"num_key_value_heads": -4}, "num_key_value_heads in its config.json is no whole number"),
    (samples.QWEN25_7B, {"num_key_value_heads": None}, "its config.json has no num_key_value_heads"),
    (samples.QWEN25_7B, {"hidden_size": 3585}, "hidden_size in its config.json is no multiple"),
    (samples.QWEN25_7B, {"hidden_size": 10**400}, "hidden_size in its config.json is no whole number"),
    (
        samples.QWEN25_7B,
        {"layer_types": ["mamba"] * 28},
        "it has layers of linear_attention, which is not known of qwen2",
    ),
    (samples.QWEN25_7B, {"kv_lora_rank": 512}, "it has kv_lora_rank, which is not known of qwen2"),
    (samples.QWEN25_7B, {"is_encoder_decoder": True}, "it has is_encoder_decoder, which is not known of qwen2"),
    (samples.QWEN3_8B, {"head_dim": None}, "its config.json has no head_dim"),
    (samples.DEEPSEEK_V3, {"kv_lora_rank": None}, "its config.json has no kv_lora_rank"),
    (samples.DEEPSEEK_V3, {"index_topk": 2048}, "it has index_topk, which is not known of deepseek_v3"),
    (samples.GPT_OSS_20B, {"sliding_window": None}, "its config.json has no sliding_window"),
    (samples.QWEN3_NEXT_80B, {"linear_num_key_heads": None}, "its config.json has no linear_num_key_heads"),
    (samples.QWEN3_NEXT_80B, {"layer_types": ["sliding_attention"] * 48}, "it has layers of sliding_attention, which"),
    (samples.QWEN25_7B, {"torch_dtype": "float8_e4m3fn"}, "dtype in its config.json is none of"),
    (samples.QWEN25_7B, {"torch_dtype": 16}, "dtype in its config.json is none of"),
]


@pytest.mark.parametrize(("sample", "change", "why"), BROKEN, ids=lambda value: str(value)[:40])
def test_what_is_missing_or_odd_is_not_guessed(sample: samples.Json, change: samples.Json, why: str) -> None:
    read_architecture(sample)
    assert why in refused(sample | change)


def test_a_key_that_is_there_and_says_no_is_no_hindrance() -> None:
    calm: samples.Json = {
        "is_encoder_decoder": False,
        "kv_lora_rank": None,
        "cross_attention_layers": [],
        "num_kv_shared_layers": 0,
    }
    assert read_architecture(samples.QWEN25_7B | calm) == read_architecture(samples.QWEN25_7B)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=20), inner, max_size=4),
    max_leaves=10,
)
SAMPLES: list[dict[str, Any]] = [
    samples.QWEN25_7B, samples.GEMMA3_27B, samples.GPT_OSS_20B, samples.DEEPSEEK_V3, samples.QWEN3_NEXT_80B,
    samples.NEMOTRON_NANO_9B, samples.BGE_M3,
]  # fmt: skip


@given(st.data())
def test_whatever_stands_in_it_the_answer_is_a_bounded_architecture_or_a_reason(data: st.DataObject) -> None:
    sample = data.draw(st.sampled_from(SAMPLES))
    inner = sample.get("text_config", sample)
    spoilt = inner | {data.draw(st.sampled_from(sorted(inner))): data.draw(JSON)}
    config = sample | {"text_config": spoilt} if "text_config" in sample else spoilt
    try:
        found = read_architecture(config)
    except CannotSize as unknown:
        assert unknown.why.isprintable()
        assert len(unknown.why) < 200
    else:
        kept = [one.layers for one in found.attention] + [one.layers for one in found.recurrent]
        assert 0 <= sum(kept) <= 1024
