"""With which command does a machine serve a model with vLLM?

Typed values in, an argument list out: exec form, no shell, the operator's own arguments last. The key is never an
argument, since vLLM prints those and the provider shows them; it comes by environment, as a reference. Flags as of
vLLM 0.33.

With several cards, peer-to-peer copies and vLLM's own all-reduce are off: on rented machines both were seen to hang
for ever instead of failing, and the machine bills. A model that knows better sets them back.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from controller.upstreams.launch import BadLaunch, Effort, compact, template_values

PORT: Final = 8000
PREFILL_PIECE_TOKENS: Final = 2048
"""A longer prompt is computed in pieces of this, so that short ones get in between: vLLM's smallest default step."""

SAMPLING_WITHOUT_THINKING: Final = {"temperature": 0.7, "top_p": 0.8, "top_k": 20, "presence_penalty": 1.5}
KEY_ARGUMENTS: Final = ("--api-key", "--hf-token")
OLDEST: Final = (0, 22)
"""Older ones let a request with a forged Host header in without the key (CVE-2026-48746)."""
ADAPTER_RANK: Final = 16
ADAPTER_RANKS: Final = (8, 16, 32, 64, 128, 256, 320, 512)
"""vLLM takes these limits and no others, so that a rank between them gets the next one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmModel:
    """One model as vLLM is told of it. Raises BadLaunch for values that contradict each other."""

    repository: str
    served_name: str
    context: int
    max_num_seqs: int = 8
    gpu_memory_share: Decimal = Decimal("0.90")
    gpu_count: int = 1
    thinking: bool = False
    reasoning_effort: Effort | None = None
    sampling: Mapping[str, Any] | None = None
    tool_call_parser: str | None = None
    max_num_batched_tokens: int | None = None
    """None: the server's own, which is above any number of sequences we allow."""
    long_prefill_token_threshold: int | None = None
    reads_only: bool = False
    """It places or rates texts (embeddings, rerank) and writes none."""
    adapters: Mapping[str, str] = field(default_factory=dict)
    """LoRA: the name it is asked for by, to a repository on the hub or a path."""
    adapter_rank: int = ADAPTER_RANK
    custom_all_reduce: bool = False
    """Of several cards: leave vLLM's own all-reduce on."""
    extra_args: tuple[str, ...] = ()
    key_reference: str = field(default="", repr=False)
    """What the provider replaces with the server's key."""
    hub_token_reference: str | None = field(default=None, repr=False)
    volume_path: str | None = None
    """Where downloads and compiled kernels outlive the machine."""

    def __post_init__(self) -> None:
        if fault := next(_faults(self), None):
            raise BadLaunch(fault)


def argv(model: VllmModel) -> tuple[str, ...]:
    """The whole command, which replaces whatever the image would start (requirements, App. E)."""
    return (
        *("vllm", "serve", model.repository),
        *("--host", "0.0.0.0", "--port", str(PORT)),  # noqa: S104 - in its container; the key guards it
        *("--served-model-name", model.served_name),
        *("--max-model-len", str(model.context)),
        *("--max-num-seqs", str(model.max_num_seqs)),
        *("--gpu-memory-utilization", str(model.gpu_memory_share)),
        *(_reading(model) if model.reads_only else _writing(model)),
        *_adapters(model),
        *_cards(model),
        *model.extra_args,
    )


def environment(model: VllmModel) -> dict[str, str]:
    """What the server reads from its environment; secrets as references only."""
    variables = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    if model.key_reference:
        variables["VLLM_API_KEY"] = model.key_reference
    if model.hub_token_reference:
        # Downloads without one were measured two and a half times slower (646 s against 1646 s).
        variables["HF_TOKEN"] = model.hub_token_reference
    if model.volume_path:
        variables["HF_HOME"] = f"{model.volume_path}/huggingface"
        variables["VLLM_CACHE_ROOT"] = f"{model.volume_path}/vllm"
    if model.gpu_count > 1:
        variables |= {"NCCL_P2P_DISABLE": "1", "NCCL_DEBUG": "INFO"}
    return variables


def _reading(model: VllmModel) -> tuple[str, ...]:
    """What the model is converted to follows from its architecture. Prompts are not cut into pieces: a model that
    reads in both directions has to see all of one at once."""
    batch = model.max_num_batched_tokens
    return ("--runner", "pooling", *(() if batch is None else ("--max-num-batched-tokens", str(batch))))


def _writing(model: VllmModel) -> tuple[str, ...]:
    return (
        *("--generation-config", "vllm"),
        *("--default-chat-template-kwargs", compact(template_values(model.reasoning_effort, thinking=model.thinking))),
        *_sampling(model),
        "--enable-prompt-tokens-details",
        *_tools(model),
        *_batches(model),
    )


def _sampling(model: VllmModel) -> tuple[str, ...]:
    values = model.sampling
    if values is None and not model.thinking:
        values = SAMPLING_WITHOUT_THINKING
    return () if values is None else ("--override-generation-config", compact(values))


def _tools(model: VllmModel) -> tuple[str, ...]:
    if model.tool_call_parser is None:
        return ()
    return ("--enable-auto-tool-choice", "--tool-call-parser", model.tool_call_parser)


def _batches(model: VllmModel) -> tuple[str, ...]:
    piece = model.long_prefill_token_threshold or min(PREFILL_PIECE_TOKENS, model.context)
    words = ("--long-prefill-token-threshold", str(piece))
    if model.max_num_batched_tokens is None:
        return words
    return (*words, "--max-num-batched-tokens", str(model.max_num_batched_tokens))


def _adapters(model: VllmModel) -> tuple[str, ...]:
    if not model.adapters:
        return ()
    rank = next(limit for limit in ADAPTER_RANKS if limit >= model.adapter_rank)
    return (
        "--enable-lora",
        # Requests of that many adapters are computed together; with the default of one, the others wait for it.
        *("--max-loras", str(min(len(model.adapters), model.max_num_seqs))),
        *("--max-lora-rank", str(rank)),
        *("--lora-modules", *(f"{name}={place}" for name, place in model.adapters.items())),
    )


def _cards(model: VllmModel) -> tuple[str, ...]:
    if model.gpu_count == 1:
        return ()
    words = ("--tensor-parallel-size", str(model.gpu_count))
    return words if model.custom_all_reduce else (*words, "--disable-custom-all-reduce")


def _faults(model: VllmModel) -> Iterator[str]:
    # Written positively: a NaN is in no range.
    if not (model.gpu_memory_share.is_finite() and Decimal("0.1") <= model.gpu_memory_share <= 1):
        yield "gpu_memory_share is outside 0.1 to 1.0"
    if min(model.context, model.max_num_seqs, model.gpu_count) < 1:
        yield "context, max_num_seqs and gpu_count are at least 1"
    if model.max_num_batched_tokens is not None and model.max_num_batched_tokens < model.max_num_seqs:
        yield "max_num_batched_tokens is less than max_num_seqs"
    if model.long_prefill_token_threshold is not None and not (
        1 <= model.long_prefill_token_threshold <= model.context
    ):
        yield "long_prefill_token_threshold is not within 1 and context"
    if not 1 <= model.adapter_rank <= ADAPTER_RANKS[-1]:
        yield "adapter_rank is not within 1 and 512"
    if any(set(",= ") & set(f"{name}{place}") for name, place in model.adapters.items()):
        yield "an adapter's name or place has a sign that parts one from the other"
    if any(word.partition("=")[0] in KEY_ARGUMENTS for word in model.extra_args):
        yield "extra_args holds a key, which everybody can read there"
