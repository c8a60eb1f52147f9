"""How large are the weights of the models, as the hub said when it was last asked?

A file beside the store, written by `gpuwarden config check --online` and read with the config, so that disks and
startup deadlines follow from it without anybody being asked. It is a memory and no config: what is not as it should be
is as if it had never been asked, and a size that the config states stands above it.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_CEILING, Decimal
from pathlib import Path
from typing import Any, Final

from controller.settings.models import ModelSection

NAME: Final = "hub-sizes.json"
SIZE_MOST: Final = 10**14
_BYTES_MAX: Final = 1 << 20
_GB: Final = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class HubSize:
    size_bytes: int
    asked_at: datetime

    @property
    def size_gb(self) -> Decimal:
        """To a tenth of a GB, rounded up."""
        return (Decimal(self.size_bytes) / _GB).quantize(Decimal("0.1"), ROUND_CEILING)


def what(section: ModelSection) -> str:
    """What the size is of: another repository, kind of weights or file is another one."""
    return " ".join((section.server, section.model, section.model_file or ""))


def read(state: Path) -> dict[str, HubSize]:
    try:
        descriptor = os.open(state / NAME, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
        with open(descriptor, "rb") as opened:
            content = opened.read(_BYTES_MAX + 1)
        found = json.loads(content) if len(content) <= _BYTES_MAX else None
    except (OSError, ValueError, RecursionError):
        return {}
    sizes = found.get("sizes") if isinstance(found, dict) and found.get("schema") == 1 else None
    pairs = sizes.items() if isinstance(sizes, dict) else ()
    return {name: size for name, entry in pairs if (size := _size(entry)) is not None}


def write(state: Path, sizes: Mapping[str, HubSize]) -> None:
    """Whole or not at all; everybody may read it. Raises OSError."""
    entries = {name: {"bytes": size.size_bytes, "asked_at": size.asked_at.isoformat()} for name, size in sizes.items()}
    beside = state / f"{NAME}.{os.getpid()}"
    try:
        beside.write_text(json.dumps({"schema": 1, "sizes": entries}, indent=1, sort_keys=True) + "\n")
        beside.chmod(0o644)
        beside.rename(state / NAME)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def _size(entry: Any) -> HubSize | None:
    if not isinstance(entry, dict) or not isinstance(entry.get("asked_at"), str):
        return None
    size = entry.get("bytes")
    if isinstance(size, bool) or not isinstance(size, int) or not 0 < size < SIZE_MOST:
        return None
    try:
        asked_at = datetime.fromisoformat(entry["asked_at"])
    except ValueError:
        return None
    return HubSize(size_bytes=size, asked_at=asked_at) if asked_at.tzinfo is not None else None
