"""Which keys of a model contradict each other?

Rules that need two keys, or the alias beside them: each names the key to change, so that all of a model's faults are
told at once. What a single value may be is said where the key is.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel

from controller.settings.batch_arguments import broken
from controller.settings.models import WRITES, ModelSection
from controller.settings.sizes import DISK_SPARE_GB, container_disk_gb, disk_fits

ALIAS_SHAPE: Final = re.compile(r"[a-z0-9_.][a-z0-9_.-]{0,63}", re.ASCII)
VLLM_OLDEST: Final = (0, 22)
"""Older ones let a request with a forged Host header in without the key (CVE-2026-48746)."""

_SECRET_VARIABLE: Final = re.compile(r"(?:^|_)(?:KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS?)$", re.ASCII)
_RESERVED_VARIABLE: Final = re.compile(r"(?:RUNPOD|GPUWARDEN)_", re.ASCII)
_REFERENCE: Final = re.compile(r"\{\{ RUNPOD_SECRET_[A-Za-z0-9_]+ \}\}", re.ASCII)
_OWN_VARIABLES: Final = {
    "VLLM_API_KEY": "api_key_secret",
    "LLAMA_API_KEY": "api_key_secret",
    "HF_TOKEN": "hf_token_secret",
}
_OWN_ARGUMENTS: Final = (
    "--api-key", "--api-key-file", "--hf-token", "--host", "--port", "--served-model-name", "--alias", "-a", "-hft",
)  # fmt: skip
HUB_NAME: Final = re.compile(r"[A-Za-z0-9._-]+/[A-Za-z0-9._-]+", re.ASCII)
LLAMA_SAMPLING: Final = (
    "temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty",
    "max_new_tokens",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """Two values that cannot both hold; `key` is the one to change."""

    key: str
    value: object
    why: str
    mend: str


def contradictions(alias: str, section: ModelSection) -> Iterator[Contradiction]:
    yield from _alias(alias)
    yield from _image(section)
    yield from _disk(section)
    yield from _server(section)
    yield from _wires(section)
    yield from _adapters(section)
    yield from _arguments(section)
    yield from _environment(section)
    yield from _places(section)
    yield from keys_twice(section, "key", "probe_key")


def keys_twice(section: BaseModel, *stems: str) -> Iterator[Contradiction]:
    """A secret that is named both as a credential and as a file."""
    for stem in stems:
        if getattr(section, f"{stem}_credential") and getattr(section, f"{stem}_file"):
            yield Contradiction(
                key=f"{stem}_file", value=None, why=f"{stem}_credential is given too", mend="keep one of the two"
            )


def _alias(alias: str) -> Iterator[Contradiction]:
    if not ALIAS_SHAPE.fullmatch(alias) or set(alias) == {"."}:
        yield Contradiction(
            key="", value=alias, why="not an alias", mend="use 1 to 64 of a-z, 0-9, - _ and ., no dash first"
        )
    elif alias == "runpod":
        yield Contradiction(key="", value=alias, why="keys/runpod is the account's key", mend="choose another alias")


def _image(section: ModelSection) -> Iterator[Contradiction]:
    _, tag, digest = _image_parts(section.image)
    if tag in ("", "latest") and not digest and not section.allow_unpinned:
        yield Contradiction(
            key="image",
            value=section.image,
            why="the image is not pinned: what runs could change with each start",
            mend='add a version tag, as in ":v0.31.0", or a digest; or set allow_unpinned = true',
        )
    version = vllm_version(section)
    if section.server == "vllm" and version is not None and version < VLLM_OLDEST:
        yield Contradiction(
            key="image",
            value=section.image,
            why="vLLM before 0.22 can be used without its key on a public address (CVE-2026-48746)",
            mend="use v0.22.0 or newer",
        )


def vllm_version(section: ModelSection) -> tuple[int, int] | None:
    """As the image's tag says it; None: it does not, and what runs is known only once it runs."""
    repository, tag, _ = _image_parts(section.image)
    version = re.search(r"(?:^|[-_])v?(\d{1,4})\.(\d{1,4})", tag, re.ASCII)
    return (int(version[1]), int(version[2])) if version and "vllm" in repository else None


def _image_parts(image: str) -> tuple[str, str, str]:
    """Repository, tag and digest; empty where there is none."""
    name, _, digest = image.partition("@")
    repository, _, tag = name.rpartition(":") if ":" in name.rpartition("/")[2] else (name, "", "")
    return repository, tag, digest


def _disk(section: ModelSection) -> Iterator[Contradiction]:
    if section.model_size_gb is None or section.volumes:
        return
    if section.disk_gb is None and container_disk_gb(section.model_size_gb, on_volume=False) is None:
        yield Contradiction(
            key="model_size_gb",
            value=section.model_size_gb,
            why="needs a larger container disk than 2000 GB",
            mend="put the weights on a network volume (volumes)",
        )
    if section.disk_gb is not None and not disk_fits(section.disk_gb, section.model_size_gb):
        yield Contradiction(
            key="disk_gb",
            value=section.disk_gb,
            why=f"too small for weights of {section.model_size_gb} GB",
            mend=f"at least model_size_gb + {DISK_SPARE_GB}; or leave it out",
        )


def _server(section: ModelSection) -> Iterator[Contradiction]:
    vllm = section.server == "vllm"
    parsed = section.tool_calling == "parsed"
    if vllm and parsed and section.tool_call_parser is None:
        yield Contradiction(
            key="tool_calling", value="parsed", why="vLLM needs to know how", mend='add tool_call_parser = "…"'
        )
    if section.tool_call_parser is not None and not (vllm and parsed):
        yield Contradiction(
            key="tool_call_parser",
            value=section.tool_call_parser,
            why='only for vLLM with tool_calling = "parsed"',
            mend='set tool_calling = "parsed", or remove it',
        )
    for key in ("model_file", "merge_system"):
        if vllm and (value := getattr(section, key)):
            yield Contradiction(key=key, value=value, why="only for llama_cpp", mend="remove it")
    if not vllm:
        yield from _llama_cpp(section)
    if section.custom_all_reduce and section.gpu_count == 1:
        yield Contradiction(key="custom_all_reduce", value=True, why="only for several cards", mend="remove it")
    yield from _batches(section)


def _llama_cpp(section: ModelSection) -> Iterator[Contradiction]:
    """What llama.cpp would not be told of."""
    for key in sorted(section.model_fields_set & {"gpu_util", "custom_all_reduce", "adapter_rank"}):
        yield Contradiction(key=key, value=getattr(section, key), why="only for vLLM", mend="remove it")
    for name, value in (section.sampling or {}).items():
        if name not in LLAMA_SAMPLING or isinstance(value, bool) or not isinstance(value, int | float):
            yield Contradiction(
                key="sampling",
                value=name,
                why="not a number of a name that llama.cpp is told",
                mend=f"write numbers of {', '.join(LLAMA_SAMPLING)}",
            )


def _wires(section: ModelSection) -> Iterator[Contradiction]:
    if not section.reads_only:
        return
    if not set(section.wires).isdisjoint(WRITES):
        yield Contradiction(
            key="wires",
            value=", ".join(section.wires),
            why="a server that serves embeddings or rerank writes no texts",
            mend="declare two models",
        )
    if section.server == "llama_cpp" and len(section.wires) > 1:
        yield Contradiction(
            key="wires", value=", ".join(section.wires), why="llama.cpp serves one of these", mend="declare two models"
        )
    told = {"stream_plain", "thinking", "reasoning_effort", "sampling", "tool_calling", "long_prefill_token_threshold"}
    for key in sorted(section.model_fields_set & told):
        value = getattr(section, key)
        if value is not None and value != type(section).model_fields[key].default:
            yield Contradiction(
                key=key,
                value=value,
                why="only for models that write, and this one has embeddings or rerank as its wires",
                mend="remove it",
            )


def _adapters(section: ModelSection) -> Iterator[Contradiction]:
    if section.adapter_rank is not None and not section.adapters:
        yield Contradiction(
            key="adapter_rank", value=section.adapter_rank, why="there are no adapters", mend="remove it, or add some"
        )
    for name, place in section.adapters.items():
        if section.server == "llama_cpp" and not (place.startswith("/") and place.endswith(".gguf")):
            yield Contradiction(
                key="adapters",
                value=place,
                why="llama.cpp loads adapters from files alone",
                mend="put it on a volume, and write its path, as in /workspace/adapters/sql.gguf",
            )
        elif not place.startswith("/") and not HUB_NAME.fullmatch(place):
            yield Contradiction(
                key="adapters",
                value=place,
                why="neither a repository nor a path",
                mend="write org/repository, or an absolute path on a volume",
            )
        if name == (section.served_name or section.model):
            yield Contradiction(
                key="adapters", value=name, why="the model itself is served by this name", mend="choose another name"
            )


def _batches(section: ModelSection) -> Iterator[Contradiction]:
    batch, prefill = section.max_num_batched_tokens, section.long_prefill_token_threshold
    for key, value in (("max_num_batched_tokens", batch), ("long_prefill_token_threshold", prefill)):
        if value is not None and section.server != "vllm":
            yield Contradiction(key=key, value=value, why="only for vLLM", mend="remove it")
    if batch is not None and batch < section.max_num_seqs:
        yield Contradiction(
            key="max_num_batched_tokens", value=batch, why="less than max_num_seqs", mend="raise it, or remove it"
        )
    if prefill is not None and prefill > section.context:
        yield Contradiction(
            key="long_prefill_token_threshold", value=prefill, why="more than context", mend="lower it, or remove it"
        )


def _arguments(section: ModelSection) -> Iterator[Contradiction]:
    for argument in section.extra_args:
        name = argument.partition("=")[0]
        if _is_own(name.replace("_", "-")):
            yield Contradiction(
                key="extra_args",
                value=name,
                why="set by gpuwarden, or a secret on a command line that everybody can read",
                mend=f"remove {name}",
            )
    for found in broken(section) if section.server == "vllm" else ():
        yield Contradiction(key="extra_args", value=found.argument, why=found.why, mend=found.mend)


def _is_own(name: str) -> bool:
    """By its name or the begin of it: vLLM takes _ for -, and an option for one that begins so."""
    return name in _OWN_ARGUMENTS or (
        len(name) > len("--") and name.startswith("--") and any(own.startswith(name) for own in _OWN_ARGUMENTS)
    )


def _environment(section: ModelSection) -> Iterator[Contradiction]:
    for name, value in section.environment.items():
        if _RESERVED_VARIABLE.match(name):
            yield Contradiction(
                key="environment", value=name, why="a mark of the provider's or our own", mend=f"remove {name}"
            )
        elif name in _OWN_VARIABLES:
            yield Contradiction(
                key="environment",
                value=name,
                why="set by gpuwarden, and the gateway would not know this one",
                mend=f"remove {name}; {_OWN_VARIABLES[name]} names the secret",
            )
        elif _SECRET_VARIABLE.search(name) and not _REFERENCE.fullmatch(value):
            yield Contradiction(
                key="environment",
                value=name,
                why="its name says that it is a secret, and the provider shows it",
                mend="store it at the provider and write {{ RUNPOD_SECRET_name }}",
            )


def _places(section: ModelSection) -> Iterator[Contradiction]:
    if section.data_center_ids and (stray := sorted(set(section.volumes) - set(section.data_center_ids))):
        yield Contradiction(
            key="volumes", value=stray[0], why="lies in a data centre that data_center_ids leaves out", mend="add it"
        )
