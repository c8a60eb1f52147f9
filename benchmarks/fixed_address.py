"""What does the fixed address add to a model server asked directly?

The real gateway as a process, with client keys, a model server that answers at once and a daemon that only says where
it is. Delay on one connection, in rounds that take turns with the direct way, so that both see the same machine; with
more connections, processor time of the gateway's process for each request and each event. A relay that looks at
nothing stands beside it: what any process in the way would take here.
"""

import hashlib
import json
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

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
LOADED_S: Final = 4.0
STREAMS: Final = (64, 256)

ADDED_MS: Final = 0.5
EVENT_US: Final = 70.0

Work = Callable[[Asker], Coroutine[Any, Any, None]]

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
class Way:
    """A port that leads to the model server, and the process that it belongs to."""

    port: int
    process_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Three ways to one model server."""

    direct: Way
    relay: Way
    gateway: Way


async def measure(rows: list[Row]) -> None:
    with tempfile.TemporaryDirectory(prefix="gpuwarden-bench-") as folder:
        async with standing(Path(folder)) as place:
            rows.append(await _added(place))
            rows.append(await _per_request(place))
            for streams in STREAMS:
                rows.append(await _per_event(place, streams))
            memory = resident_mib(place.gateway.process_id)
            rows.append(told("gateway: memory after that", f"{number(memory)} MiB", mib=memory))


@asynccontextmanager
async def standing(folder: Path) -> AsyncIterator[Place]:
    port = free_port()
    config = _write(folder, port)
    async with started() as running:
        far, said = await running.module("benchmarks.far_side", "--socket", str(folder / "gateway.sock"))
        relay, relayed = await running.module("benchmarks.bare_relay", "--target", said)
        child = await running.command("gateway", "gateway", "--config", str(config))
        with anyio.fail_after(20):
            await answering(running, child, partial(fetched, f"http://127.0.0.1:{port}/healthz"))
        yield Place(
            direct=Way(port=int(said), process_id=far.process.pid),
            relay=Way(port=int(relayed), process_id=relay.process.pid),
            gateway=Way(port=port, process_id=child.process.pid),
        )


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


def question(*, stream: bool = False, **more: int) -> bytes:
    messages = [{"role": "system", "content": "Be brief. " * 20}, {"role": "user", "content": "hello " * 60}]
    return post(PATH, json.dumps({"model": ALIAS, "messages": messages, "stream": stream, **more}).encode(), key=KEY)


async def _added(place: Place) -> Row:
    ways = {"direct": place.direct, "relay": place.relay, "gateway": place.gateway}
    askers = {name: await connected(way.port) for name, way in ways.items()}
    times = {name: list[float]() for name in ways}
    asked, added = question(), list[float]()
    for asker in askers.values():
        await _times(asker, asked, WARM_REQUESTS)
    for _ in range(ROUNDS):
        turn = {name: await _times(asker, asked, ROUND_REQUESTS) for name, asker in askers.items()}
        added.append((p50(turn["gateway"]) - p50(turn["direct"])) * 1000)
        for name in ways:
            times[name] += turn[name]
    for asker in askers.values():
        asker.close()
    middle = {name: p50(found) * 1000 for name, found in times.items()}
    note = (
        f"direct {number(middle['direct'])}, a bare relay adds {number(middle['relay'] - middle['direct'])}, "
        f"best round {number(min(added))}; {ROUNDS} rounds by turns"
    )
    what = "gateway: p50 added to a 1 KB answer, 1 connection"
    relayed = middle["relay"] - middle["direct"]
    return at_most(what, p50(added), ADDED_MS, "ms", note=note, best_round_ms=min(added), relay_ms=relayed)


async def _times(asker: Asker, question: bytes, count: int) -> list[float]:
    return [await asker.ask(question) for _ in range(count)]


async def _per_request(place: Place) -> Row:
    asked, times = question(), list[float]()

    async def keep_asking(asker: Asker) -> None:
        ends = time.perf_counter() + LOADED_S
        while time.perf_counter() < ends:
            times.append(await asker.ask(asked))

    relay, _ = await _used(place.relay, CONNECTIONS, keep_asking)
    relay_micros = relay / len(times) * 1e6
    times.clear()
    used, wall = await _used(place.gateway, CONNECTIONS, keep_asking)
    micros, rate = used / len(times) * 1e6, len(times) / wall
    text = (
        f"{number(micros)} CPU µs, {number(micros / relay_micros)} × a bare relay "
        f"({rate:.0f} requests/s, p50 {number(p50(times) * 1000)} ms)"
    )
    what = f"gateway: a request at {CONNECTIONS} connections"
    return told(what, text, cpu_us=micros, requests_per_s=rate, relay_cpu_us=relay_micros)


async def _per_event(place: Place, streams: int) -> Row:
    asked = question(stream=True)

    async def follow(asker: Asker) -> None:
        await asker.ask(asked)

    events = streams * EVENTS
    used, wall = await _used(place.gateway, streams, follow, seen=events)
    what, micros, rate = f"gateway: an SSE event, {streams} streams", used / events * 1e6, events / wall
    note = f"{rate:.0f} events/s, none lost"
    if streams != STREAMS[-1]:
        return told(what, f"{number(micros)} CPU µs ({note})", cpu_us=micros, events_per_s=rate)
    relay, _ = await _used(place.relay, streams, follow, seen=events)
    note = f"{number(used / relay)} × a bare relay, {note}"
    return at_most(what, micros, EVENT_US, "CPU µs", note=note, events_per_s=rate)


async def _used(way: Way, connections: int, work: Work, *, seen: int | None = None) -> tuple[float, float]:
    """CPU seconds of the process on the way, and the seconds it took; raises RuntimeError if events were lost.

    The connections begin one after the other within a few rhythms of a stream, so that events do not come in step.
    """
    askers = [await connected(way.port) for _ in range(connections)]

    async def begin(at: int) -> None:
        await anyio.sleep(at / connections * RHYTHM_S * 4)
        await work(askers[at])

    began, before = time.perf_counter(), cpu_seconds(way.process_id)
    try:
        async with anyio.create_task_group() as group:
            for at in range(connections):
                group.start_soon(begin, at)
    finally:
        for asker in askers:
            asker.close()
    events = sum(asker.events for asker in askers)
    if seen is not None and events != seen:
        raise RuntimeError(f"{seen - events} events of {seen} were lost")
    return cpu_seconds(way.process_id) - before, time.perf_counter() - began
