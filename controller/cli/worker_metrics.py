"""How does a worker that is asked for metrics get those of the others?

Each answers on a socket of its own in a folder that only this user can enter; whichever was asked asks the others, and
waits for none of them long.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final

import anyio

from controller.gateway.joined import joined
from controller.http1 import Outgoing, Pool, TooLarge, WireError

ANSWER_LIMIT: Final = timedelta(seconds=2)
ANSWER_BYTES: Final = 16 * 1024 * 1024

JoinMetrics = Callable[[bytes], Awaitable[bytes]]


def metrics_of_all(folder: Path, *, workers: int, own: int) -> tuple[Path, JoinMetrics]:
    """Where this worker tells its own, and how they become those of all."""
    return _place(folder, own), partial(_joined, folder, workers, own)


async def _joined(folder: Path, workers: int, own: int, text: bytes) -> bytes:
    found: dict[str, bytes | None] = {str(number): None for number in range(workers)}
    found[str(own)] = text

    async def ask(number: int) -> None:
        found[str(number)] = await _asked(_place(folder, number))

    async with anyio.create_task_group() as group:
        for number in range(workers):
            if number != own:
                group.start_soon(ask, number)
    return joined(found)


async def _asked(place: Path) -> bytes | None:
    pool = Pool(connect_limit=ANSWER_LIMIT)
    url = f"unix:{place}:/metrics"
    try:
        answer = await pool.send(Outgoing(method="GET", url=url, head_limit=ANSWER_LIMIT, silence_limit=ANSWER_LIMIT))
        return await answer.read(ANSWER_BYTES)
    except (WireError, TooLarge):
        return None
    finally:
        pool.close()


def _place(folder: Path, number: int) -> Path:
    return folder / f"{number}.sock"
