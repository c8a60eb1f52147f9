"""Does a call go wrong exactly as a test ordered, and does what was done stay done?"""

from typing import Any

import anyio
import httpx
import pytest

from controller.emulators.runpod import BadControl
from tests.emulators.world import START, VLLM_BODY, World
from tests.support.virtual_time import run_virtual

CREATE = {"method": "POST", "path": "/v2/pods"}


def order(world: World, do: dict[str, Any], **match: Any) -> None:
    world.emulator.add_faults([{"match": match or CREATE, "times": 1, "do": do}])


@pytest.mark.parametrize(("effect", "made"), [(True, 1), (False, 0)])
async def test_an_ordered_answer_comes_with_or_without_the_effect(effect: bool, made: int) -> None:
    world = World()
    order(world, {"answer": 500, "body": {"error": "read-back failed"}, "effect": effect})
    answer = await world.client.post("/v2/pods", json=VLLM_BODY)
    assert (answer.status_code, answer.json()) == (500, {"error": "read-back failed"})
    assert len(await world.listed()) == made
    assert world.effects()[0] == ("created" if effect else "none")


async def test_an_ordered_refusal_without_a_body_is_a_problem_with_the_ordered_headers() -> None:
    world = World()
    order(world, {"answer": 429, "headers": {"Retry-After": "120"}})
    answer = await world.client.post("/v2/pods", json=VLLM_BODY)
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "120")
    assert (answer.headers["content-type"], answer.json()["status"]) == ("application/problem+json", 429)


@pytest.mark.parametrize(("when", "made"), [("before", 0), ("after", 1)])
async def test_a_dropped_call_has_its_effect_only_after_it(when: str, made: int) -> None:
    world = World()
    order(world, {"drop": when})
    with pytest.raises(httpx.RemoteProtocolError):
        await world.client.post("/v2/pods", json=VLLM_BODY)
    assert len(await world.listed()) == made
    assert world.emulator.truth()["calls"][0]["status"] is None


def test_a_hanging_call_has_its_effect_and_gives_no_answer() -> None:
    async def main() -> int:
        world = World()
        order(world, {"hang": 3600, "effect": True})
        with pytest.raises(TimeoutError), anyio.fail_after(30):
            await world.client.post("/v2/pods", json=VLLM_BODY)
        return len(await world.listed())

    assert run_virtual(main) == 1


def test_a_delayed_create_happens_at_its_time_though_its_client_has_gone() -> None:
    async def main() -> World:
        world = World()
        order(world, {"delay": 45})
        with pytest.raises(TimeoutError), anyio.fail_after(30):
            await world.client.post("/v2/pods", json=VLLM_BODY)
        assert await world.listed() == []
        world.now += 46
        assert len(await world.listed()) == 1
        return world

    world = run_virtual(main)
    (pod,) = world.emulator.truth()["pods"]
    assert (pod["created_at"], world.effects()[0]) == (START + 45, "created")


@pytest.mark.parametrize(
    ("kind", "said"),
    [("html", b"<!DOCTYPE html>"), ("null", b"null"), ("empty", b""), ("wrong-type", b'{"pods":{"id":7}')],
)
async def test_a_spoilt_answer_follows_a_real_effect(kind: str, said: bytes) -> None:
    world = World()
    order(world, {"malformed": kind})
    answer = await world.client.post("/v2/pods", json=VLLM_BODY)
    assert answer.content.startswith(said)
    assert 200 <= answer.status_code < 300
    assert len(await world.listed()) == 1


async def test_a_spoilt_answer_to_a_delete_has_a_body() -> None:
    world = World()
    pod = await world.create()
    order(world, {"malformed": "null"}, method="DELETE", path="/v2/pods/*")
    answer = await world.client.delete(f"/v2/pods/{pod}")
    assert (answer.status_code, answer.content, await world.listed()) == (200, b"null", [])


async def test_a_truncated_answer_breaks_off() -> None:
    world = World()
    order(world, {"malformed": "truncated"})
    with pytest.raises(httpx.RemoteProtocolError):
        await world.client.post("/v2/pods", json=VLLM_BODY)


async def test_a_huge_answer_is_of_many_megabytes() -> None:
    world = World()
    order(world, {"malformed": "huge"})
    assert len((await world.client.post("/v2/pods", json=VLLM_BODY)).content) > 30_000_000


async def test_a_listing_can_leave_pods_out() -> None:
    world = World()
    kept, omitted = await world.create(), await world.create()
    order(world, {"omit": [omitted]}, method="GET", path="/v2/pods")
    assert await world.listed() == [kept]
    assert set(await world.listed()) == {kept, omitted}


async def test_an_ignored_delete_says_yes_and_leaves_the_pod_running() -> None:
    world = World()
    pod = await world.create()
    order(world, {"ignore": True}, method="DELETE", path="/v2/pods/*")
    assert (await world.client.delete(f"/v2/pods/{pod}")).status_code == 204
    assert (await world.listed(), world.effects()[1]) == ([pod], "none")
    await world.client.delete(f"/v2/pods/{pod}")
    assert await world.listed() == []


async def test_an_ignored_create_answers_201_and_makes_nothing() -> None:
    world = World(stock={"NVIDIA A40": 1})
    order(world, {"ignore": True})
    assert (await world.client.post("/v2/pods", json=VLLM_BODY)).status_code == 201
    assert (world.emulator.truth()["pods"], world.emulator.spend_per_hour()) == ([], 0)
    await world.create()


async def test_rules_skip_count_down_and_the_first_that_fits_wins() -> None:
    world = World()
    world.emulator.add_faults(
        [
            {"match": {"path": "/v2/pods"}, "skip": 1, "times": 2, "do": {"answer": 503}},
            {"match": {"path": "/v2/*"}, "do": {"answer": 404}},
        ]
    )
    seen = [(await world.client.get("/v2/pods")).status_code for _ in range(4)]
    world.emulator.clear_faults()
    seen.append((await world.client.get("/v2/pods")).status_code)
    assert seen == [404, 503, 503, 404, 200]


async def test_a_rule_can_name_a_pod_by_its_id_or_its_name() -> None:
    world = World()
    one, other = await world.create(name="one"), await world.create(name="other")
    world.emulator.add_faults([{"match": {"path": "*", "pod": "one"}, "do": {"answer": 500}}])
    world.emulator.add_faults([{"match": {"path": "*", "pod": other}, "do": {"answer": 502}}])
    seen = [(await world.client.get(f"/v2/pods/{pod}")).status_code for pod in (one, other)]
    assert seen == [500, 502]


async def test_the_proxy_suffers_faults_too() -> None:
    world = World()
    pod = await world.ready_pod()
    order(world, {"answer": 503, "body": "no"}, path=f"/proxy/{pod}/*")
    assert (await world.ask(pod, "/health")).status_code == 503
    assert (await world.ask(pod, "/health")).status_code == 200


async def test_rules_given_together_are_taken_back_together() -> None:
    world = World()
    lasting = world.emulator.add_faults([{"match": {"path": "/v2/pods"}, "do": {"answer": 503}}])
    world.emulator.add_faults([{"match": {"path": "/v2/*"}, "do": {"answer": 404}}])
    seen = [(await world.client.get("/v2/pods")).status_code]
    world.emulator.remove_faults(lasting)
    seen.append((await world.client.get("/v2/pods")).status_code)
    assert (seen, lasting.spent) == ([503, 404], False)


async def test_an_order_is_spent_when_each_of_its_rules_was_used_so_often() -> None:
    world = World()
    made = world.emulator.add_faults([{"times": 2, "do": {"answer": 503}}])
    spent = []
    for _ in range(3):
        await world.client.get("/v2/pods")
        spent.append(made.spent)
    assert spent == [False, True, True]


async def test_a_listing_can_show_its_entries_twice() -> None:
    world = World()
    pod = await world.create()
    order(world, {"twice": True}, method="GET", path="/v2/pods")
    assert [await world.listed(), await world.listed()] == [[pod, pod], [pod]]


def test_what_is_late_can_be_made_to_happen_at_once() -> None:
    async def main() -> tuple[list[str], list[str]]:
        world = World(list_lag_seconds=600)
        order(world, {"delay": 900})
        with pytest.raises(TimeoutError), anyio.fail_after(30):
            await world.client.post("/v2/pods", json=VLLM_BODY)
        before = await world.listed()
        world.emulator.catch_up()
        return before, await world.listed()

    before, after = run_virtual(main)
    assert (before, len(after)) == ([], 1)


@pytest.mark.parametrize(
    ("rule", "key"),
    [
        ({"do": {"explode": True}}, "[0].do.explode"),
        ({"do": {}}, "[0].do"),
        ({"do": {"answer": 500, "drop": "after"}}, "[0].do"),
        ({"do": {"answer": 42}}, "[0].do.answer"),
        ({"do": {"drop": "during"}}, "[0].do.drop"),
        ({"match": {"colour": "red"}, "do": {"answer": 500}}, "[0].match.colour"),
        ({"times": -1, "do": {"answer": 500}}, "[0].times"),
        ({"match": {}}, "[0].do"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused_by_its_key(rule: dict[str, Any], key: str) -> None:
    with pytest.raises(BadControl) as refusal:
        World().emulator.add_faults([rule])
    assert refusal.value.key == key
