"""How soon does a request for a sleeping model cost something, and how many machines does a crowd cost?

Asked through the gateway, on connections that stand already. The instant of a create is the emulator's own, taken when
the call arrived; both clocks are this machine's.
"""

import json
import time
from typing import Final

import anyio

from benchmarks.asking import Asker, connected, post
from benchmarks.rows import Row, at_most, number, p50, spread
from benchmarks.scene import Scene, until

ALIASES: Final = tuple(f"cold{at:02}" for at in range(12))
CROWDED: Final = "crowd"
CALLERS: Final = 200
QUEUE: Final = 256
CROWD_LIMIT_S: Final = 60.0
REST_S: Final = 1.2
"""Until the machine before was listed and its sighting written: another one's news is not what is measured."""
PATH: Final = "/v1/chat/completions"

FIRST_MS: Final = 25.0


def question(alias: str) -> bytes:
    body = {"model": alias, "messages": [{"role": "user", "content": "hello"}], "max_tokens": 8}
    return post(PATH, json.dumps(body).encode(), key="none-needed")


async def measure_first(stage: Scene) -> Row:
    """The time from each first request's last byte written to its create call at the provider."""
    took = []
    for known, alias in enumerate(ALIASES):
        took.append(await _first(stage, alias, known=known) * 1000)
        await anyio.sleep(REST_S)
    await stage.daemon.post("/v1/stop", {"now": True})
    await until(stage.none_left, within=60, what="the end of all machines")
    note = f"{spread(took)}, min {number(min(took))}; {len(took)} cold models"
    return at_most("first request → create call sent, p50", p50(took), FIRST_MS, "ms", note=note, max_ms=max(took))


async def _first(stage: Scene, alias: str, *, known: int) -> float:
    asker = await connected(stage.gateway_port)
    asked_at = 0.0

    async def created() -> list[dict[str, float]]:
        return (await stage.calls("POST"))[known:]

    async with anyio.create_task_group() as group:
        asked_at = time.time()
        group.start_soon(_ask, asker, alias)
        calls = await until(created, within=20, what=f"a create for {alias}")
        asker.close()
        group.cancel_scope.cancel()
    return float(calls[0]["at"]) - asked_at


async def _ask(asker: Asker, alias: str) -> None:
    await asker.ask(question(alias))


async def measure_crowd(stage: Scene) -> Row:
    """Many first callers at once: one machine, and an answer for each of them."""
    await stage.order("PATCH", "settings", {"boot_seconds": 0.5})
    before = len(await stage.calls("POST"))
    askers = [await connected(stage.gateway_port) for _ in range(CALLERS)]
    waited: list[float] = []

    async def ask(asker: Asker) -> None:
        try:
            waited.append(await asker.ask(question(CROWDED)))
        except ConnectionError:
            return

    with anyio.move_on_after(CROWD_LIMIT_S):
        async with anyio.create_task_group() as group:
            for asker in askers:
                group.start_soon(ask, asker)
    for asker in askers:
        asker.close()
    creates, lost = len(await stage.calls("POST")) - before, CALLERS - len(waited)
    note = f"; the last answer after {number(max(waited))} s" if waited else ""
    await stage.daemon.post(f"/v1/models/{CROWDED}/stop", {"now": True})
    return Row(
        what=f"{CALLERS} first callers at once, queue = {QUEUE}",
        measured=f"{creates} create, {lost} lost{note}",
        target="1 create, 0 lost",
        ok=(creates, lost) == (1, 0),
        values={"creates": creates, "lost": lost},
    )
