"""Which files of a repository are the weights that a model server fetches?

By their names alone, wherever they are listed: in a folder on this machine, or by the hub. What cannot be told is
empty, never a guess: a disk too small for the weights is noticed after the download was paid for.
"""

import re
from collections.abc import Iterable
from typing import Final

_USUAL: Final = re.compile(r"model(-\d{5}-of-\d{5})?\.safetensors", re.ASCII)
_OLDER: Final = re.compile(r"pytorch_model(-\d{5}-of-\d{5})?\.bin", re.ASCII)
_PART: Final = re.compile(r"(.+)-\d{5}-of-\d{5}\.gguf", re.ASCII)
_USUAL_QUANT: Final = "Q4_K_M"
"""What llama.cpp takes where nobody names one."""


def safetensors(names: Iterable[str]) -> list[str]:
    """Some repositories have the same weights again under another name, or in folders."""
    top = [name for name in names if "/" not in name]
    found = [name for name in top if name.endswith(".safetensors")]
    usual = [name for name in found if _USUAL.fullmatch(name)]
    return usual or found or [name for name in top if _OLDER.fullmatch(name)]


def gguf(names: Iterable[str], *, model_file: str | None, quant: str | None = None) -> list[str]:
    """The one file that is served, or all parts of it."""
    found = [name for name in names if name.endswith(".gguf") and not _last_part(name).startswith("mmproj")]
    if model_file is not None:
        # In a folder of one's own it may lie beside the others, wherever it is in the repository.
        first = model_file if model_file in found else _last_part(model_file)
        return [name for name in found if _stem(name) == _stem(first)] if first in found else []
    if quant is not None or len({_stem(name) for name in found}) > 1:
        wanted = (quant or _USUAL_QUANT).lower()
        found = [name for name in found if wanted in _last_part(name).lower()]
    return found if len({_stem(name) for name in found}) == 1 else []


def _last_part(name: str) -> str:
    return name.rpartition("/")[2]


def _stem(name: str) -> str:
    return match[1] if (match := _PART.fullmatch(name)) else name
