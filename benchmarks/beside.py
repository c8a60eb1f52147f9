"""What does the gateway cost beside nginx and beside LiteLLM's proxy, in front of the same model server?

`python -m benchmarks.beside`, or `make bench-gateway`, which also installs LiteLLM. All stand on loopback at the same
time, one worker each, and are asked by turns in every round, so that each sees the same machine; where there is a
second core, the measured one is alone on the last. Exit 0 when all was measured, whether targets were met or not.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import anyio

from benchmarks import comparison, peers
from benchmarks.consumption import cpu_seconds, family, resident_mib
from benchmarks.far_side import ALIAS
from benchmarks.fixed_address import KEY, question, standing
from benchmarks.loading import Load, put_on
from benchmarks.printing import machine

CONNECTIONS: Final = (1, 32, 256)
STREAMS: Final = 256
MANY: Final = 32
RHYTHM_MS: Final = 50
UNPACED_EVENTS: Final = 200
SLOW: Final = "litellm"
"""It takes 30 ms for a request and 2 ms for an event: with as many as the others it would be at it for an hour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How long is measured."""

    rounds: int
    seconds: float
    """Of each load of plain requests, and of events without a pause."""
    events: int
    """Of each of the many streams at a rhythm."""
    slow_events: int


FULL: Final = Effort(rounds=5, seconds=2.0, events=80, slow_events=8)
SHORT: Final = Effort(rounds=1, seconds=0.2, events=4, slow_events=4)


@dataclass(slots=True, kw_only=True)
class Contender:
    """One way to the model server, and what was measured on it: each figure once a round."""

    name: str
    port: int
    process_id: int
    found: dict[str, list[float]] = field(default_factory=dict)

    def note(self, what: str, value: float) -> None:
        self.found.setdefault(what, []).append(value)

    def cpu_seconds(self) -> float:
        return sum(cpu_seconds(each) for each in family(self.process_id))

    def resident_mib(self) -> float:
        return sum(resident_mib(each) for each in family(self.process_id))


@asynccontextmanager
async def contenders(folder: Path, *, beside: Sequence[str]) -> AsyncIterator[list[Contender]]:
    """The direct way, the gateway, and those `beside` it. Raises `peers.NotHere`."""
    async with AsyncExitStack() as stack:
        place = await stack.enter_async_context(standing(folder))
        model_port = place.direct.port
        found = [
            Contender(name="direct", port=model_port, process_id=place.direct.process_id),
            Contender(name="gateway", port=place.gateway.port, process_id=place.gateway.process_id),
        ]
        if "nginx" in beside:
            port, process_id = await stack.enter_async_context(peers.nginx(folder, model_port=model_port))
            found.append(Contender(name="nginx", port=port, process_id=process_id))
        if SLOW in beside:
            begun = peers.litellm(folder, alias=ALIAS, key=KEY, model_port=model_port)
            port, process_id = await stack.enter_async_context(begun)
            found.append(Contender(name=SLOW, port=port, process_id=process_id))
        yield found


async def measure(all_of_them: Sequence[Contender], effort: Effort) -> None:
    for each in all_of_them:
        await put_on(each.port, question(), connections=2, seconds=effort.seconds / 2)  # the first ones are dear
        each.note("idle_mib", each.resident_mib())
    with _apart(all_of_them):
        for number in range(effort.rounds):
            print(f"round {number + 1} of {effort.rounds} ...", file=sys.stderr, flush=True)
            for connections in CONNECTIONS:
                for each in all_of_them:
                    await _requests(each, connections, effort)
            for each in all_of_them:
                await _unpaced(each, effort)
            for each in all_of_them:
                await _paced(each, effort)


async def _requests(each: Contender, connections: int, effort: Effort) -> None:
    load, used, wall = await _used(each, question(), connections=connections, seconds=effort.seconds)
    each.note(f"rps_{connections}", len(load.times) / wall)
    each.note(f"cpu_us_request_{connections}", used / len(load.times) * 1e6)
    each.note(f"p50_ms_{connections}", _quantile(load.times, 0.5))
    each.note(f"p99_ms_{connections}", _quantile(load.times, 0.99))


async def _unpaced(each: Contender, effort: Effort) -> None:
    """As many events as go through."""
    asked = question(stream=True, max_tokens=UNPACED_EVENTS if each.name != SLOW else effort.slow_events, seed=0)
    load, _, wall = await _used(each, asked, connections=MANY, seconds=effort.seconds)
    each.note("events_per_s", load.events / wall)


async def _paced(each: Contender, effort: Effort) -> None:
    """Many streams at the rhythm of a model, each once; memory when all of them are open."""
    count = effort.slow_events if each.name == SLOW else effort.events
    asked = question(stream=True, max_tokens=count, seed=RHYTHM_MS)
    async with anyio.create_task_group() as group:

        async def look() -> None:
            await anyio.sleep(count * RHYTHM_MS / 1000 * 0.7)
            each.note("open_mib", each.resident_mib())

        group.start_soon(look)
        load, used, _ = await _used(each, asked, connections=STREAMS, seconds=0, apart_s=RHYTHM_MS / 1000 * 4)
    if each.name != SLOW and load.events != STREAMS * count:
        raise RuntimeError(f"{each.name} lost {STREAMS * count - load.events} events")
    each.note("cpu_us_event", used / load.events * 1e6)


async def _used(
    each: Contender, request: bytes, *, connections: int, seconds: float, apart_s: float = 0.0
) -> tuple[Load, float, float]:
    """The load, CPU seconds of the measured one, and the seconds that it took. Raises RuntimeError for any error."""
    began, before = time.perf_counter(), each.cpu_seconds()
    load = await put_on(each.port, request, connections=connections, seconds=seconds, apart_s=apart_s)
    wall, used = time.perf_counter() - began, each.cpu_seconds() - before
    if load.errors or not load.times:
        raise RuntimeError(f"{each.name}: {load.errors} of {connections} connections ended with an error")
    return load, used, wall


def _quantile(times: Sequence[float], part: float) -> float:
    return sorted(times)[min(len(times) - 1, int(len(times) * part))] * 1000


@contextmanager
def _apart(all_of_them: Sequence[Contender]) -> Iterator[None]:
    """Each measured one on the last core, the model server and ourselves on the others."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        yield
        return
    for each in all_of_them:
        for process_id in family(each.process_id):
            for thread in Path(f"/proc/{process_id}/task").iterdir():
                os.sched_setaffinity(int(thread.name), set(cores[:-1] if each.name == "direct" else cores[-1:]))
    os.sched_setaffinity(0, set(cores[:-1]))
    try:
        yield
    finally:
        os.sched_setaffinity(0, set(cores))


async def _run(effort: Effort, beside: Sequence[str]) -> list[Contender]:
    with tempfile.TemporaryDirectory(prefix="gpuwarden-bench-") as folder:
        async with contenders(Path(folder), beside=beside) as found:
            await measure(found, effort)
            return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.beside", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--without", action="append", default=[], choices=["nginx", SLOW], help="leave this one out")
    parser.add_argument("--rounds", type=int, default=FULL.rounds)
    parser.add_argument("--short", action="store_true", help="one short round: does it run at all?")
    chosen = parser.parse_args(arguments)
    effort = (
        SHORT
        if chosen.short
        else Effort(rounds=chosen.rounds, seconds=FULL.seconds, events=FULL.events, slow_events=FULL.slow_events)
    )
    beside = [name for name in ("nginx", SLOW) if name not in chosen.without]
    head, began = machine(), time.monotonic()
    try:
        if "nginx" in beside:
            peers.nginx_program()
        if SLOW in beside:
            peers.litellm_program()
    except peers.NotHere as missing:
        print(missing, f"(or leave it out: --without {beside[0]})", sep="\n", file=sys.stderr)
        return 1
    found = anyio.run(_run, effort, beside, backend_options={"use_uvloop": True})
    figures = {each.name: comparison.middle(each.found) for each in found}
    if chosen.json:
        print(json.dumps({"schema": 1, "machine": head, "figures": figures}, indent=2))
    else:
        comparison.show(head, figures, seconds=time.monotonic() - began)
    return 0


if __name__ == "__main__":
    sys.exit(main())
