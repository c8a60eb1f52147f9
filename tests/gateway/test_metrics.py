"""What is counted, and does it add up?"""

import re
from pathlib import Path

import anyio
import pytest

from controller.gateway import joined
from controller.gateway.exposition import HISTOGRAMS, Moment, exposition
from controller.gateway.passage import Passage
from controller.gateway.tally import CLIENTS_MOST, GAPS, Histogram, Numbers, Tally
from tests.gateway.test_clients import Kept, client
from tests.gateway.world import World, asking, in_world

NOTHING = Moment(open_requests={}, waiting={}, upstream_answers=0, daemon_reachable=True)


async def scraped(world: World) -> dict[str, float]:
    text = (await world.ask(b"", path="/metrics", method="GET")).body.decode()
    return {
        name.removeprefix("gpuwarden_gateway_"): float(value)
        for name, value in (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    }


def test_first_byte_and_gaps_of_a_stream_are_told_apart() -> None:
    async def scene(world: World) -> dict[str, float]:
        await world.ready()
        world.server.think_s, world.server.gap_s = 0.7, 0.15
        await world.ask(asking(stream=True))
        await world.ask(asking())
        return await scraped(world)

    found = in_world(scene)
    assert found['first_byte_seconds_count{model="m1"}'] == 2
    assert found['first_byte_seconds_sum{model="m1"}'] == pytest.approx(1.4, abs=0.01)
    assert found['stream_gap_seconds_count{model="m1"}'] == 2  # three pieces; the plain answer has none
    assert found['stream_gap_seconds_bucket{le="0.1",model="m1"}'] == 0
    assert found['stream_gap_seconds_bucket{le="0.2",model="m1"}'] == 2
    assert found['wait_seconds_count{model="m1"}'] == 0


def test_a_cold_start_is_counted_once_for_each_who_waited_and_was_served() -> None:
    async def scene(world: World) -> tuple[dict[str, float], dict[str, float]]:
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(world.ask, asking())
            await anyio.sleep(100)
            during = await scraped(world)
            world.make_ready()
        return during, await scraped(world)

    during, after = in_world(scene)
    assert (during['waiting{model="m1"}'], during['open_requests{model="m1"}']) == (3, 0)
    assert (after['wait_seconds_count{model="m1"}'], after['waiting{model="m1"}']) == (3, 0)
    assert after['wait_seconds_bucket{le="60.0",model="m1"}'] == 0
    assert after['wait_seconds_bucket{le="120.0",model="m1"}'] == 3


@pytest.mark.parametrize("by", ["client", "upstream", "gateway"])
def test_an_aborted_stream_is_counted_by_whose_doing_it_was(by: str) -> None:
    async def scene(world: World) -> dict[str, float]:
        await world.ready()
        world.server.silent, world.server.cut = by != "upstream", by == "upstream"
        if by == "upstream":
            await world.ask(asking(stream=True))
        else:
            with anyio.move_on_after(1):
                await world.ask(asking(stream=True))
            if by == "client":
                world.client.answers[-1].close()
            else:
                await world.gateway.drain()
            await anyio.sleep(0.1)
        return await scraped(world)

    found = {name: value for name, value in in_world(scene).items() if name.startswith("aborted_streams_total")}
    assert found == {f'aborted_streams_total{{by="{by}",model="m1"}}': 1}


def test_a_failure_of_a_model_server_is_counted_by_kind() -> None:
    async def scene(world: World) -> dict[str, float]:
        await world.ready()
        world.server.cut = True
        await world.ask(asking(stream=True))
        world.upstream.apps["one"] = None
        await world.ask(asking())
        return await scraped(world)

    found = in_world(scene)
    assert found['upstream_failures_total{kind="broken-stream",model="m1"}'] == 1
    assert found['upstream_failures_total{kind="unreachable",model="m1"}'] == 1


def test_bytes_and_clients_are_counted() -> None:
    async def scene(world: World) -> tuple[dict[str, float], int, int]:
        await world.ready()
        body = b'{"model": "m1", "messages": []}'
        answer = await world.ask(body, key="alice")
        await world.ask(asking("nope"), key="alice")
        return await scraped(world), len(body), len(answer.body)

    found, size_in, size_out = in_world(scene, read_clients=Kept(client("alice")).read)
    assert found['request_bytes_total{model="m1"}'] == size_in
    assert found['response_bytes_total{model="m1"}'] == size_out
    assert found['client_requests_total{client="alice",outcome="served"}'] == 1
    assert found['client_requests_total{client="alice",outcome="refused"}'] == 1


def test_only_so_many_clients_have_counts_of_their_own() -> None:
    tally = Tally()
    for number in range(CLIENTS_MOST + 10):
        tally.clients[tally.named(f"k{number}")]["served"] += 1
    assert len(tally.clients) == CLIENTS_MOST + 1
    assert tally.clients["_others"]["served"] == 10


def test_a_value_on_a_bound_is_within_it() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.001, 2.0, 2.001):
        histogram.observe(value)
    assert histogram.counts == [2, 2, 1]


def test_the_way_of_the_events_counts_as_the_plain_one_does() -> None:
    passage = Passage("r", 0.0)
    numbers = Numbers()
    passage.admitted("m1", numbers, stream=True, size=0)
    plain = Histogram(GAPS)
    at = 1.0
    passage.passed(1, at)
    for gap in (0.001, *GAPS, 100.0):
        at += gap
        passage.passed(1, at)
        plain.observe(at - (at - gap))
    assert numbers.gaps.counts == plain.counts
    assert numbers.gaps.total == pytest.approx(plain.total)


def test_each_metric_has_a_help_text_and_times_are_seconds() -> None:
    text = exposition(Tally(), NOTHING).decode()
    helps = dict(re.findall(r"(?m)^# HELP (\S+) (.+)$", text))
    names = re.findall(r"(?m)^# TYPE (\S+) ", text)
    assert set(names) == set(helps)
    assert all(says.endswith(".") and len(says) > 20 for says in helps.values())
    assert {f"gpuwarden_gateway_{name}" for name in HISTOGRAMS} <= set(names)
    assert all(name.endswith("_seconds") for name in HISTOGRAMS)


def test_every_metric_that_the_deployment_texts_name_is_one() -> None:
    text = exposition(Tally(), NOTHING).decode()
    known = set(re.findall(r"(?m)^# TYPE (\S+) ", text))
    known |= {f"{name}_{part}" for name in known for part in ("bucket", "count", "sum")} | {joined.UP.decode()}
    named = {
        name
        for path in (Path(__file__).parents[2] / "deploy").rglob("*")
        if path.is_file()
        for name in re.findall(r"gpuwarden_gateway_\w+", path.read_text())
    }
    assert named
    assert named - known == set()


@pytest.mark.parametrize(
    ("body", "options", "status"),
    [
        (asking(), {}, 200),
        (asking(stream=True), {}, 200),
        (asking("nope"), {}, 404),
        (asking(), {"key": "wrong"}, 401),
        (asking(), {"path": "/nothing"}, 404),
        (b"", {"path": "/healthz", "method": "GET"}, 200),
        (b"", {"path": "/v1/models", "method": "GET"}, 200),
    ],
)
def test_every_answer_has_an_id_of_its_own(body: object, options: dict[str, str], status: int) -> None:
    async def scene(world: World) -> list[tuple[int, bytes]]:
        await world.ready()
        answers = [await world.ask(body, **options) for _ in range(2)]
        return [(answer.status, answer.headers[b"x-request-id"]) for answer in answers]

    (one, first), (two, second) = in_world(scene)
    assert (one, two) == (status, status)
    assert first != second
    assert re.fullmatch(rb"g-[0-9a-f]{10}-[0-9a-f]+", first)


def test_the_clients_of_anthropic_find_it_under_their_own_name_too() -> None:
    async def scene(world: World) -> tuple[bytes, bytes]:
        await world.changed(wires=["chat", "messages"])
        answer = await world.ask(asking("nope", max_tokens=1), path="/v1/messages")
        return answer.headers[b"request-id"], answer.headers[b"x-request-id"]

    anthropic, ours = in_world(scene)
    assert anthropic == ours
