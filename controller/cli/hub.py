"""What does the hub say of a model's repository, asked without a key?

Only when an operator asks for it: nothing that runs depends on the hub. One call a model, bounded in time and size,
no redirect followed. Its list of files gives the size of what will be fetched; whether it is gated, or not there for
somebody without a token, is told too. An answer that is none of these is unknown with its reason.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import anyio

from controller.settings import weights
from controller.settings.hub_sizes import SIZE_MOST
from controller.settings.model_rules import HUB_NAME
from controller.settings.models import ModelSection
from controller.transport import MIB, CallLimits, Http, TransportError

LIMITS: Final = CallLimits(whole=timedelta(seconds=20), body_bytes=16 * MIB)
CALLS_AT_ONCE: Final = 4
FILES_MAX: Final = 10_000
USER_AGENT: Final = "gpuwarden"


@dataclass(frozen=True, slots=True)
class Listed:
    """`size_bytes` None: which of its files are the weights, or how large they are, cannot be told."""

    size_bytes: int | None
    gated: bool


@dataclass(frozen=True, slots=True)
class Hidden:
    """There is no such repository for somebody without a token."""


@dataclass(frozen=True, slots=True)
class Unknown:
    why: str


Said = Listed | Hidden | Unknown


async def ask_hub(address: str, models: Mapping[str, ModelSection]) -> dict[str, Said]:
    """By alias. Never raises for what the hub does."""
    said: dict[str, Said] = {}
    limiter = anyio.CapacityLimiter(CALLS_AT_ONCE)

    async with Http(address, user_agent=USER_AGENT, limits=LIMITS) as http:

        async def ask(alias: str, section: ModelSection) -> None:
            async with limiter:
                said[alias] = await _ask(http, section)

        async with anyio.create_task_group() as group:
            for alias, section in models.items():
                group.start_soon(ask, alias, section)
    return said


async def _ask(http: Http, section: ModelSection) -> Said:
    repository, quant = _named(section)
    if not HUB_NAME.fullmatch(repository) or any(set(part) <= {"."} for part in repository.split("/")):
        return Unknown(f"{repository!r} is no repository's name")
    try:
        answer = await http.call("GET", f"/api/models/{repository}?blobs=true")
    except TransportError as error:
        return Unknown(str(error))
    if answer.code in {401, 403, 404}:
        return Hidden()
    if 300 <= answer.code < 400:
        return Unknown("it has moved: write its new name")
    if answer.code != 200:
        return Unknown(f"it answered {answer.code}")
    try:
        found = json.loads(answer.body)
    except (ValueError, RecursionError):
        return Unknown("its answer is no JSON")
    return read_listing(found, section, quant=quant)


def read_listing(found: object, section: ModelSection, *, quant: str | None = None) -> Said:
    """What a repository's description says. `Unknown` for what is none."""
    siblings = found.get("siblings") if isinstance(found, dict) else None
    if not isinstance(found, dict) or not isinstance(siblings, list):
        return Unknown("its answer lists no files")
    if len(siblings) > FILES_MAX:
        return Unknown(f"it lists more than {FILES_MAX} files")
    sizes = {file["rfilename"]: _size(file) for file in siblings if _is_file(file)}
    if section.server == "llama_cpp":
        chosen = weights.gguf(sizes, model_file=section.model_file, quant=quant)
    else:
        chosen = weights.safetensors(sizes)
    known = [size for name in chosen if (size := sizes[name]) is not None]
    total = sum(known) if chosen and len(known) == len(chosen) else None
    if total is not None and not 0 < total < SIZE_MOST:
        total = None
    return Listed(size_bytes=total, gated=found.get("gated") not in (False, None))


def _named(section: ModelSection) -> tuple[str, str | None]:
    """llama.cpp takes the quant behind the repository's name."""
    repository, colon, quant = section.model.partition(":")
    return (repository, quant if colon else None) if section.server == "llama_cpp" else (section.model, None)


def _is_file(file: object) -> bool:
    return isinstance(file, dict) and isinstance(file.get("rfilename"), str)


def _size(file: Mapping[str, Any]) -> int | None:
    """A large file's own size; what lies in its place in the repository is a pointer."""
    large = file.get("lfs")
    size = large.get("size") if isinstance(large, dict) else file.get("size")
    return size if isinstance(size, int) and not isinstance(size, bool) and size >= 0 else None
