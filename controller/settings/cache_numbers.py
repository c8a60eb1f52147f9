"""How many bytes does the model server keep for one number of its cache?

It follows from the model's own type and from the operator's arguments for the server. Arguments that change what is
kept in ways that are not counted here make the size unknown, as an architecture does that is not known: a wrong "it
fits" is paid for.
"""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import zip_longest
from typing import Final, TypeVar

from controller.core.architecture import Architecture
from controller.core.layers import CannotSize
from controller.settings.models import ModelSection

N = TypeVar("N")

_VLLM_CACHE: Final = {"bfloat16": 2, "float16": 2, "half": 2, "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1, "fp8_inc": 1}
_VLLM_MODEL: Final = {"bfloat16": 2, "float16": 2, "half": 2, "float32": 4, "float": 4}
_VLLM_UNSETTLING: Final = (
    "--config", "--cpu-offload-gb", "--data-parallel-size", "--decode-context-parallel-size",
    "--disable-hybrid-kv-cache-manager", "--gpu-memory-utilization", "--hf-overrides", "--kv-cache-memory-bytes",
    "--max-model-len", "--max-num-batched-tokens", "--max-num-seqs", "--num-gpu-blocks-override",
    "--pipeline-parallel-size", "--prefill-context-parallel-size", "--tensor-parallel-size", "-dcp", "-dp", "-pp",
    "-tp",
)  # fmt: skip
_LLAMA_CACHE: Final = {
    "f32": Fraction(4),
    "f16": Fraction(2),
    "bf16": Fraction(2),
    # Blocks of 32 numbers with their scale.
    "q8_0": Fraction(34, 32),
    "q5_1": Fraction(24, 32),
    "q5_0": Fraction(22, 32),
    "q4_1": Fraction(20, 32),
    "q4_0": Fraction(18, 32),
    "iq4_nl": Fraction(18, 32),
}
_LLAMA_UNSETTLING: Final = (
    "--cpu-moe", "--ctx-size", "--gpu-layers", "--mmproj", "--mmproj-url", "--model-draft", "--n-cpu-moe",
    "--n-gpu-layers", "--no-kv-offload", "--override-tensor", "--parallel", "--swa-full", "-c", "-cmoe", "-hfd", "-md",
    "-mm", "-mmu", "-ncmoe", "-ngl", "-nkvo", "-np", "-ot",
)  # fmt: skip


def number_bytes(section: ModelSection, architecture: Architecture) -> Fraction:
    """Raises CannotSize."""
    if section.server == "llama_cpp":
        return _llama_cpp(section, architecture)
    return _vllm(section, architecture)


def _vllm(section: ModelSection, architecture: Architecture) -> Fraction:
    _require_settled(section, _VLLM_UNSETTLING)
    if any(one.latent for one in architecture.attention) and "VLLM_MLA_DISABLE" in section.environment:
        raise CannotSize("environment sets VLLM_MLA_DISABLE, and what is kept then is not known")
    said = _said(section.extra_args, "--kv-cache-dtype")
    if said in (None, "auto"):
        model = _said(section.extra_args, "--dtype")
        if model in (None, "auto"):
            return Fraction(architecture.element_bytes)
        return Fraction(_known(_VLLM_MODEL, "--dtype", model))
    return Fraction(_known(_VLLM_CACHE, "--kv-cache-dtype", said))


def _llama_cpp(section: ModelSection, architecture: Architecture) -> Fraction:
    _require_settled(section, _LLAMA_UNSETTLING)
    if architecture.recurrent or any(one.latent for one in architecture.attention):
        raise CannotSize(f"what llama.cpp keeps for {architecture.model_type} is not known")
    key = _said(section.extra_args, "--cache-type-k", "-ctk") or "f16"
    value = _said(section.extra_args, "--cache-type-v", "-ctv") or "f16"
    # Keys and values are as many.
    return (_known(_LLAMA_CACHE, "--cache-type-k", key) + _known(_LLAMA_CACHE, "--cache-type-v", value)) / 2


def _known(table: Mapping[str, N], name: str, word: str | None) -> N:
    if word is None or word not in table:
        raise CannotSize(f"extra_args sets {name} to what is not known here")
    return table[word]


def _require_settled(section: ModelSection, unsettling: Sequence[str]) -> None:
    for name, _ in _options(section.extra_args):
        if name in unsettling or name.startswith("--speculative") or name in ("-sc", "--spec-model"):
            raise CannotSize(f"extra_args sets {name}, and what is kept then is not known")


def _said(arguments: Sequence[str], *names: str) -> str | None:
    """The last value given to an option of these names."""
    found = [value for name, value in _options(arguments) if name in names]
    return found[-1] if found else None


def _options(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each option with its value, whether joined by = or behind it; vLLM takes _ for - in names."""
    for argument, after in zip_longest(arguments, arguments[1:], fillvalue=""):
        if argument.startswith("-"):
            name, joined, value = argument.partition("=")
            yield name.replace("_", "-"), value if joined else after
