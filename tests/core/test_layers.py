"""Is it read of each layer what it does, as the file lists it or by the architecture's rule?"""

import pytest

from controller.core.architecture import read_architecture
from controller.core.layers import CannotSize
from tests.core import model_samples as samples

GRANITE: samples.Json = {
    "model_type": "granitemoehybrid", "num_hidden_layers": 4, "num_attention_heads": 12, "hidden_size": 1536,
    "num_key_value_heads": 4, "layer_types": ["mamba", "mamba", "attention", "mamba"], "mamba_n_heads": 48,
    "mamba_d_head": 64, "mamba_d_state": 128, "mamba_n_groups": 1, "mamba_d_conv": 4,
}  # fmt: skip


def layers(config: object) -> list[tuple[int, int | None]]:
    """How many layers keep how many tokens."""
    return [(one.layers, one.window) for one in read_architecture(config).attention]


def test_a_window_that_is_switched_off_is_none() -> None:
    assert layers(samples.QWEN25_7B) == [(28, None)]
    assert layers(samples.QWEN25_7B | {"use_sliding_window": True, "max_window_layers": 20}) == [
        (20, None),
        (8, 131072),
    ]
    assert layers(samples.QWEN25_7B | {"use_sliding_window": True, "sliding_window": None}) == [(28, None)]


def test_a_window_of_every_layer_is_taken_where_the_architecture_has_it() -> None:
    mistral = samples.QWEN25_7B | {"model_type": "mistral", "sliding_window": 4096}
    assert layers(mistral) == [(28, 4096)]
    assert layers(mistral | {"sliding_window": None}) == [(28, None)]


def test_rounds_of_layers_close_with_a_full_one() -> None:
    assert layers(samples.GEMMA3_27B) == [(10, None), (52, 1024)]
    text = samples.GEMMA3_27B["text_config"]
    assert layers(text | {"sliding_window_pattern": 2}) == [(31, None), (31, 1024)]
    assert layers(text | {"model_type": "gemma2"}) == [(31, None), (31, 1024)]


def test_listed_layers_go_before_the_architecture_s_rule() -> None:
    text = samples.GEMMA3_27B["text_config"]
    listed = ["sliding_attention"] * 60 + ["full_attention"] * 2
    assert layers(text | {"layer_types": listed}) == [(2, None), (60, 1024)]


def test_words_of_older_files_mean_the_same() -> None:
    newer = GRANITE | {"layer_types": ["linear_attention", "linear_attention", "full_attention", "linear_attention"]}
    assert read_architecture(GRANITE) == read_architecture(newer)
    assert [one.layers for one in read_architecture(GRANITE).recurrent] == [3]


def test_a_pattern_of_letters_and_a_list_of_blocks_mean_the_same() -> None:
    blocks = ["linear_attention", "mlp", "moe", "full_attention"]
    listed = samples.NEMOTRON_NANO_9B | {"num_hidden_layers": 4, "layers_block_type": blocks}
    lettered = listed | {"layers_block_type": None, "hybrid_override_pattern": "M-E*"}
    assert read_architecture(listed) == read_architecture(lettered)
    assert layers(lettered) == [(1, None)]


BROKEN: list[tuple[samples.Json, samples.Json, str]] = [
    (samples.QWEN25_7B, {"num_hidden_layers": None}, "its config.json has no num_hidden_layers"),
    (samples.QWEN25_7B, {"num_hidden_layers": 1025}, "num_hidden_layers in its config.json is no whole number from 1"),
    (samples.QWEN25_7B, {"num_hidden_layers": True}, "num_hidden_layers in its config.json is no whole number"),
    (samples.QWEN25_7B, {"num_hidden_layers": 28.0}, "num_hidden_layers in its config.json is no whole number"),
    (samples.QWEN25_7B, {"num_hidden_layers": "28"}, "num_hidden_layers in its config.json is no whole number"),
    (samples.QWEN25_7B, {"layer_types": ["full_attention"] * 27}, "no list of one word a layer"),
    (samples.QWEN25_7B, {"layer_types": "full_attention"}, "no list of one word a layer"),
    (samples.QWEN25_7B, {"layer_types": ["new_attention"] * 28}, "layer_types in its config.json has a word"),
    (samples.QWEN25_7B, {"use_sliding_window": True, "max_window_layers": None}, "has no max_window_layers"),
    (samples.NEMOTRON_NANO_9B, {"hybrid_override_pattern": "M*"}, "hybrid_override_pattern in its config.json is not"),
    (samples.NEMOTRON_NANO_9B, {"hybrid_override_pattern": "Z" * 56}, "hybrid_override_pattern in its config.json"),
    (samples.QWEN25_7B, {"layer_types": [["full_attention"]] * 28}, "layer_types in its config.json has a word"),
    (samples.QWEN25_7B, {"layer_types": 28}, "no list of one word a layer"),
    (samples.NEMOTRON_NANO_9B, {"hybrid_override_pattern": 56}, "hybrid_override_pattern in its config.json is not"),
    (
        samples.GEMMA3_27B["text_config"],
        {"sliding_window_pattern": 1025},
        "sliding_window_pattern in its config.json is no",
    ),
    (GRANITE, {"layer_types": None}, "its config.json has no layer_types"),
]


@pytest.mark.parametrize(("sample", "change", "why"), BROKEN, ids=lambda value: str(value)[:40])
def test_what_is_missing_or_odd_is_not_guessed(sample: samples.Json, change: samples.Json, why: str) -> None:
    read_architecture(sample)
    with pytest.raises(CannotSize) as unknown:
        read_architecture(sample | change)
    assert why in unknown.value.why
