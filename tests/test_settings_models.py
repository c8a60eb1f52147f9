"""What may a model's keys not say together, and is each told with key, value and mend?"""

from pathlib import Path

import pytest

from controller.settings import model_rules
from controller.upstreams import llama_cpp, vllm
from tests.test_settings import SHORT, refused, taken

LLAMA = 'server = "llama_cpp"\n'

CONTRADICTIONS = [
    ('environment = { HF_TOKEN = "x" }', "remove HF_TOKEN; hf_token_secret names the secret"),
    ('environment = { VLLM_API_KEY = "{{ RUNPOD_SECRET_x }}" }', "remove VLLM_API_KEY; api_key_secret names"),
    ('extra_args = ["--api_key", "x"]', 'extra_args = "--api_key": set by gpuwarden, or a secret'),
    ('extra_args = ["--served-model=x"]', 'extra_args = "--served-model": set by gpuwarden'),
    (LLAMA + 'extra_args = ["-a", "x"]', 'extra_args = "-a": set by gpuwarden'),
    ('wires = ["chat", "rerank"]', 'wires = "chat, rerank": a server that serves embeddings or rerank writes no texts'),
    (LLAMA + 'wires = ["rerank", "embeddings"]', 'wires = "rerank, embeddings": llama.cpp serves one of these'),
    ('wires = ["embeddings"]\nthinking = "on"', 'thinking = "on": only for models that write'),
    ('wires = ["embeddings"]\nstream_plain = true', "stream_plain = true: only for models that write"),
    ('wires = ["embeddings"]\nreasoning_effort = "low"', 'reasoning_effort = "low": only for models that write'),
    ('wires = ["rerank"]\nsampling = { top_k = 3 }', "only for models that write"),
    (
        'wires = ["rerank"]\ntool_calling = "parsed"\ntool_call_parser = "hermes"',
        'tool_calling = "parsed": only for models that write',
    ),
    ('wires = ["rerank"]\nlong_prefill_token_threshold = 8', "long_prefill_token_threshold = 8: only for models that"),
    (LLAMA + "gpu_util = 0.9", "gpu_util = 0.9: only for vLLM; remove it"),
    (LLAMA + "gpu_count = 2\ncustom_all_reduce = true", "custom_all_reduce = true: only for vLLM; remove it"),
    (LLAMA + 'sampling = { stop = "x" }', 'sampling = "stop": not a number of a name that llama.cpp is told'),
    (LLAMA + "sampling = { top_k = true }", 'sampling = "top_k": not a number'),
    (LLAMA + 'adapters = { a = "org/a" }', 'adapters = "org/a": llama.cpp loads adapters from files alone; put it on'),
    (LLAMA + 'adapters = { a = "/v/a.bin" }', 'adapters = "/v/a.bin": llama.cpp loads'),
    (LLAMA + 'adapters = { a = "/v/a.gguf" }\nadapter_rank = 8', "adapter_rank = 8: only for vLLM"),
    ('adapters = { a = "lora" }', 'adapters = "lora": neither a repository nor a path; write org/repository'),
    ('adapters = { "a=b" = "org/a" }', "adapters"),
    ('served_name = "a"\nadapters = { a = "org/a" }', 'adapters = "a": the model itself is served by this name'),
    ("adapter_rank = 8", "adapter_rank = 8: there are no adapters; remove it"),
    ('adapters = { a = "org/a" }\nadapter_rank = 513', "adapter_rank = 513: out of bounds"),
    (
        'cloud_type = "COMMUNITY"',
        'cloud_type = "COMMUNITY": on strangers\' machines they see weights, requests and keys',
    ),
    ("merge_system = true", "merge_system = true: only for llama_cpp; remove it"),
    ("custom_all_reduce = true", "custom_all_reduce = true: only for several cards; remove it"),
]


@pytest.mark.parametrize(("lines", "said"), CONTRADICTIONS, ids=lambda value: str(value)[:60])
def test_a_contradiction_is_one_problem_with_key_value_and_mend(tmp_path: Path, lines: str, said: str) -> None:
    (problem,) = refused(tmp_path, f"{SHORT}{lines}\n")
    assert "models.qwen." in problem
    assert said in problem


@pytest.mark.parametrize(
    "lines",
    [
        'wires = ["embeddings", "rerank"]',
        'cloud_type = "COMMUNITY"\n[runpod]\nallow_community = true',
        'wires = ["embeddings"]\nthinking = "off"',
        'wires = ["embeddings"]\nmax_num_batched_tokens = 8192',
        LLAMA + 'adapters = { a = "/v/a.gguf" }',
        LLAMA + "sampling = { top_k = 20, temperature = 0.7 }",
        'adapters = { a = "/v/a", b = "org/b" }\nadapter_rank = 24',
        "gpu_count = 2\ncustom_all_reduce = true",
        'extra_args = ["--api-server-count", "2", "-O1"]',
    ],
)
def test_what_agrees_is_taken(tmp_path: Path, lines: str) -> None:
    assert taken(tmp_path, f"{SHORT}{lines}\n").models.keys() == {"qwen"}


@pytest.mark.parametrize(
    ("tag", "taken_as_it_is"),
    [("v0.22.0", True), ("v0.21.9", False), ("cu124-v0.21.1", False), ("0.21.0-x86", False), ("cu124-v0.22.0", True)],
)
def test_a_vllm_that_can_be_used_without_its_key_is_refused_however_its_tag_says_it(
    tmp_path: Path, tag: str, taken_as_it_is: bool
) -> None:
    text = SHORT.replace("v0.31.0", tag)
    if taken_as_it_is:
        assert taken(tmp_path, text).models["qwen"].image.endswith(tag)
    else:
        assert "CVE-2026-48746" in refused(tmp_path, text)[0]


def test_the_oldest_vllm_is_one_for_configs_and_for_what_runs() -> None:
    assert model_rules.VLLM_OLDEST == vllm.OLDEST


def test_the_sampling_that_a_config_may_say_is_what_llama_cpp_is_told() -> None:
    assert set(model_rules.LLAMA_SAMPLING) == set(llama_cpp.SAMPLING)


def test_another_kind_of_server_is_another_resource_and_another_wire_of_its_kind_is_not(tmp_path: Path) -> None:
    def fingerprint(lines: str) -> str:
        return taken(tmp_path, f"{SHORT}{lines}\n").model_policies()["qwen"].fingerprint

    assert fingerprint("") == fingerprint('wires = ["chat"]')
    assert len({fingerprint(""), fingerprint('wires = ["embeddings"]'), fingerprint('wires = ["rerank"]')}) == 3
