"""In which order is one installation measured?

At rest first, with the rhythms that people get; then again with shorter ones, so that what needs a listing is not
waited for: cold requests, a crowd, idle stops, and a restart with stops owed.
"""

import tempfile
from pathlib import Path
from typing import Final

from benchmarks import cold, resting, stops
from benchmarks.rows import Row
from benchmarks.scene import SERVER_KEY, Scene, scene

SHORT: Final = """
listing_fast = "1s"
listing_steady = "2s"
listing_idle = "5s"
settle = "10s"
stream_lease = "3s"
stream_lease_renewal = "1s"
starts_per_hour = 1000
starts_per_day = 10000
max_active = 100
"""


def models() -> dict[str, str]:
    """Every model that a measurement asks for, each of them once."""
    cold_ones = {alias: "" for alias in cold.ALIASES}
    crowded = {cold.CROWDED: f"queue = {cold.QUEUE}\nmax_num_seqs = 256"}
    idle = {alias: 'idle_after = "3s"' for alias in stops.IDLE}
    return cold_ones | crowded | idle | {alias: "" for alias in stops.OWED}


async def measure(rows: list[Row]) -> None:
    with tempfile.TemporaryDirectory(prefix="gpuwarden-bench-") as folder:
        async with scene(Path(folder)) as stage:
            await _begin(stage)
            rows += await resting.measure(stage)
            stage.configure(models(), policy=SHORT)
            daemon, _ = await stage.begin_daemon()
            await stage.begin_gateway()
            rows.append(await cold.measure_first(stage))
            rows.append(await cold.measure_crowd(stage))
            rows.append(await stops.measure_idle(stage))
            rows.append(await stops.measure_restart(stage, daemon))


async def _begin(stage: Scene) -> None:
    stage.configure(models())
    secrets = {f"vllm_{alias}": SERVER_KEY for alias in models()}
    await stage.begin_emulator(
        {"secrets": secrets, "balance": 1_000_000, "boot_seconds": 600, "ready_seconds": 1, "token_rate": 500}
    )
