"""Is a server's death named by what its log says, in words of ours and in no others?"""

import re

import pytest

from controller.core.diagnosis import OF_CONFIG, SAYS, WORDS, Cause, cause_in, of_config, told

SEEN = [
    (
        Cause.OUT_OF_MEMORY,
        "(EngineCore pid=9) ERROR torch.OutOfMemoryError: CUDA out of memory. Tried to",
    ),
    (Cause.OUT_OF_MEMORY, "ggml_backend_cuda_buffer_type_alloc_buffer: allocating: cudaMalloc failed: out of memory"),
    (Cause.CACHE_TOO_SMALL, "ValueError: No available memory for the cache blocks. Try increasing it"),
    (
        Cause.CACHE_TOO_SMALL,
        "To serve at least one request with the model's max seq len (32768), (4.0 GiB KV cache is needed, which is"
        " larger than the available KV cache memory (1.2 GiB).",
    ),
    (Cause.BAD_FLAG, "vllm serve: error: unrecognized arguments: --frobnicate"),
    (Cause.BAD_FLAG, "vllm serve: error: argument --max-num-seqs: invalid int value: 'x'"),
    (Cause.BAD_FLAG, "error: invalid argument: --frobnicate"),
    (Cause.GATED, "OSError: You are trying to access a gated repo."),
    (Cause.GATED, "401 Client Error: Unauthorized for url: https://huggingface.co/x/resolve/main/config.json"),
    (Cause.GATED, "403 Client Error. Access to model meta/x is restricted and you are not in the authorized list."),
    (Cause.UNKNOWN_ARCHITECTURE, "has model type `foobar` but Transformers does not recognize this architecture."),
    (Cause.DISK_FULL, "OSError: [Errno 28] No space left on device"),
    (Cause.WRONG_CUDA, "RuntimeError: The NVIDIA driver on your system is too old (found version 12040)."),
    (Cause.WRONG_CUDA, "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8"),
    (
        Cause.CARD_IN_USE,
        "Free memory on device (3/44 GiB) on startup is less than desired GPU memory utilization",
    ),
    (Cause.NO_DOWNLOAD, "LocalEntryNotFoundError: Cannot find an appropriate cached snapshot folder"),
]


@pytest.mark.parametrize(("cause", "line"), SEEN)
def test_each_cause_is_known_by_the_words_that_servers_write(cause: Cause, line: str) -> None:
    assert cause_in(["INFO Starting to load model", line, "RuntimeError: Engine core initialization failed."]) is cause


def test_every_cause_has_words_and_a_text() -> None:
    assert set(WORDS) == set(SAYS) == set(Cause)
    assert {cause for cause, _ in SEEN} == set(Cause)


@pytest.mark.parametrize(
    "line",
    [
        "INFO non-default args: {'gpu_memory_utilization': 0.9}",
        "INFO GPU KV cache size: 120,000 tokens",
        "WARNING Found ulimit of 20000 and failed to automatically increase",
        'INFO: 127.0.0.1 - "POST /v1/models HTTP/1.1" 401 Unauthorized',
        "INFO Free memory on device cuda:0",
        "",
    ],
)
def test_what_a_healthy_server_writes_is_no_cause(line: str) -> None:
    assert cause_in([line]) is None


def test_the_latest_death_counts() -> None:
    first, second = SEEN[4][1], SEEN[0][1]
    assert cause_in([first, "restarted", second, "more"]) is Cause.OUT_OF_MEMORY
    assert cause_in([second, "restarted", first, "more"]) is Cause.BAD_FLAG
    assert cause_in([]) is None


def test_a_very_long_line_is_read_in_a_moment_and_not_to_its_end() -> None:
    assert cause_in(["Free memory on device " * 100_000]) is None
    assert cause_in(["x" * 2000 + "CUDA out of memory"]) is None
    assert cause_in(["x" * 1982 + "CUDA out of memory"]) is Cause.OUT_OF_MEMORY


def test_what_is_told_is_our_own_text() -> None:
    assert told("crash-loop", "bad-flag") == (
        "crash-loop: the model server does not know one of its arguments (bad-flag)"
    )
    assert told("crash-loop", None) == told("crash-loop", "a newer daemon's word") == "crash-loop"


@pytest.mark.parametrize("cause", Cause)
def test_only_a_config_at_fault_waits_for_another_config(cause: Cause) -> None:
    host = {Cause.WRONG_CUDA, Cause.CARD_IN_USE, Cause.NO_DOWNLOAD}
    assert of_config(cause.value) is (cause not in host) is (cause in OF_CONFIG)
    assert not of_config(None)


def test_no_pattern_can_run_away() -> None:
    assert not [words for words in WORDS.values() if re.search(r"[.][*+]", words)]
