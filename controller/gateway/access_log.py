"""What is written down of a request that ended?

One line: who, which model, how it ended, how long, how much. No word of what was asked or answered, no key, no header
of the client's: the fields are named here one by one, and each is a number or a name of ours. A request that names no
model of ours leaves that field empty, whatever it named.
"""

from collections.abc import Callable
from typing import Any

from controller.gateway.passage import Passage

WriteLine = Callable[[str, dict[str, Any]], None]
"""Takes the event's name and its fields."""


def write(line: WriteLine, passage: Passage, *, answer: int | None, now: float) -> None:
    first_byte = passage.first_byte
    line(
        "request",
        {
            "request": passage.request_id,
            "client": passage.client.name,
            "model": passage.alias,
            "wire": passage.wire,
            "stream": passage.stream,
            "answer": answer,
            "outcome": passage.outcome,
            "deployment": passage.deployment,
            "waited_seconds": round(passage.waited(now), 3),
            "first_byte_seconds": None if first_byte is None else round(first_byte, 4),
            "duration_seconds": round(now - passage.arrived_at, 4),
            "bytes_in": passage.bytes_in,
            "bytes_out": passage.bytes_out,
        },
    )
