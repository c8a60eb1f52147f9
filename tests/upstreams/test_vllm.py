"""The exact command and environment that vLLM is started with."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from controller.upstreams.launch import BadLaunch, Effort
from controller.upstreams.vllm import VllmModel, argv, environment

PLAIN = VllmModel(repository="Qwen/Qwen3-8B", served_name="Qwen/Qwen3-8B", context=32768)


def test_the_least_model_gives_exactly_this_command() -> None:
    assert argv(PLAIN) == (
        "vllm",
        "serve",
        "Qwen/Qwen3-8B",
        "--host",
        "0.0.0.0",
        "--port",
        "8000",
        "--served-model-name",
        "Qwen/Qwen3-8B",
        "--max-model-len",
        "32768",
        "--max-num-seqs",
        "8",
        "--gpu-memory-utilization",
        "0.90",
        "--generation-config",
        "vllm",
        "--default-chat-template-kwargs",
        '{"enable_thinking":false,"thinking":false}',
        "--override-generation-config",
        '{"temperature":0.7,"top_p":0.8,"top_k":20,"presence_penalty":1.5}',
        "--enable-prompt-tokens-details",
        "--long-prefill-token-threshold",
        "2048",
    )


def test_a_model_that_says_everything_gives_exactly_this_command() -> None:
    model = VllmModel(
        repository="org/big",
        served_name="big",
        context=1024,
        max_num_seqs=16,
        gpu_memory_share=Decimal("0.95"),
        gpu_count=2,
        thinking=True,
        reasoning_effort=Effort.XHIGH,
        sampling={"temperature": Decimal("0.6")},
        tool_call_parser="hermes",
        max_num_batched_tokens=4096,
        long_prefill_token_threshold=512,
        extra_args=("--kv-cache-dtype", "fp8"),
    )
    assert argv(model)[2:] == (
        "org/big",
        "--host",
        "0.0.0.0",
        "--port",
        "8000",
        "--served-model-name",
        "big",
        "--max-model-len",
        "1024",
        "--max-num-seqs",
        "16",
        "--gpu-memory-utilization",
        "0.95",
        "--generation-config",
        "vllm",
        "--default-chat-template-kwargs",
        '{"enable_thinking":true,"thinking":true,"reasoning_effort":"xhigh"}',
        "--override-generation-config",
        '{"temperature":0.6}',
        "--enable-prompt-tokens-details",
        "--enable-auto-tool-choice",
        "--tool-call-parser",
        "hermes",
        "--long-prefill-token-threshold",
        "512",
        "--max-num-batched-tokens",
        "4096",
        "--tensor-parallel-size",
        "2",
        "--disable-custom-all-reduce",
        "--kv-cache-dtype",
        "fp8",
    )


def test_thinking_without_sampling_leaves_sampling_to_the_server() -> None:
    assert "--override-generation-config" not in argv(replace(PLAIN, thinking=True))


def test_a_piece_of_a_prompt_is_never_longer_than_the_context() -> None:
    words = argv(replace(PLAIN, context=128))
    assert words[words.index("--long-prefill-token-threshold") + 1] == "128"


def test_several_cards_may_keep_their_own_all_reduce() -> None:
    words = argv(replace(PLAIN, gpu_count=4, custom_all_reduce=True))
    assert words[-2:] == ("--tensor-parallel-size", "4")


def test_secrets_are_in_the_environment_as_references_and_nowhere_in_the_command() -> None:
    model = replace(PLAIN, key_reference="{{ RUNPOD_SECRET_k }}", hub_token_reference="{{ RUNPOD_SECRET_h }}")
    assert environment(model) == {
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
        "VLLM_API_KEY": "{{ RUNPOD_SECRET_k }}",
        "HF_TOKEN": "{{ RUNPOD_SECRET_h }}",
    }
    assert "SECRET" not in " ".join(argv(model))
    assert "SECRET" not in repr(model)


def test_caches_are_on_the_volume_only_if_there_is_one() -> None:
    assert environment(PLAIN) == {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    found = environment(replace(PLAIN, volume_path="/workspace"))
    assert (found["HF_HOME"], found["VLLM_CACHE_ROOT"]) == ("/workspace/huggingface", "/workspace/vllm")


def test_several_cards_do_not_copy_from_one_to_another() -> None:
    found = environment(replace(PLAIN, gpu_count=2))
    assert (found["NCCL_P2P_DISABLE"], found["NCCL_DEBUG"]) == ("1", "INFO")


@pytest.mark.parametrize(("rank", "limit"), [(1, "8"), (16, "16"), (17, "32"), (257, "320"), (512, "512")])
def test_a_rank_gets_the_next_limit_that_vllm_takes(rank: int, limit: str) -> None:
    words = argv(replace(PLAIN, adapters={"a": "org/a"}, adapter_rank=rank))
    assert words[words.index("--max-lora-rank") + 1] == limit


def test_no_more_adapters_are_computed_together_than_requests() -> None:
    words = argv(replace(PLAIN, adapters={"a": "org/a", "b": "org/b"}, max_num_seqs=1))
    assert words[words.index("--max-loras") + 1] == "1"


@pytest.mark.parametrize(
    "wrong",
    [
        {"gpu_memory_share": Decimal("0.09")},
        {"gpu_memory_share": Decimal("1.01")},
        {"gpu_memory_share": Decimal("NaN")},
        {"context": 0},
        {"max_num_seqs": 0},
        {"gpu_count": 0},
        {"max_num_batched_tokens": 7},
        {"long_prefill_token_threshold": 32769},
        {"long_prefill_token_threshold": 0},
        {"extra_args": ("--api-key", "x")},
        {"extra_args": ("--api-key=x",)},
        {"extra_args": ("--hf-token", "x")},
        {"adapter_rank": 0},
        {"adapter_rank": 513},
        {"adapters": {"a=b": "org/a"}},
        {"adapters": {"a": "org/a,org/b"}},
        {"adapters": {"a b": "org/a"}},
    ],
)
def test_values_that_cannot_start_a_server_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadLaunch):
        replace(PLAIN, **wrong)


@pytest.mark.parametrize(
    "right",
    [
        {"gpu_memory_share": Decimal("0.1")},
        {"gpu_memory_share": Decimal(1)},
        {"max_num_batched_tokens": 8},
        {"long_prefill_token_threshold": 32768},
    ],
)
def test_values_at_their_bounds_are_taken(right: dict[str, Any]) -> None:
    assert argv(replace(PLAIN, **right))


@pytest.mark.parametrize("sampling", [{"temperature": float("nan")}, {"x": object()}])
def test_sampling_values_that_are_no_json_are_refused(sampling: dict[str, Any]) -> None:
    with pytest.raises(BadLaunch):
        argv(replace(PLAIN, sampling=sampling))
