"""What follows from the size of a model's weights?

Disks (requirements, PF-4) and startup deadline (design, section 6). GB are 10^9 bytes.
"""

import math
from datetime import timedelta
from decimal import Decimal
from typing import Final

from controller.core.policy import STARTUP_DEADLINE_MOST
from controller.core.storage import HOURS_A_MONTH

DISK_SPARE_GB: Final = 20
"""Beside the weights: image layers, caches, logs."""

_DISK_MOST_GB: Final = 2000
_DISK_UNKNOWN_GB: Final = 80
_DISK_BESIDE_VOLUME_GB: Final = 30
_VOLUME_LEAST_GB: Final = 20
_DISK_USD_PER_GB_MONTH: Final = Decimal("0.10")
"""What a running machine's container disk bills (requirements, PF-12)."""
_STARTUP_UNKNOWN: Final = timedelta(seconds=1800)
_STARTUP_LEAST: Final = timedelta(seconds=600)
_STARTUP_FIXED: Final = timedelta(seconds=300)
# Seconds a GB: downloads without a Hugging Face token are slowed down.
_WITH_TOKEN: Final = 20
_WITHOUT_TOKEN: Final = 45


def container_disk_gb(size_gb: Decimal | None, *, on_volume: bool) -> int | None:
    """Disk to ask for; None if no machine has as much."""
    if on_volume:
        return _DISK_BESIDE_VOLUME_GB
    if size_gb is None:
        return _DISK_UNKNOWN_GB
    needed = math.ceil(Decimal("1.3") * size_gb + 30)
    return needed if needed <= _DISK_MOST_GB else None


def disk_usd_per_hour(disk_gb: int) -> Decimal:
    """What the container disk adds to the price of the cards."""
    return disk_gb * _DISK_USD_PER_GB_MONTH / HOURS_A_MONTH


def volume_gb(size_gb: Decimal) -> int:
    """Network volume that holds the weights twice, so that a new version can be fetched beside the old one."""
    return max(math.ceil(Decimal("2.1") * size_gb + 4), _VOLUME_LEAST_GB)


def disk_fits(disk_gb: int, size_gb: Decimal) -> bool:
    return disk_gb >= size_gb + DISK_SPARE_GB


def startup_deadline(size_gb: Decimal | None, *, hf_token: bool) -> timedelta:
    if size_gb is None:
        return _STARTUP_UNKNOWN
    download = timedelta(seconds=float(size_gb) * (_WITH_TOKEN if hf_token else _WITHOUT_TOKEN))
    return min(max(_STARTUP_LEAST, _STARTUP_FIXED + download), STARTUP_DEADLINE_MOST)
