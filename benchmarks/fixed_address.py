"""What does the fixed address add to a model server asked directly?

The real gateway as a process, with client keys, a model server that answers at once and a daemon that only says where
it is. Delay on one connection, in rounds that take turns with the direct way, so that both see the same machine; above
that, processor time of the gateway's process for each request and each event.
"""

import hashlib
import json
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import anyio

from benchmarks.asking import Asker, connected, post
from benchmarks.consumption import cpu_seconds, resident_mib
from benchmarks.far_side import ALIAS, EVENTS, RHYTHM_S
from benchmarks.processes import answering, fetched, free_port, started
from benchmarks.rows import Row, at_most, number, p50, told

KEY: Final = "sk-benchmark"
PATH: Final = "/v1/chat/completions"
ROUNDS: Final = 12
ROUND_REQUESTS: Final = 150
WARM_REQUESTS: Final = 200
CONNECTIONS: Final = 32
LOADED_S: Final = 5.0
STREAMS: Final = (64, 256)

ADDED_MS: Final = 0.5
EVENT_US: Final = 70.0

CONFIG: Final = """
name = "bench-0000"
usd_per_day = 1
state_dir = "{folder}"
[gateway]
listen = "127.0.0.1:{port}"
keys = ["sha256:{digest}"]
[models.{alias}]
model = "org/{alias}"
image = "vllm/vllm-openai:v0.31.0"
gpus = ["NVIDIA L40S"]
context = 4096
key_file = "keys/{alias}"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Two ways to one model server."""

    direct: int
    gateway: int
    process_id: int


async def measure(rows: list[Row]) -> None:
    with tempfile.TemporaryDirectory(prefix="gpuwarden-bench-") as folder:
        async with _place(Path(folder)) as place:
            rows.append(await _added(place))
            rows.append(await _per_request(place))
            for streams in STREAMS:
                rows.append(await _per_event(place, streams))
            rows.append(told("gateway: RSS after that", f"{number(resident_mib(place.process_id))} MiB"))


@asynccontextmanager
async def _place(folder: Path) -> AsyncIterator[Place]:
    port = free_port()
    config = _write(folder, port)
    async with started() as running:
        _, said = await running.module("benchmarks.far_side", "--socket", str(folder / "gateway.sock"))
        child = await running.command("gateway", "gateway", "--config", str(config))
        with anyio.fail_after(20):
            await answering(running, child, partial(fetched, f"http://127.0.0.1:{port}/healthz"))
        yield Place(direct=int(said), gateway=port, process_id=child.process.pid)


def _write(folder: Path, port: int) -> Path:
    keys = folder / "keys"
    keys.mkdir(mode=0o700)
    for name in ("runpod", ALIAS):
        (keys / name).touch(mode=0o600)
        (keys / name).write_text("model-key")
    config = folder / "config.toml"
    config.touch(mode=0o600)
    digest = hashlib.sha256(KEY.encode()).hexdigest()
    config.write_text(CONFIG.format(folder=folder, port=port, digest=digest, alias=ALIAS))
    return config


def _question(*, stream: bool = False) -> bytes:
    messages = [{"role": "system", "content": "Be brief. " * 20}, {"role": "user", "content": "hello " * 60}]
    return post(PATH, json.dumps({"model": ALIAS, "messages": messages, "stream": stream}).encode(), key=KEY)


async def _added(place: Place) -> Row:
    direct, gateway = await connected(place.direct), await connected(place.gateway)
    question = _question()
    for asker in (direct, gateway):
        await _times(asker, question, WARM_REQUESTS)
    added: list[float] = []
    sides: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        near = await _times(direct, question, ROUND_REQUESTS)
        through = await _times(gateway, question, ROUND_REQUESTS)
        sides[0].extend(near)
        sides[1].extend(through)
        added.append((p50(through) - p50(near)) * 1000)
    direct.close()
    gateway.close()
    note = (
        f"direct {number(p50(sides[0]) * 1000)}, through {number(p50(sides[1]) * 1000)}, "
        f"best round {number(min(added))}; {ROUNDS} rounds by turns"
    )
    what = "gateway: p50 added to a 1 KB answer, 1 connection"
    return at_most(what, p50(added), ADDED_MS, "ms", note=note, best_round_ms=min(added))


async def _times(asker: Asker, question: bytes, count: int) -> list[float]:
    return [await asker.ask(question) for _ in range(count)]


async def _per_request(place: Place) -> Row:
    askers = [await connected(place.gateway) for _ in range(CONNECTIONS)]
    question, ends, times = _question(), time.perf_counter() + LOADED_S, list[float]()

    async def keep_asking(asker: Asker) -> None:
        while time.perf_counter() < ends:
            times.append(await asker.ask(question))

    began, before = time.perf_counter(), cpu_seconds(place.process_id)
    await _all(keep_asking, askers)
    used, wall = cpu_seconds(place.process_id) - before, time.perf_counter() - began
    micros, rate = used / len(times) * 1e6, len(times) / wall
    text = f"{number(micros)} CPU µs ({rate:.0f} requests/s, p50 {number(p50(times) * 1000)} ms)"
    return told(f"gateway: a request at {CONNECTIONS} connections", text, cpu_us=micros, requests_per_s=rate)


async def _per_event(place: Place, streams: int) -> Row:
    askers = [await connected(place.gateway) for _ in range(streams)]
    question = _question(stream=True)

    async def follow(asker: Asker) -> None:
        await anyio.sleep(askers.index(asker) / streams * RHYTHM_S * 4)
        await asker.ask(question)

    began, before = time.perf_counter(), cpu_seconds(place.process_id)
    await _all(follow, askers)
    used, wall = cpu_seconds(place.process_id) - before, time.perf_counter() - began
    events = sum(asker.events for asker in askers)
    if events != streams * EVENTS:
        raise RuntimeError(f"{streams * EVENTS - events} events of {streams * EVENTS} were lost")
    note = f"{events / wall:.0f} events/s, none lost"
    what = f"gateway: an SSE event, {streams} streams"
    return at_most(what, used / events * 1e6, EVENT_US, "CPU µs", note=note, events_per_s=events / wall)


async def _all(work: Callable[[Asker], Awaitable[None]], askers: list[Asker]) -> None:
    try:
        async with anyio.create_task_group() as group:
            for asker in askers:
                group.start_soon(work, asker)
    finally:
        for asker in askers:
            asker.close()
