"""Does a log stream go on where its reader was?"""

from typing import Any

import anyio
import pytest

from controller.emulators.runpod import Emulator
from tests.emulators.flow import Flow, on_virtual_time

STARTED = "2027-01-15T08:00:00Z"


async def read(emulator: Emulator, pod: str, query: str = "", *, last_event: str = "") -> Flow:
    """What comes within three seconds."""
    flow = Flow()
    with anyio.move_on_after(3):
        await flow.run(emulator, "GET", f"/v2/pods/{pod}/logs{query}", key="any", last_event=last_event)
    return flow


async def lines(emulator: Emulator, query: str = "", *, last_event: str = "") -> list[str]:
    """Of a log with two lines in each of three seconds."""
    pod = emulator.put_pod({})
    for second in range(3):
        emulator.change_pod(pod, {"log": [f"{second}a"]})
        await anyio.sleep(0.4)
        emulator.change_pod(pod, {"log": [f"{second}b"]})
        await anyio.sleep(0.6)
    return [event["line"] for event in (await read(emulator, pod, query, last_event=last_event)).events()]


ALL = ["0a", "0b", "1a", "1b", "2a", "2b"]


@pytest.mark.parametrize(
    ("query", "last_event", "told"),
    [
        ("?since=2027-01-15T07:59:59Z", "", ALL),
        ("?since=2027-01-15T08:00:00Z", "", ALL[2:]),
        ("?since=2027-01-15T08:00:00.900Z", "", ALL[2:]),
        ("?since=2027-01-15T09:00:01%2B01:00", "", ALL[4:]),
        ("?since=2027-01-15T08:00:02Z", "", []),
        ("?since=2027-01-15T08:00:00Z&tail=1", "", ALL[2:]),
        ("", "2027-01-15T08:00:01Z/000000000003", ALL[3:]),
        ("", "2027-01-15T08:00:01Z", ALL[4:]),
        ("?since=2027-01-15T07:00:00Z&tail=1", "2027-01-15T08:00:02Z/000000000005", ["2b"]),
        ("?tail=1", "", ["2b"]),
    ],
)
def test_a_stream_goes_on_after_what_its_reader_names(query: str, last_event: str, told: list[str]) -> None:
    async def main(emulator: Emulator) -> list[str]:
        return await lines(emulator, query, last_event=last_event)

    assert on_virtual_time(main) == told


def test_who_comes_back_with_the_last_id_misses_nothing_and_reads_nothing_twice() -> None:
    async def main(emulator: Emulator) -> list[Any]:
        pod = emulator.put_pod({"log": ["one", "two"]})
        first = await read(emulator, pod)
        emulator.change_pod(pod, {"log": ["three"]})
        last = [line[4:] for line in first.body.decode().splitlines() if line.startswith("id: ")][-1]
        return [event["line"] for event in (await read(emulator, pod, last_event=last)).events()]

    assert on_virtual_time(main) == ["three"]


@pytest.mark.parametrize(
    ("query", "last_event"),
    [
        ("?since=yesterday", ""),
        ("?since=", ""),
        ("", "soon"),
        ("", f"{STARTED}/last"),
        (f"?since={STARTED}&tail=5001", ""),
    ],
)
def test_a_place_that_cannot_be_read_is_refused(query: str, last_event: str) -> None:
    async def main(emulator: Emulator) -> int | None:
        return (await read(emulator, emulator.put_pod({}), query, last_event=last_event)).status

    assert on_virtual_time(main) == 422
