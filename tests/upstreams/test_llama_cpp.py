"""The exact command and environment that llama.cpp is started with."""

from dataclasses import replace
from typing import Any

import pytest

from controller.upstreams.launch import BadLaunch
from controller.upstreams.llama_cpp import LlamaCppModel, argv, environment

PLAIN = LlamaCppModel(repository="org/model-GGUF:Q4_K_M", served_name="model", context=4096, slots=4)


def test_the_pool_is_one_requests_context_times_the_slots() -> None:
    assert argv(PLAIN) == (
        "/app/llama-server",
        "--hf-repo",
        "org/model-GGUF:Q4_K_M",
        "--host",
        "0.0.0.0",
        "--port",
        "8000",
        "--alias",
        "model",
        "--ctx-size",
        "16384",
        "--parallel",
        "4",
        "--metrics",
        "--chat-template-kwargs",
        '{"enable_thinking":false,"thinking":false}',
    )


def test_a_file_tools_and_further_arguments_stand_where_they_belong() -> None:
    words = argv(replace(PLAIN, file="m.gguf", tools=True, extra_args=("-fa", "on")))
    assert words[3:5] == ("--hf-file", "m.gguf")
    assert words[-5:] == (
        "--jinja",
        "--chat-template-kwargs",
        '{"enable_thinking":false,"thinking":false}',
        "-fa",
        "on",
    )


def test_secrets_and_the_cache_come_by_environment() -> None:
    model = replace(PLAIN, key_reference="{{ a }}", hub_token_reference="{{ b }}", volume_path="/workspace")
    assert environment(model) == {
        "LLAMA_API_KEY": "{{ a }}",
        "HF_TOKEN": "{{ b }}",
        "LLAMA_CACHE": "/workspace/llama",
        "LLAMA_ARG_REASONING": "off",
    }
    assert environment(PLAIN) == {"LLAMA_ARG_REASONING": "off"}
    assert "{{" not in " ".join(argv(model))


@pytest.mark.parametrize(
    "wrong",
    [
        {"context": 0},
        {"slots": 0},
        {"extra_args": ("--api-key", "x")},
        {"extra_args": ("-hft", "x")},
        {"embeddings": True, "reranking": True},
        {"sampling": {"stop": 1}},
        {"sampling": {"top_k": True}},
        {"sampling": {"top_k": "3"}},
        {"adapters": {"a": "/v/a.gguf,/v/b.gguf"}},
    ],
)
def test_values_that_cannot_start_a_server_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadLaunch):
        replace(PLAIN, **wrong)
