"""Who uses the models, and how do they behave?

For each model a crowd that is quiet for hours and then comes in bursts: plain answers and streams, callers who leave in
the middle, callers who ask to be told and come back or do not, and now and then a stream that lasts for hours at a few
words a minute. What became of every request is counted and told.
"""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from typing import Any, Final

import anyio

from controller.http1 import Outgoing, TooLarge, WireError
from tests.simulation.machine import Machine
from tests.simulation.stage import Stage, spread
from tests.simulation.wires import Answer, Wire

PATIENCE_S: Final = 600.0
"""As long as OpenAI's client waits."""
ANSWER_BYTES: Final = 1 << 20
SLOW_WORDS_A_SECOND: Final = 1 / 60
SLOWED_FOR_S: Final = 20.0


@dataclass(frozen=True, slots=True)
class Rhythm:
    """Seconds: from, to."""

    lull: tuple[float, float]
    busy: tuple[float, float]
    gap: tuple[float, float]
    ways: dict[str, float]


STANDARD: Final = Rhythm(
    lull=(2 * 3600, 12 * 3600),
    busy=(300, 3 * 3600),
    gap=(40, 500),
    ways={"plain": 4, "stream": 3, "abort": 2, "told": 2, "burst": 1, "long": 0.3},
)
CALM: Final = replace(STANDARD, lull=(12 * 3600, 72 * 3600))
"""A box that is asked for a few hours a week."""
BUSIEST: Final = Rhythm(
    lull=(300, 3600),
    busy=(1800, 6 * 3600),
    gap=(15, 240),
    ways={"plain": 4, "stream": 3, "abort": 3, "told": 2, "burst": 1, "long": 0.2},
)


class Clients:
    """Everybody who asks for a model."""

    def __init__(self, stage: Stage, seed: int, rhythm: Rhythm) -> None:
        self.stage, self.rhythm = stage, rhythm
        self.outcomes: Counter[str] = Counter()
        self._program = stage.town.clients
        self._tasks: dict[asyncio.Task[Any], None] = {}
        for alias in stage.town.models:
            self._start(self._crowd(alias, random.Random(f"crowd {alias} {seed}")))
        stage.at_honesty.append(self.go)

    def go(self) -> None:
        """All leave, and nobody comes any more."""
        for task in list(self._tasks):
            task.cancel()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._program.start(work)
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    async def _crowd(self, alias: str, draw: random.Random) -> None:
        rhythm, kernel = self.rhythm, self.stage.kernel
        await anyio.sleep(spread(draw, 1, rhythm.lull[0]))
        while True:
            ends, gap = kernel.time + spread(draw, *rhythm.busy), spread(draw, *rhythm.gap)
            while kernel.time < ends:
                self._comes(alias, draw)
                await anyio.sleep(draw.expovariate(1 / gap))
            await anyio.sleep(spread(draw, *rhythm.lull))

    def _comes(self, alias: str, draw: random.Random) -> None:
        (way,) = draw.choices(list(self.rhythm.ways), list(self.rhythm.ways.values()))
        own = random.Random(draw.random())
        for _ in range(own.randint(2, 12) if way == "burst" else 1):
            self._start(self._caller(alias, way, self.stage.a_machine(own), random.Random(own.random())))

    async def _caller(self, alias: str, way: str, machine: Machine, draw: random.Random) -> None:
        while True:
            outcome = await self._ask(alias, way, machine, draw)
            self.outcomes[outcome] += 1
            self.stage.kernel.tell("client", f"{machine.name} {alias} {way}: {outcome}")
            if way != "told" or outcome == "served" or draw.random() < 0.2:
                return
            await anyio.sleep(draw.uniform(5, 60))

    async def _ask(self, alias: str, way: str, machine: Machine, draw: random.Random) -> str:
        limit = spread(draw, 0.02, 120) if way == "abort" else 12 * 3600 if way == "long" else PATIENCE_S
        streams = way in {"stream", "long"} or (way == "abort" and draw.random() < 0.7)
        words = draw.randint(30, 120) if way == "long" else draw.randint(2, 20)
        body = {"model": alias, "messages": [{"role": "user", "content": "hello"}], "max_tokens": words}
        if way == "long":
            self._slow_down(alias)
        try:
            with anyio.fail_after(limit), self.stage.town.asking.one(machine.name, alias):
                return await self._exchange(machine, body | {"stream": streams}, told=way == "told")
        except TimeoutError:
            return "left" if way == "abort" else "gave up"
        except (WireError, TooLarge) as error:
            return f"{type(error).__name__}"

    async def _exchange(self, machine: Machine, body: dict[str, Any], *, told: bool) -> str:
        request = Outgoing(
            method="POST",
            url="http://gateway/v1/chat/completions",
            headers=((b"content-type", b"application/json"), *(((b"prefer", b"wait=0"),) if told else ())),
            body=json.dumps(body).encode(),
            head_limit=None,
            silence_limit=None,
        )
        answer = await Wire(self._program, {"gateway": machine.front}).send(request)
        try:
            return await _outcome(answer)
        finally:
            answer.close()

    def _slow_down(self, alias: str) -> None:
        """What begins within the next seconds is written slowly, and goes on so."""
        stage = self.stage
        pods = [pod for pod in stage.ours() if f"-{alias}-" in pod.name]
        for pod in pods:
            stage.staged.once("slowed", pod.id)
            stage.provider.change_pod(pod.id, {"upstream": {"token_rate": SLOW_WORDS_A_SECOND}})

        def back() -> None:
            for pod in pods:
                stage.provider.change_pod(pod.id, {"upstream": {"token_rate": None}})

        stage.kernel.after(SLOWED_FOR_S, back)


async def _outcome(answer: Answer) -> str:
    content = (await answer.read(ANSWER_BYTES)).decode(errors="replace")
    if answer.status != 200:
        return f"{answer.status} {_code(content)}"
    for line in content.splitlines():
        if line.startswith("data: {") and '"error"' in line:
            return f"error in the stream: {_code(line.removeprefix('data: '))}"
    return "served"


def _code(content: str) -> str:
    try:
        return str(json.loads(content)["error"]["code"])
    except (ValueError, KeyError, TypeError):
        return "unreadable"
