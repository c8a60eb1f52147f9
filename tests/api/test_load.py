"""Is what ready machines say of themselves shown where it is known, and left out where it is not?"""

from dataclasses import replace

from controller.core.crash_loop import Starts
from controller.core.deployment import Record
from controller.core.readiness import Verdict
from controller.core.runtime import Runtime, Scrape
from controller.core.topology import Topology
from controller.core.view import Probed
from tests.api.world import World, at

BUSY = Scrape(running=2.0, waiting=0.0, cache_use=0.25)


def told(house: World, record: Record, scrape: Scrape, *, answer_rate: float | None = None) -> None:
    now = house.clock.now()
    runtime = Runtime(at=now, scrape=scrape, answer_rate=answer_rate)
    probed = Probed(verdict=Verdict.READY, served=None, detail="", at=now, runtime=runtime)
    view = house.panel.view.value
    house.panel.view.publish(replace(view, probes={**view.probes, record.id: probed}))


async def test_status_shows_what_each_machine_says_and_null_for_what_it_does_not(house: World) -> None:
    told(house, await house.serve(), BUSY, answer_rate=41.5)
    (machine,) = (await house.operator.get("/v1/status"))["models"][0]["load"]
    assert machine == {
        "deployment": "qwen-1",
        "at": at(house.clock.now()),
        "running": 2.0,
        "waiting": 0.0,
        "cache_use": 0.25,
        "prompt_tokens_per_second": None,
        "answer_tokens_per_second": 41.5,
    }


async def test_what_does_not_serve_yet_has_no_load(house: World) -> None:
    await house.request()
    assert (await house.operator.get("/v1/status"))["models"][0]["load"] == []


async def test_explain_tells_it_in_words(house: World) -> None:
    told(house, await house.serve(), BUSY, answer_rate=41.5)
    texts = [line["text"] for line in (await house.operator.get("/v1/models/qwen/explain"))["lines"]]
    assert "its server counts: 2 running, 0 waiting, cache 25% full, 41.5 tokens written a second" in texts


async def test_explain_tells_how_several_cards_reach_each_other(house: World) -> None:
    record = await house.serve()
    met = Starts(topology=Topology(ranks=2, nodes=1, ways=("SHM",)))
    await house.store.write(lambda tx: tx.put_starts(record.id, met))
    texts = [line["text"] for line in (await house.operator.get("/v1/models/qwen/explain"))["lines"]]
    assert "NCCL counts 2 cards in one machine, which reach each other by SHM" in texts


async def test_monitoring_reads_known_numbers_and_no_line_for_unknown_ones(house: World) -> None:
    told(house, await house.serve(), BUSY)
    page = await house.operator.text("/metrics")
    assert 'gpuwarden_model_requests_running{model="qwen"} 2\n' in page
    assert 'gpuwarden_model_cache_use_ratio{model="qwen"} 0.25\n' in page
    assert "gpuwarden_model_answer_tokens_per_second{" not in page


async def test_a_sum_is_unknown_where_one_machine_does_not_tell_its_part(house: World) -> None:
    first, second = await house.serve(), await house.serve("qwen-2", slot=1, incarnation="p2")
    told(house, first, BUSY)
    assert "gpuwarden_model_requests_running{" not in await house.operator.text("/metrics")
    told(house, second, Scrape(running=3.0, cache_use=0.75))
    page = await house.operator.text("/metrics")
    assert 'gpuwarden_model_requests_running{model="qwen"} 5\n' in page
    assert 'gpuwarden_model_cache_use_ratio{model="qwen"} 0.75\n' in page
    assert "gpuwarden_model_requests_waiting{" not in page
