"""Do the further arguments of a vLLM model break the rules that its keys keep?"""

from typing import Any

import pytest

from controller.settings.batch_arguments import broken
from controller.settings.models import ModelSection


def told(*words: str, **keys: Any) -> list[str]:
    section = ModelSection.model_validate(
        {"model": "org/m", "image": "vllm/vllm-openai:v0.31.0", "gpus": ["A"], "context": 4096, "extra_args": words}
        | keys
    )
    return [found.argument for found in broken(section)]


@pytest.mark.parametrize(
    ("words", "keys", "wrong"),
    [
        (["--max-num-batched-tokens", "7"], {}, True),
        (["--max-num-batched-tokens", "8"], {}, False),
        (["--max-num-batched-tokens=7"], {}, True),
        (["--max_num_batched_tokens", "7"], {}, True),
        (["--max-num-b", "7"], {}, True),
        (["--max-num", "7"], {}, False),  # of two that begin so, which vLLM refuses
        (["--max-num-batched-tokens", "7", "--max-num-batched-tokens", "9"], {}, False),
        (["--max-num-seqs", "64"], {"max_num_batched_tokens": 63}, True),
        (["--max-num-seqs", "64"], {"max_num_batched_tokens": 64}, False),
        (["--max-num-seqs", "64"], {}, False),
        (["--max-num-seqs", "64", "--max-num-batched-tokens", "63"], {"max_num_batched_tokens": 99}, True),
        (["--max-num-batched-tokens", "99"], {"max_num_batched_tokens": 1}, False),
        ([], {"max_num_batched_tokens": 1}, False),  # told of the key itself
    ],
)
def test_a_batch_has_room_for_every_sequence(words: list[str], keys: dict[str, Any], wrong: bool) -> None:
    assert bool(told(*words, **keys)) is wrong


@pytest.mark.parametrize(
    ("words", "keys", "wrong"),
    [
        (["--long-prefill-token-threshold", "4096"], {}, False),
        (["--long-prefill-token-threshold", "4097"], {}, True),
        (["--long-prefill-token-threshold", "4.097k"], {}, True),
        (["--long-prefill-token-threshold", "4K"], {}, False),
        (["--long-prefill-token-threshold", "8K", "--max-model-len", "8192"], {}, False),
        (["--max-model-len", "4095"], {"long_prefill_token_threshold": 4096}, True),
        (["--max-model-len", "4095"], {"long_prefill_token_threshold": 4095}, False),
        (["--max-model-len", "4095"], {}, True),
        (["--max-model-len", "4097"], {}, False),
        (["--max-model-len", "auto"], {}, False),
        (["--max-model-len"], {}, False),
        ([], {"long_prefill_token_threshold": 4097}, False),  # told of the key itself
    ],
)
def test_a_piece_of_a_prompt_is_no_longer_than_the_context(words: list[str], keys: dict[str, Any], wrong: bool) -> None:
    assert bool(told(*words, **keys)) is wrong


def test_the_argument_to_change_is_told_as_it_is_read() -> None:
    assert told("--max-num-batched-tokens=4", "--long-prefill", "1M") == [
        "--max-num-batched-tokens 4",
        "--long-prefill-token-threshold 1048576",
    ]
