"""With which command does a machine serve a model with llama.cpp's server?

The context given to the server is a pool that its slots share, so it is one request's context times the slots. Key,
cache and hub token come by environment, never as arguments. Flags as of b11434; the port is always said, since its
default is about to change. Whether the model thinks is said in both ways: builds from b8322 on take it from their
environment and pass over the template's values, older ones the other way round.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from controller.upstreams.launch import BadLaunch, Effort, compact, template_values

PORT: Final = 8000
PROGRAM: Final = "/app/llama-server"
"""The official image's own entrypoint, by its path: the directory is not on the image's PATH."""
KEY_ARGUMENTS: Final = ("--api-key", "--api-key-file", "-hft", "--hf-token")
SAMPLING: Final = {
    "temperature": "--temp",
    "top_p": "--top-p",
    "top_k": "--top-k",
    "min_p": "--min-p",
    "presence_penalty": "--presence-penalty",
    "frequency_penalty": "--frequency-penalty",
    "repetition_penalty": "--repeat-penalty",
    "max_new_tokens": "--n-predict",
}
"""By the names that vLLM and the hub's own files use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaCppModel:
    """One model as llama.cpp is told of it. Raises BadLaunch for values that cannot be."""

    repository: str
    """On the hub, with an optional `:quant`."""
    served_name: str
    context: int
    """Of one request."""
    slots: int = 8
    file: str | None = None
    """The GGUF file in the repository; None: the server chooses by the quant."""
    tools: bool = False
    thinking: bool = False
    reasoning_effort: Effort | None = None
    sampling: Mapping[str, Any] | None = None
    embeddings: bool = False
    reranking: bool = False
    adapters: Mapping[str, str] = field(default_factory=dict)
    """LoRA: name to a GGUF file on the machine. A request chooses by the place in this order."""
    extra_args: tuple[str, ...] = ()
    key_reference: str = field(default="", repr=False)
    hub_token_reference: str | None = field(default=None, repr=False)
    volume_path: str | None = None

    def __post_init__(self) -> None:
        if fault := next(_faults(self), None):
            raise BadLaunch(fault)


def argv(model: LlamaCppModel) -> tuple[str, ...]:
    """The whole command, which replaces whatever the image would start (MS-10)."""
    return (
        *(PROGRAM, "--hf-repo", model.repository),
        *(() if model.file is None else ("--hf-file", model.file)),
        *("--host", "0.0.0.0", "--port", str(PORT)),  # noqa: S104 - in its container; the key guards it
        *("--alias", model.served_name),
        *("--ctx-size", str(model.context * model.slots)),
        *("--parallel", str(model.slots)),
        "--metrics",
        *(_reading(model) if _reads_only(model) else _writing(model)),
        *_adapters(model),
        *model.extra_args,
    )


def environment(model: LlamaCppModel) -> dict[str, str]:
    """What the server reads from its environment; secrets as references only."""
    variables: dict[str, str] = {}
    if model.key_reference:
        variables["LLAMA_API_KEY"] = model.key_reference
    if model.hub_token_reference:
        variables["HF_TOKEN"] = model.hub_token_reference
    if model.volume_path:
        variables["LLAMA_CACHE"] = f"{model.volume_path}/llama"
    if not _reads_only(model):
        variables["LLAMA_ARG_REASONING"] = "on" if model.thinking else "off"
    return variables


def _reads_only(model: LlamaCppModel) -> bool:
    return model.embeddings or model.reranking


def _reading(model: LlamaCppModel) -> tuple[str, ...]:
    # A text is read in one batch: by default those of more than 512 tokens are refused.
    batch = str(model.context)
    kind = "--embeddings" if model.embeddings else "--reranking"
    return (kind, "--batch-size", batch, "--ubatch-size", batch)


def _writing(model: LlamaCppModel) -> tuple[str, ...]:
    values = template_values(model.reasoning_effort, thinking=model.thinking)
    # Older builds take the values only with it.
    templated = model.tools or model.thinking or model.reasoning_effort is not None
    return (
        *(("--jinja",) if templated else ()),
        *("--chat-template-kwargs", compact(values)),
        *(word for name, value in (model.sampling or {}).items() for word in (SAMPLING[name], str(value))),
    )


def _adapters(model: LlamaCppModel) -> tuple[str, ...]:
    """Loaded, and used by those requests only that ask for one."""
    if not model.adapters:
        return ()
    return ("--lora", ",".join(model.adapters.values()), "--lora-init-without-apply")


def _faults(model: LlamaCppModel) -> Iterator[str]:
    if min(model.context, model.slots) < 1:
        yield "context and slots are at least 1"
    if model.embeddings and model.reranking:
        yield "a server that rates texts does not place them"
    if any(name not in SAMPLING or not _is_number(value) for name, value in (model.sampling or {}).items()):
        yield "sampling holds what is no number of a name that llama.cpp takes"
    if any("," in place for place in model.adapters.values()):
        yield "an adapter's place has a sign that parts one from the other"
    if any(word.partition("=")[0] in KEY_ARGUMENTS for word in model.extra_args):
        yield "extra_args holds a key, which everybody can read there"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)
