"""Which exact command and environment does each declaration give, from the config file to what the provider holds?

The daemon takes the config and makes the machine; what the provider holds of it is compared word by word.
"""

from typing import Any

import pytest

from tests.scenarios.world import World, scenario

VLLM_HEAD = ["serve", "org/m1", "--host", "0.0.0.0", "--port", "8000"]
VLLM_SIZES = ["--max-model-len", "4096", "--max-num-seqs", "8", "--gpu-memory-utilization", "0.90"]
SILENT = '{"enable_thinking":false,"thinking":false}'
QUIET = '{"temperature":0.7,"top_p":0.8,"top_k":20,"presence_penalty":1.5}'

PLAIN_ENV = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "VLLM_API_KEY": "{{ RUNPOD_SECRET_vllm_m1 }}"}
LLAMA_ENV = {"LLAMA_API_KEY": "{{ RUNPOD_SECRET_vllm_m1 }}", "LLAMA_ARG_REASONING": "off"}
LLAMA_HEAD = ["--hf-repo", "org/m1", "--host", "0.0.0.0", "--port", "8000", "--alias", "org/m1"]
LLAMA_SIZES = ["--ctx-size", "32768", "--parallel", "8", "--metrics"]
LLAMA = 'server = "llama_cpp"\nimage = "ghcr.io/ggml-org/llama.cpp:server-cuda-b11434"\n'


def vllm(*words: str, name: str = "org/m1", sizes: list[str] = VLLM_SIZES) -> list[str]:
    return [*VLLM_HEAD, "--served-model-name", name, *sizes, *words]


def writes(*after: str, values: str = SILENT, sampling: str | None = QUIET, piece: str = "2048") -> list[str]:
    """What every vLLM that writes texts is told; `after` stands where tools would."""
    override = [] if sampling is None else ["--override-generation-config", sampling]
    return [
        *("--generation-config", "vllm", "--default-chat-template-kwargs", values),
        *override,
        *("--enable-prompt-tokens-details", *after, "--long-prefill-token-threshold", piece),
    ]


def llama(*words: str) -> list[str]:
    return [*LLAMA_HEAD, *LLAMA_SIZES, *words]


DECLARED: dict[str, tuple[str, list[str], dict[str, str]]] = {
    "a single card": ("", vllm(*writes()), PLAIN_ENV),
    "two cards": (
        "gpu_count = 2",
        vllm(*writes(), "--tensor-parallel-size", "2", "--disable-custom-all-reduce"),
        PLAIN_ENV | {"NCCL_P2P_DISABLE": "1", "NCCL_DEBUG": "INFO"},
    ),
    "two cards that know better": (
        'gpu_count = 2\ncustom_all_reduce = true\nenvironment = { NCCL_P2P_DISABLE = "0", NCCL_DEBUG = "WARN" }',
        vllm(*writes(), "--tensor-parallel-size", "2"),
        PLAIN_ENV | {"NCCL_P2P_DISABLE": "0", "NCCL_DEBUG": "WARN"},
    ),
    "a name of its own": ('served_name = "m"', vllm(*writes(), name="m"), PLAIN_ENV),
    "tools": (
        'tool_calling = "parsed"\ntool_call_parser = "hermes"',
        vllm(*writes("--enable-auto-tool-choice", "--tool-call-parser", "hermes")),
        PLAIN_ENV,
    ),
    "thinking": (
        'thinking = "on"',
        vllm(*writes(values='{"enable_thinking":true,"thinking":true}', sampling=None)),
        PLAIN_ENV,
    ),
    "effort": (
        'thinking = "on"\nreasoning_effort = "xhigh"',
        vllm(*writes(values='{"enable_thinking":true,"thinking":true,"reasoning_effort":"xhigh"}', sampling=None)),
        PLAIN_ENV,
    ),
    "sampling": ("sampling = { top_k = 3 }", vllm(*writes(sampling='{"top_k":3}')), PLAIN_ENV),
    "batches": (
        "max_num_batched_tokens = 8192\nlong_prefill_token_threshold = 512\nmax_num_seqs = 16\ngpu_util = 0.8",
        vllm(
            *writes(piece="512"),
            *("--max-num-batched-tokens", "8192"),
            sizes=["--max-model-len", "4096", "--max-num-seqs", "16", "--gpu-memory-utilization", "0.8"],
        ),
        PLAIN_ENV,
    ),
    "adapters": (
        'adapters = { sql = "org/sql-lora", fr = "/workspace/fr" }\nadapter_rank = 24\ngpu_count = 2',
        vllm(
            *writes(),
            *("--enable-lora", "--max-loras", "2", "--max-lora-rank", "32"),
            *("--lora-modules", "sql=org/sql-lora", "fr=/workspace/fr"),
            *("--tensor-parallel-size", "2", "--disable-custom-all-reduce"),
        ),
        PLAIN_ENV | {"NCCL_P2P_DISABLE": "1", "NCCL_DEBUG": "INFO"},
    ),
    "embeddings": ('wires = ["embeddings"]', vllm("--runner", "pooling"), PLAIN_ENV),
    "rerank": (
        'wires = ["rerank"]\nmax_num_batched_tokens = 16384',
        vllm("--runner", "pooling", "--max-num-batched-tokens", "16384"),
        PLAIN_ENV,
    ),
    "a hub token": (
        'hf_token_secret = "hub"',
        vllm(*writes()),
        PLAIN_ENV | {"HF_TOKEN": "{{ RUNPOD_SECRET_hub }}"},
    ),
    "a volume": (
        'volumes = { "US-KS-2" = "vol1" }\nvolume_mount_path = "/data"',
        vllm(*writes()),
        PLAIN_ENV | {"HF_HOME": "/data/huggingface", "VLLM_CACHE_ROOT": "/data/vllm"},
    ),
    "arguments of the operator's, last": (
        'gpu_count = 2\nextra_args = ["--kv-cache-dtype", "fp8", "--max-num-seqs", "4"]',
        vllm(
            *writes(),
            *("--tensor-parallel-size", "2", "--disable-custom-all-reduce"),
            *("--kv-cache-dtype", "fp8", "--max-num-seqs", "4"),
        ),
        PLAIN_ENV | {"NCCL_P2P_DISABLE": "1", "NCCL_DEBUG": "INFO"},
    ),
    "llama.cpp": (LLAMA, llama("--chat-template-kwargs", SILENT), LLAMA_ENV),
    "llama.cpp with all that it can be told": (
        LLAMA
        + 'thinking = "on"\nreasoning_effort = "low"\nsampling = { temperature = 0.6, top_k = 20 }\n'
        + 'adapters = { a = "/workspace/a.gguf", b = "/workspace/b.gguf" }\nextra_args = ["--mlock"]',
        llama(
            "--jinja",
            *("--chat-template-kwargs", '{"enable_thinking":true,"thinking":true,"reasoning_effort":"low"}'),
            *("--temp", "0.6", "--top-k", "20"),
            *("--lora", "/workspace/a.gguf,/workspace/b.gguf", "--lora-init-without-apply", "--mlock"),
        ),
        LLAMA_ENV | {"LLAMA_ARG_REASONING": "on"},
    ),
    "llama.cpp with a volume": (
        LLAMA + 'volumes = { "US-KS-2" = "vol1" }',
        llama("--chat-template-kwargs", SILENT),
        LLAMA_ENV | {"LLAMA_CACHE": "/workspace/llama"},
    ),
    "llama.cpp with tools": (
        LLAMA + 'tool_calling = "parsed"',
        llama("--jinja", "--chat-template-kwargs", SILENT),
        LLAMA_ENV,
    ),
    "llama.cpp for embeddings": (
        LLAMA + 'wires = ["embeddings"]',
        llama("--embeddings", "--batch-size", "4096", "--ubatch-size", "4096"),
        {"LLAMA_API_KEY": "{{ RUNPOD_SECRET_vllm_m1 }}"},
    ),
    "llama.cpp for rerank": (
        LLAMA + 'wires = ["rerank"]',
        llama("--reranking", "--batch-size", "4096", "--ubatch-size", "4096"),
        {"LLAMA_API_KEY": "{{ RUNPOD_SECRET_vllm_m1 }}"},
    ),
}

MODEL = """
[models.m1]
model = "org/m1"
image = "vllm/vllm-openai:v0.31.0"
gpus = ["NVIDIA L40S", "NVIDIA A40"]
context = 4096
max_usd_per_hour = 5
{lines}
"""


def made(lines: str) -> dict[str, Any]:
    """What the provider holds of the machine that the daemon makes for this declaration."""
    held: dict[str, Any] = {}

    async def play(world: World) -> None:
        section = MODEL.format(lines=lines)
        if 'image = "ghcr' in lines:
            section = section.replace('image = "vllm/vllm-openai:v0.31.0"\n', "")
        world.emulator.put_volume({"id": "vol1", "name": "vol1", "size": 100, "dataCenter": "US-KS-2"})
        world.write(section)
        async with world.box() as box:
            await box.operators.start("m1", gateway="g", waiting=1)
            await world.until(lambda: bool(world.emulator.pods), within=60)
            (pod,) = world.emulator.pods.values()
            held.update(program=pod.entrypoint, words=pod.cmd, environment=dict(pod.env))

    scenario(play)
    return held


@pytest.mark.parametrize("case", DECLARED)
def test_a_declaration_gives_exactly_this_command_and_environment(case: str) -> None:
    lines, words, environment = DECLARED[case]
    held = made(lines)
    assert held["program"] == (["/app/llama-server"] if "llama_cpp" in lines else ["vllm"])
    assert held["words"] == words
    ours = {name: value for name, value in held["environment"].items() if not name.startswith("GPUWARDEN_")}
    assert ours == environment
