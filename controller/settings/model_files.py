"""What do a model's own files say about it, as far as they lie on this machine?

A folder as the hub has it, or its config.json alone. The weights need not be there: the index beside them knows their
size, and so does the pointer that a clone without them has in their place. Nothing here is trusted: files are bounded,
and what is not what it should be is told with its place. Links are followed, since the hub's cache is made of them.
"""

import json
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

from controller.settings import weights
from controller.settings.problems import ConfigProblems, Problem

CONFIG_NAME: Final = "config.json"
INDEX_NAME: Final = "model.safetensors.index.json"
CONFIG_BYTES_MAX: Final = 4 * 2**20
INDEX_BYTES_MAX: Final = 64 * 2**20
FILES_MAX: Final = 10_000
_POINTER_BYTES_MAX: Final = 1024
_POINTER: Final = re.compile(rb"version https://git-lfs\S+\n(?:[^\n]{1,200}\n)*?size (\d{1,15})\n")
_MEND: Final = "give the folder of the model's files, or its config.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFiles:
    place: Path
    config: object | None = None
    """Its config.json as parsed; None where the folder has none."""
    weights_bytes: int | None = None


def read_model_files(place: Path, *, gguf: bool, model_file: str | None = None) -> ModelFiles:
    """What a folder or a config.json tells. `gguf`: of the weights, that format counts. Raises ConfigProblems."""
    try:
        if not place.is_dir():
            return ModelFiles(place=place, config=_json(place, CONFIG_BYTES_MAX))
        names = {entry.name for entry in islice(os.scandir(place), FILES_MAX)}
        config = _json(place / CONFIG_NAME, CONFIG_BYTES_MAX) if CONFIG_NAME in names else None
        size = _sizes(place, weights.gguf(names, model_file=model_file)) if gguf else _safetensors(place, names)
    except OSError as error:
        raise _refused(Path(error.filename or place), (error.strerror or "cannot be read").lower()) from error
    return ModelFiles(place=place, config=config, weights_bytes=size)


def _safetensors(folder: Path, names: set[str]) -> int | None:
    if INDEX_NAME in names:
        index = _json(folder / INDEX_NAME, INDEX_BYTES_MAX)
        if (total := _total(index)) is not None:
            return total
    return _sizes(folder, weights.safetensors(names))


def _total(index: object) -> int | None:
    metadata: Any = index.get("metadata") if isinstance(index, Mapping) else None
    total = metadata.get("total_size") if isinstance(metadata, Mapping) else None
    return total if isinstance(total, int) and not isinstance(total, bool) and 0 < total < 10**15 else None


def _sizes(folder: Path, names: list[str]) -> int | None:
    return sum(_size(folder / name) for name in names) or None


def _size(path: Path) -> int:
    size = path.stat().st_size
    if size <= _POINTER_BYTES_MAX and (match := _POINTER.match(_bounded(path, _POINTER_BYTES_MAX))):
        return int(match[1])
    return size


def _json(path: Path, bytes_max: int) -> object:
    try:
        return json.loads(_bounded(path, bytes_max))
    except (ValueError, RecursionError) as error:
        raise _refused(path, "not JSON") from error


def _bounded(path: Path, bytes_max: int) -> bytes:
    # Non-blocking, so that a fifo cannot hang the check.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(descriptor, "rb") as opened:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _refused(path, "not a regular file")
        content = opened.read(bytes_max + 1)
    if len(content) > bytes_max:
        raise _refused(path, f"larger than {bytes_max} bytes")
    return content


def _refused(path: Path, why: str) -> ConfigProblems:
    return ConfigProblems([Problem(file=str(path), line=None, key="", value=None, why=why, mend=_MEND)])
