"""What do counting, the access log and the clients' limits take of a request's processor time?

Each by itself, the best of some rounds, on the loop that the gateway uses. Where the rest of a stream's event may take
70 µs, being counted must be next to nothing.
"""

import asyncio
import hashlib
import os
import time
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final, TextIO

import uvloop

from benchmarks.rows import Row, at_most
from controller import log
from controller.clock import SystemClock
from controller.gateway.access_log import AccessLog
from controller.gateway.allowances import Allowances
from controller.gateway.clients import Client, Clients
from controller.gateway.passage import Passage
from controller.gateway.routes import Route, RouteTable
from controller.gateway.spending import Spending
from controller.gateway.tally import Numbers, Tally

ROUNDS: Final = 7
TIMES: Final = 20_000
TOGETHER: Final = 50
CLIENTS: Final = 1000

EVENT_US: Final = 1.0
LINE_US: Final = 15.0
REQUEST_US: Final = 30.0


def play(rows: list[Row]) -> None:
    with open(os.devnull, "w") as nowhere:
        rows += uvloop.run(_measured(nowhere))


async def _measured(nowhere: TextIO) -> list[Row]:
    now = asyncio.get_running_loop().time
    passage = Passage("g-0123456789-1f", now())
    passage.admitted("qwen", Numbers(), stream=True, size=1000)
    passage.placed("qwen-r0123456789abcdef", now())
    passage.outcome = "served"
    lines = AccessLog(log.line_writer(stream=nowhere), SystemClock())
    return [
        at_most("gateway: to count an event of a stream", _us(lambda: passage.passed(120, now())), EVENT_US, "µs CPU"),
        at_most(
            "gateway: a line of the access log",
            _us(_written(lines, passage, now), times=TIMES // TOGETHER) / TOGETHER,
            LINE_US,
            "µs CPU",
        ),
        at_most(
            f"gateway: to know one of {CLIENTS} clients, its limits and its share",
            _us(_asked(now)),
            REQUEST_US,
            "µs CPU",
        ),
    ]


def _written(lines: AccessLog, passage: Passage, now: Callable[[], float]) -> Callable[[], None]:
    """Some lines, as many as come together where there is enough to do for this to matter."""

    def once() -> None:
        for _ in range(TOGETHER):
            lines.add(passage, answer=200, now=now())
        lines.write_out()

    return once


def _asked(now: Callable[[], float]) -> Callable[[], None]:
    """All that a request of a client with every limit takes, from its key to what it is charged."""
    tally, table = Tally(), RouteTable(lambda aliases: None)
    clients = Clients(fixed=(), read=_read(), now=now)
    allowances = Allowances(tally)
    spending = Spending(
        clients=clients, table=table, clock=SystemClock(), book=None, start=lambda job: None, tally=tally
    )
    route = Route(deployment="d", epoch=1, endpoint="http://x/", proven=True, usd_per_hour=1.0)
    headers = {b"authorization": b"Bearer key-77"}

    def once() -> None:
        instant = now()
        passage = Passage("g-0123456789-1f", instant)
        passage.client = clients.of(headers)
        spending.require(passage.client, passage, instant)
        standing = allowances.take(passage.client, passage, instant)
        spending.placed(passage, route, instant)
        spending.ended(passage, instant)
        allowances.give_back(standing)

    return once


def _read() -> Callable[[], tuple[Client, ...]]:
    made = tuple(
        Client(
            name=f"client-{number}",
            digest=hashlib.sha256(f"key-{number}".encode()).hexdigest(),
            requests_per_minute=10_000_000,
            concurrent=100,
            usd_per_day=Decimal(1000),
        )
        for number in range(CLIENTS)
    )
    return lambda: made


def _us(work: Callable[[], Any], *, times: int = TIMES) -> float:
    """Microseconds of processor time that one takes, in the best round."""
    best = float("inf")
    for _ in range(ROUNDS):
        before = time.process_time()
        for _ in range(times):
            work()
        best = min(best, (time.process_time() - before) / times)
    return best * 1e6
