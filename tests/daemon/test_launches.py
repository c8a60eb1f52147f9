"""Does each key of a model's section reach the machine, its server or its probe?"""

from pathlib import Path
from typing import Any

import pytest

from controller.daemon.launches import Fleet, fleet
from controller.providers.runpod.order import Cloud, NetworkVolume
from controller.settings import ConfigProblems, load
from tests.daemon.world import write_config

VOLUMES = 'volumes = { "US-KS-2" = "v2", "EU-RO-1" = "v1" }'


def volume(place: str, name: str, path: str = "/data") -> NetworkVolume:
    return NetworkVolume(id=name, data_center=place, path=path)


def made(folder: Path, extra: str = "", **options: Any) -> Fleet:
    return fleet(load(write_config(folder, extra=extra), {}), **options)


@pytest.mark.parametrize(
    ("line", "attribute", "value"),
    [
        ("", "image", "vllm/vllm-openai:v0.31.0"),
        ("", "gpus", ("NVIDIA L40S", "NVIDIA A40")),
        ("", "key_secret", "vllm_qwen"),
        ('api_key_secret = "other"', "key_secret", "other"),
        ("disk_gb = 123", "disk_gb", 123),
        ("gpu_count = 2", "gpu_count", 2),
        ('cloud_type = "COMMUNITY"\n[runpod]\nallow_community = true', "cloud", Cloud.COMMUNITY),
        ('data_center_ids = ["EU-RO-1"]', "data_center_ids", ("EU-RO-1",)),
        (VOLUMES, "volumes", (volume("US-KS-2", "v2", "/workspace"), volume("EU-RO-1", "v1", "/workspace"))),
        (VOLUMES, "data_center_ids", ()),
        (f'{VOLUMES}\nvolume_mount_path = "/data"', "volumes", (volume("US-KS-2", "v2"), volume("EU-RO-1", "v1"))),
        (VOLUMES, "volume_disk_gb", 30),
        (VOLUMES, "disk_gb", 80),
        (f"{VOLUMES}\ndisk_gb = 50", "volume_disk_gb", 50),
        (f"{VOLUMES}\ndisk_gb = 50", "disk_gb", 80),
        (f"{VOLUMES}\ndisk_gb = 90", "disk_gb", 90),
        (f"{VOLUMES}\nmodel_size_gb = 100", "disk_gb", 160),
        (f"{VOLUMES}\nmodel_size_gb = 2000", "disk_gb", None),
        ('registry = "cred1"', "registry", "cred1"),
        ('min_cuda = "12.8"', "min_cuda", "12.8"),
        ('hf_token_secret = "hub"', "hub_token_secret", "hub"),
        ('environment = { A = "b" }', "environment", {"A": "b"}),
    ],
)
def test_a_key_reaches_the_machine(tmp_path: Path, line: str, attribute: str, value: object) -> None:
    assert getattr(made(tmp_path, line).ordered["qwen"], attribute) == value


@pytest.mark.parametrize(
    ("line", "argument", "value"),
    [
        ("", "--served-model-name", "Qwen/Qwen3-8B"),
        ('served_name = "q"', "--served-model-name", "q"),
        ("", "--max-model-len", "32768"),
        ("max_num_seqs = 5", "--max-num-seqs", "5"),
        ("gpu_util = 0.8", "--gpu-memory-utilization", "0.8"),
        ("gpu_count = 2", "--tensor-parallel-size", "2"),
        ("", "--default-chat-template-kwargs", '{"enable_thinking":false,"thinking":false}'),
        ('thinking = "on"', "--default-chat-template-kwargs", '{"enable_thinking":true,"thinking":true}'),
        ("sampling = { top_k = 3 }", "--override-generation-config", '{"top_k":3}'),
        ('tool_calling = "parsed"\ntool_call_parser = "hermes"', "--tool-call-parser", "hermes"),
        ("max_num_batched_tokens = 4096", "--max-num-batched-tokens", "4096"),
        ("long_prefill_token_threshold = 999", "--long-prefill-token-threshold", "999"),
        ('extra_args = ["--kv-cache-dtype", "fp8"]', "--kv-cache-dtype", "fp8"),
    ],
)
def test_a_key_reaches_vllm(tmp_path: Path, line: str, argument: str, value: str) -> None:
    argv = made(tmp_path, line).launches["qwen"].argv
    assert argv[argv.index(argument) + 1] == value


def test_effort_reaches_vllm(tmp_path: Path) -> None:
    argv = made(tmp_path, 'thinking = "on"\nreasoning_effort = "low"').launches["qwen"].argv
    assert '"reasoning_effort":"low"' in argv[argv.index("--default-chat-template-kwargs") + 1]


def test_secrets_reach_vllm_as_references_and_caches_a_volume(tmp_path: Path) -> None:
    lines = 'hf_token_secret = "hub"\nvolumes = { "EU-RO-1" = "v1" }\nvolume_mount_path = "/data"'
    launch = made(tmp_path, lines).launches["qwen"]
    assert launch.environment["VLLM_API_KEY"] == "{{ RUNPOD_SECRET_vllm_qwen }}"
    assert launch.environment["HF_TOKEN"] == "{{ RUNPOD_SECRET_hub }}"
    assert launch.beside_volume == {"HF_HOME": "/data/huggingface", "VLLM_CACHE_ROOT": "/data/vllm"}
    assert "HF_HOME" not in launch.environment


@pytest.mark.parametrize("server", ["vllm", "llama_cpp"])
def test_the_offers_of_the_policy_are_those_that_the_provider_can_be_asked_for(tmp_path: Path, server: str) -> None:
    settings = load(write_config(tmp_path, extra=f'{VOLUMES}\nserver = "{server}"'), {})
    machines = fleet(settings).ordered["qwen"].machines()
    assert settings.model_policies()["qwen"].offers == tuple(machines)
    assert next(iter(machines)) == "NVIDIA L40S @ US-KS-2"


def test_weights_too_large_for_any_disk_are_offered_beside_volumes_alone(tmp_path: Path) -> None:
    settings = load(write_config(tmp_path, extra=f"{VOLUMES}\nmodel_size_gb = 2000"), {})
    offers = settings.model_policies()["qwen"].offers
    assert offers == tuple(fleet(settings).ordered["qwen"].machines())
    assert all(" @ " in offer for offer in offers)


def test_llama_cpp_keeps_what_it_fetches_on_a_volume(tmp_path: Path) -> None:
    assert made(tmp_path, LLAMA + VOLUMES).launches["qwen"].beside_volume == {"LLAMA_CACHE": "/workspace/llama"}


LLAMA = 'server = "llama_cpp"\n'


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("", ("--alias", "Qwen/Qwen3-8B")),
        ('served_name = "q"', ("--alias", "q")),
        ("max_num_seqs = 5", ("--parallel", "5")),
        ('model_file = "a.gguf"', ("--hf-file", "a.gguf")),
        ('extra_args = ["--mlock"]', ("--mlock",)),
    ],
)
def test_a_key_reaches_llama_cpp(tmp_path: Path, line: str, told: tuple[str, ...]) -> None:
    argv = made(tmp_path, LLAMA + line).launches["qwen"].argv
    assert argv[argv.index(told[0]) :][: len(told)] == told


def test_tools_reach_llama_cpp(tmp_path: Path) -> None:
    without = made(tmp_path, LLAMA).launches["qwen"].argv
    assert set(made(tmp_path, LLAMA + 'tool_calling = "parsed"').launches["qwen"].argv) - set(without)


def test_the_probe_knows_server_reference_and_credential(tmp_path: Path) -> None:
    watched = made(tmp_path, LLAMA + 'probe_key_file = "keys/qwen"').watched["qwen"]
    assert (watched.server, watched.credential) == ("llama_cpp", "qwen-key")
    assert watched.secret_reference == "{{ RUNPOD_SECRET_vllm_qwen }}"


@pytest.mark.parametrize(
    ("image", "line", "asked"),
    [
        ("vllm/vllm-openai:v0.31.0", "", False),
        ("vllm/vllm-openai:latest", "allow_unpinned = true", True),
        ("vllm/vllm-openai@sha256:" + "0" * 64, "", True),
        ("acme/server:v1.2", "", True),
        ("acme/server:v1.2", 'server = "llama_cpp"', False),
    ],
)
def test_a_vllm_whose_image_does_not_say_its_version_is_asked_for_it(
    tmp_path: Path, image: str, line: str, asked: bool
) -> None:
    config = write_config(tmp_path, extra=line)
    config.write_text(config.read_text().replace("vllm/vllm-openai:v0.31.0", image))
    assert fleet(load(config, {})).watched["qwen"].ask_version is asked


def test_without_a_named_probe_key_the_daemon_holds_none(tmp_path: Path) -> None:
    assert made(tmp_path).watched["qwen"].credential is None


def test_a_probe_key_that_cannot_be_read_is_a_problem_only_where_probe_keys_are_used(tmp_path: Path) -> None:
    missing = 'probe_key_file = "keys/missing"'
    with pytest.raises(ConfigProblems):
        made(tmp_path, missing)
    assert made(tmp_path, missing, probe_keys=False).watched["qwen"].credential is None
