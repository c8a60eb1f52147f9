"""What an operator reads, and whether it is what is on record and seen."""

import re
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from controller.api.app import OPERATIONS, operators_app
from controller.api.client import Problem
from controller.core import idle, start
from controller.core.errors import Code
from controller.core.evidence import StopReason
from controller.core.orphans import Sighting, Whose
from controller.store import deployments, duties
from tests.api.world import STOP_ONLY, World, at, world
from tests.core.samples import key, resource

UNKNOWN_LOAD = dict.fromkeys(
    ("running", "waiting", "cache_use", "prompt_tokens_per_second", "answer_tokens_per_second")
)


async def test_status_of_a_quiet_daemon(house: World) -> None:
    status = await house.operator.get("/v1/status")
    assert {name: status[name] for name in ("schema", "controller", "owner", "version", "ready", "mode")} == {
        "schema": 1,
        "controller": "c-1",
        "owner": "acme",
        "version": "0.0.0",
        "ready": True,
        "mode": "normal",
    }
    assert status["installation"] == house.store.book.owner.installation
    assert (status["owed"], status["obligations_open"], status["foreign"], status["problems"]) == (0, 0, 0, [])
    assert status["listing"] == {"complete": None, "ended_at": None, "problem": None}
    assert status["started_at"] == at(house.clock.now())


async def test_status_tells_what_each_model_does_and_costs(house: World) -> None:
    until = house.clock.now() + timedelta(minutes=30)
    house.idle = idle.KeepUntil(until=until)
    await house.serve()
    await house.lease(house.streams(open=2))
    model = (await house.operator.get("/v1/status"))["models"][0]
    assert model == {
        "alias": "qwen",
        "phase": "ready",
        "deployments": ["qwen-1"],
        "routes": 1,
        "open_requests": 2,
        "load": [{"deployment": "qwen-1", "at": None, **UNKNOWN_LOAD}],
        "usd_per_hour": "0.79",
        "idle_stop_at": at(until),
        "why": "serves: 2 open requests",
        "blocked": None,
        "schedule": None,
        "volumes": [],
        "prefetches": [],
        "money": {"estimated_usd": "0.0000", "billed_usd": None, "billed_until": None},
    }


async def test_a_removed_model_that_still_lives_is_shown(tmp_path: Path) -> None:
    async with world(tmp_path, models=()) as house:
        await house.serve()
        found = (await house.operator.get("/v1/models"))["models"]
        assert [(model["alias"], model["phase"]) for model in found] == [("qwen", "ready")]
        lines = (await house.operator.get("/v1/models/qwen/explain"))["lines"]
        assert any("not in the config" in line["text"] for line in lines)


async def test_status_counts_foreign_things_and_not_ours(house: World) -> None:
    for number, whose in enumerate(Whose):
        sighting = Sighting(
            key=key(f"p{number}"),
            whose=whose,
            installation=None,
            first_at=house.clock.now(),
            last_at=house.clock.now(),
            times=1,
        )
        await house.store.write(partial(duties.sight, sighting=sighting))
    assert (await house.operator.get("/v1/status"))["foreign"] == 2


async def test_money_that_is_held_counts_in_full_until_it_is_settled(house: World) -> None:
    await house.request()
    spend = (await house.operator.get("/v1/status"))["spend"]
    assert spend == {
        "day": "2026-11-29",
        "limit_usd": "40",
        "held_usd": "9.6",
        "settled_usd": "0",
        "billed_usd": None,
        "billed_until": None,
        "exposure_usd": "9.6",
    }
    no_volumes: dict[str, Any] = {
        "usd_per_hour": "0.0000",
        "usd_per_month": "0.0000",
        "volumes": [],
        "asked_at": None,
        "problem": None,
    }
    assert await house.operator.get("/v1/spend") == {"schema": 1, **spend, "storage": no_volumes}
    house.clock.advance(timedelta(minutes=30))
    await house.operator.post("/v1/stop", {"now": True})
    obligation = house.store.book.owed()[0].id
    await house.operator.post(f"/v1/obligations/{obligation}/confirm", {"reference": "ticket 7"})
    spend = (await house.operator.get("/v1/status"))["spend"]
    assert (spend["held_usd"], spend["settled_usd"], spend["exposure_usd"]) == ("0", "0.395", "0.395")


async def test_a_deployment_is_told_with_its_exact_resource(house: World) -> None:
    await house.serve()
    found = (await house.operator.get("/v1/deployments/qwen-1"))["deployments"]
    assert found == (await house.operator.get("/v1/deployments"))["deployments"]
    told = {name: found[0][name] for name in ("id", "model", "slot", "phase", "reason", "usd_per_hour", "evidence")}
    assert told == {
        "id": "qwen-1",
        "model": "qwen",
        "slot": 0,
        "phase": "active",
        "reason": None,
        "usd_per_hour": "0.79",
        "evidence": None,
    }
    assert found[0]["resource"] == {
        "provider": "runpod",
        "account": "main",
        "name": "gpuwarden-qwen",
        "incarnation": "p1",
    }
    with pytest.raises(Problem) as caught:
        await house.operator.get("/v1/deployments/qwen-9")
    assert caught.value.code == "not_found"


async def test_a_deployment_that_ended_is_listed_for_a_day_and_found_by_its_id_beyond(house: World) -> None:
    await house.serve()
    await house.operator.post("/v1/stop", {"now": True})
    obligation = house.store.book.owed()[0].id
    await house.operator.post(f"/v1/obligations/{obligation}/confirm", {"reference": "ticket 7"})
    listed = []
    for span in (timedelta(days=1), timedelta(milliseconds=1)):
        house.clock.advance(span)
        listed.append([found["id"] for found in (await house.operator.get("/v1/deployments"))["deployments"]])
    assert listed == [["qwen-1"], []]
    assert (await house.operator.get("/v1/deployments/qwen-1"))["deployments"][0]["phase"] == "stopped"


async def test_an_owed_stop_tells_what_it_waits_for(house: World) -> None:
    await house.serve()
    house.clock.advance(timedelta(seconds=5))
    await house.operator.post("/v1/stop", {"now": True})
    (found,) = (await house.operator.get("/v1/obligations"))["obligations"]
    assert found["due"] is True
    assert found["due_at"] == at(house.clock.now())
    assert found["reason"] == "operator-request"
    assert found["waiting_for"] == "a complete listing without it"
    assert (found["attempts"], found["last_stop_at"], found["ended_at"], found["ending"]) == (0, None, None, None)


async def test_ended_obligations_are_told_on_request_and_open_ones_once(house: World) -> None:
    await house.serve()
    await house.operator.post("/v1/stop", {"now": True})
    ended = house.store.book.owed()[0].id
    await house.operator.post(f"/v1/obligations/{ended}/confirm", {"reference": "ticket 7"})
    house.clock.advance(timedelta(seconds=1))
    await house.request("qwen-2", incarnation="p2")
    shown = (await house.operator.get("/v1/obligations"))["obligations"]
    every = (await house.operator.get("/v1/obligations?all=1"))["obligations"]
    assert [duty["deployment"] for duty in shown] == ["qwen-2"]
    assert [(duty["deployment"], duty["ending"]) for duty in every] == [("qwen-1", "discharged"), ("qwen-2", None)]
    assert every[0]["evidence"]["reference"] == "ticket 7"


# Explaining


async def texts(house: World) -> list[str]:
    lines = (await house.operator.get("/v1/models/qwen/explain"))["lines"]
    return [line["text"] for line in lines]


async def test_explain_says_why_nothing_runs(house: World) -> None:
    assert await texts(house) == ["off: nobody asks for it"]
    await house.operator.post("/v1/models/qwen/start")
    assert await texts(house) == ["wanted: about to be started"]
    house.refusals["qwen"] = start.Refuse(code=Code.NO_CAPACITY, reason="none left", final=False)
    assert await texts(house) == ["not started: none left"]


async def test_explain_says_why_it_runs_until_when_and_for_how_much(house: World) -> None:
    await house.serve()
    house.clock.advance(timedelta(hours=1))
    until = house.clock.now() + timedelta(minutes=20)
    house.idle = idle.KeepUntil(until=until)
    lines = (await house.operator.get("/v1/models/qwen/explain"))["lines"]
    assert [line["text"] for line in lines] == [
        "serves: 0 open requests",
        "L40S costs $0.79 an hour, about $0.7900 so far; billed: unknown so far",
        "stopped when idle, if nobody comes",
        "stopped at the end of its lifetime",
        "its stop will be owed one day; nothing is due",
    ]
    assert lines[2]["until"] == at(until)
    assert lines[3]["until"] == at(house.clock.now() - timedelta(hours=1) + timedelta(days=7))


@pytest.mark.parametrize(("listed", "told"), [("0.79", False), ("0.797", False), ("0.80", True), (None, False)])
async def test_a_machine_below_the_list_price_is_never_taken_for_one_on_demand(
    house: World, listed: str | None, told: bool
) -> None:
    await house.serve()
    prices = {} if listed is None else {"L40S": Decimal(listed)}
    house.panel.view.publish(replace(house.panel.view.value, usd_per_hour=prices))
    told_of = [text for text in await texts(house) if "taken away at any time" in text]
    (shown,) = (await house.operator.get("/v1/deployments"))["deployments"]
    assert (len(told_of), shown["usd_per_hour"]) == (int(told), "0.79")
    assert shown["listed_usd_per_hour"] == (None if listed is None else str(Decimal(listed).normalize()))


async def test_explain_says_what_is_owed_and_which_proof_is_missing(house: World) -> None:
    await house.serve()
    await house.store.write(lambda tx: deployments.require_stop(tx, house.record(), StopReason.CRASH_LOOP))
    found = await texts(house)
    assert found[0] == "stopping: crash-loop"
    assert found[-1] == "stop owed (crash-loop), not asked for yet; waiting for a complete listing without it"


async def test_explain_of_an_unknown_model_is_a_404(house: World) -> None:
    with pytest.raises(Problem) as caught:
        await house.operator.get("/v1/models/llama/explain")
    assert (caught.value.status, caught.value.code) == (404, "unknown_model")


# Evidence


async def test_evidence_is_told_in_order_from_a_number_on(house: World) -> None:
    await house.request()
    every = await house.operator.get("/v1/evidence")
    assert [line["seq"] for line in every["lines"]] == list(range(1, every["last"] + 1))
    after = await house.operator.get("/v1/evidence?after=2&limit=1")
    assert ([line["seq"] for line in after["lines"]], after["last"]) == ([3], 3)
    assert (await house.operator.get(f"/v1/evidence?after={every['last']}"))["lines"] == []


async def test_who_waits_for_evidence_is_answered_by_the_next_line(house: World) -> None:
    answers: list[dict[str, Any]] = []

    async def follow() -> None:
        answers.append(await house.operator.get("/v1/evidence?after=0&wait=60"))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(follow)
            await anyio.wait_all_tasks_blocked()
            await house.declare()
    assert answers[0]["lines"][0]["seq"] == 1


@pytest.mark.parametrize("query", ["after=x", "limit=0", "limit=1001", "wait=-1"])
async def test_a_wrong_query_for_evidence_is_refused(house: World, query: str) -> None:
    with pytest.raises(Problem) as caught:
        await house.operator.get(f"/v1/evidence?{query}")
    assert (caught.value.status, caught.value.code) == (400, "bad_request")


# Readiness


async def reasons(house: World) -> str:
    with pytest.raises(Problem) as caught:
        await house.operator.get("/readyz")
    assert caught.value.status == 503
    return caught.value.detail


async def test_a_daemon_without_any_listing_yet_is_ready(house: World) -> None:
    assert (await house.operator.get("/readyz"))["ready"] is True


async def test_a_failing_task_is_named(house: World) -> None:
    house.pulses[0].failures, house.pulses[0].problem = 2, "Timeout: no answer"
    assert await reasons(house) == "task observer failed 2 times in a row: Timeout: no answer"
    assert (await house.operator.get("/v1/status"))["ready"] is False


async def test_a_task_is_silent_after_three_periods(house: World) -> None:
    house.clock.advance(timedelta(seconds=180))
    assert (await house.operator.get("/readyz"))["ready"] is True
    house.clock.advance(timedelta(milliseconds=1))
    assert "task observer is silent" in await reasons(house)


async def test_a_clock_in_doubt_is_not_ready_and_one_that_the_provider_backs_is(house: World) -> None:
    house.clock.ahead = timedelta(hours=-2)
    assert "7200 s behind our time, and nothing else says what we say" in await reasons(house)
    house.store.clock.hear(house.clock.now(), round_trip=timedelta(seconds=1))
    assert (await house.operator.get("/readyz"))["ready"] is True


async def test_a_store_that_cannot_be_written_is_not_ready(house: World) -> None:
    house.store.unwritable_since = house.clock.now()
    with pytest.raises(Problem) as caught:
        await house.operator.get("/readyz")
    assert caught.value.code == "store_unavailable"


async def test_a_stop_only_daemon_is_not_ready_and_tells_its_problems(tmp_path: Path) -> None:
    async with world(tmp_path, mode=STOP_ONLY) as house:
        assert "stop-only" in await reasons(house)
        status = await house.operator.get("/v1/status")
        assert (status["mode"], status["problems"][0]) == ("stop-only", "models.qwen.gpus: unknown")
        assert (await house.operator.get("/healthz"))["ok"] is True


# Metrics


async def metric(house: World, name: str) -> str | None:
    page = await house.operator.text("/metrics")
    found = re.search(rf"^gpuwarden_{re.escape(name)} (\S+)$", page, re.MULTILINE)
    return None if found is None else found.group(1)


async def test_metrics_count_what_was_written_down_once(house: World) -> None:
    await house.serve()
    await house.operator.post("/v1/stop", {"now": True})
    for _ in range(2):
        assert await metric(house, "starts_total") == "1"
        assert await metric(house, 'stops_owed_total{reason="operator-request"}') == "1"
    assert await metric(house, 'creates_total{answer="accepted"}') == "1"


async def test_metrics_tell_how_many_obligations_ended_and_by_how(house: World) -> None:
    record = await house.serve()
    await house.store.write(lambda tx: deployments.hand_over(tx, tx.record(record.id), epoch=99))
    assert await metric(house, 'obligations_ended{ending="transferred"}') == "1"
    assert await metric(house, 'obligations_ended{ending="discharged"}') == "0"


async def test_metrics_tell_the_age_of_the_oldest_owed_stop(house: World) -> None:
    assert await metric(house, "owed_stop_oldest_seconds") == "0"
    await house.serve()
    await house.operator.post("/v1/stop", {"now": True})
    house.clock.advance(timedelta(seconds=40))
    assert await metric(house, "owed_stop_oldest_seconds") == "40"
    assert await metric(house, "owed_stops") == "1"


async def test_what_was_not_seen_yet_is_left_out(house: World) -> None:
    assert await metric(house, "listing_complete") is None
    house.show(resource())
    house.clock.advance(timedelta(seconds=7))
    assert await metric(house, "listing_complete") == "1"
    assert await metric(house, "listing_age_seconds") == "7"


async def test_every_line_of_the_metrics_can_be_parsed(house: World) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    await house.serve()
    families = list(text_string_to_metric_families(await house.operator.text("/metrics")))
    assert len({family.name for family in families}) == len(families)
    assert all(family.documentation for family in families)


# The description


async def test_the_description_names_what_the_app_answers_and_nothing_else(house: World) -> None:
    described = await house.operator.get("/openapi.json")
    named = {(path, method.upper()) for path, item in described["paths"].items() for method in item}
    answered = {
        (getattr(route, "path"), method)  # noqa: B009 - not every kind of route has them
        for route in operators_app(house.panel).routes
        for method in getattr(route, "methods") - {"HEAD"}  # noqa: B009
    }
    assert named == answered
    assert len(named) == len(OPERATIONS)


async def test_every_parameter_of_a_path_is_described(house: World) -> None:
    described = await house.operator.get("/openapi.json")
    for path, item in described["paths"].items():
        for operation in item.values():
            names = {found["name"] for found in operation.get("parameters", []) if found["in"] == "path"}
            assert names == set(re.findall(r"{(\w+)}", path))
