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


TWELVE: samples.Json = {
    "num_hidden_layers": 12, "num_attention_heads": 16, "num_key_value_heads": 4, "hidden_size": 1024,
    "sliding_window": 512, "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8,
    "linear_value_head_dim": 16, "linear_conv_kernel_dim": 4,
}  # fmt: skip
# Of twelve layers, how many attend to all tokens, to a window, and keep a state; and must the heads' width be told?
TABLE = [
    (
        "llama granite granitemoe olmo2 olmoe cohere smollm3 stablelm ernie4_5_moe phimoe glm4v_text"
        " qwen2 qwen2_moe qwen2_vl qwen2_vl_text qwen2_5_vl qwen2_5_vl_text",
        (12, 0, 0),
        False,
    ),
    (
        "gemma glm glm4 glm4_moe seed_oss minimax_m2 ministral3 ernie4_5 nemotron glm4v_moe_text"
        " qwen3 qwen3_moe qwen3_vl_text qwen3_vl_moe_text llama4_text",
        (12, 0, 0),
        True,
    ),
    ("mistral mixtral phi3 starcoder2", (0, 12, 0), False),
    ("cohere2 olmo3", (3, 9, 0), False),
    ("gemma2 gpt_oss", (6, 6, 0), True),
    ("qwen3_next qwen3_5_text qwen3_5_moe_text", (3, 0, 9), True),
]
ROWS = [(name, counts, told) for names, counts, told in TABLE for name in names.split()]


@pytest.mark.parametrize(("model_type", "counts", "told"), ROWS)
def test_each_architecture_is_laid_out_as_its_row_says(
    model_type: str, counts: tuple[int, int, int], told: bool
) -> None:
    named = TWELVE | {"model_type": model_type}
    found = read_architecture(named | {"head_dim": 96})
    windows = [one for one in found.attention if one.window is not None]
    attending = sum(one.layers for one in found.attention if one.window is None)
    assert (attending, sum(one.layers for one in windows), sum(one.layers for one in found.recurrent)) == counts
    assert {(one.heads, one.elements, one.latent) for one in found.attention} == {(4, 192, False)}
    assert {one.window for one in windows} <= {512}
    if told:
        assert refused(named) == "its config.json has no head_dim"
    else:
        assert {one.elements for one in read_architecture(named).attention} == {128}


@pytest.mark.parametrize("model_type", ["deepseek_v2", "deepseek_v3", "kimi_k2", "glm4_moe_lite"])
def test_compressing_architectures_keep_one_latent(model_type: str) -> None:
    compressed = {"model_type": model_type, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "v_head_dim": 128}
    assert read_architecture(TWELVE | compressed).attention == (
        Attention(layers=12, heads=1, elements=576, latent=True),
    )


@pytest.mark.parametrize("model_type", ["bert", "roberta", "xlm-roberta", "modernbert"])
def test_encoding_architectures_keep_nothing(model_type: str) -> None:
    found = read_architecture(TWELVE | {"model_type": model_type})
    assert (found.attention, found.recurrent, found.attention_heads) == ((), (), 16)


WRAPPED = (
    "gemma3 mistral3 llava llava_next llava_onevision qwen2_vl qwen2_5_vl qwen3_vl qwen3_vl_moe qwen3_5 qwen3_5_moe"
    " llama4 internvl internvl_chat idefics3 smolvlm glm4v glm4v_moe aya_vision"
)


@pytest.mark.parametrize("model_type", WRAPPED.split())
@pytest.mark.parametrize("key", ["text_config", "llm_config", "language_config"])
def test_a_model_that_sees_nests_what_it_keeps(model_type: str, key: str) -> None:
    assert read_architecture({"model_type": model_type, key: samples.QWEN25_7B}).model_type == "qwen2"


def test_what_gemma_leaves_out_is_what_its_own_code_takes() -> None:
    bare = {"model_type": "gemma3_text", "num_hidden_layers": 12}
    found = read_architecture(bare)
    assert found.attention_heads == 8
    assert found.attention == (
        Attention(layers=2, heads=4, elements=512),
        Attention(layers=10, heads=4, elements=512, window=4096),
    )


BOUNDS = [
    ("num_hidden_layers", 1024),
    ("num_attention_heads", 4096),
    ("num_key_value_heads", 4096),
    ("head_dim", 2**20),
    ("sliding_window", 2**31),
]


@pytest.mark.parametrize(("key", "most"), BOUNDS)
def test_every_number_has_a_bound(key: str, most: int) -> None:
    mistral = TWELVE | {"model_type": "mistral", "head_dim": 64}
    read_architecture(mistral | {key: most})
    assert refused(mistral | {key: most + 1}) == f"{key} in its config.json is no whole number from 1 to {most}"
    assert refused(mistral | {key: 0}) == f"{key} in its config.json is no whole number from 1 to {most}"


@pytest.mark.parametrize("word", ["bfloat16", "float16", "float32", "torch.bfloat16", None])
@pytest.mark.parametrize("key", ["dtype", "torch_dtype"])
def test_a_number_of_the_cache_takes_two_bytes_unless_a_server_is_told_otherwise(key: str, word: str | None) -> None:
    bare = {name: value for name, value in samples.QWEN3_8B.items() if name != "torch_dtype"}
    assert read_architecture(bare | {key: word}).element_bytes == 2


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


@pytest.mark.parametrize("said", [None, True, "32768", 32768.0, 0, -1, 2**31 + 1])
def test_a_longest_request_that_is_no_count_is_not_known(said: object) -> None:
    assert read_architecture(samples.QWEN3_8B | {"max_position_embeddings": said}).context_most is None


def test_the_longest_request_may_have_as_many_tokens_as_can_be_counted() -> None:
    assert read_architecture(samples.QWEN3_8B | {"max_position_embeddings": 2**31}).context_most == 2**31
