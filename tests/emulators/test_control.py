"""Can tests see the truth and make things happen, in process and over HTTP alike?"""

from typing import Any

import pytest

from controller.emulators.runpod import BadControl, Settings
from tests.emulators.world import START, World


async def test_the_truth_keeps_deleted_pods_and_every_call() -> None:
    world = World()
    pod = await world.create()
    world.now += 5
    await world.client.delete(f"/v2/pods/{pod}")
    truth = (await world.client.get("/_emulator/truth")).json()
    assert (truth["now"], len(truth["pods"])) == (START + 5, 1)
    assert truth["pods"][0].items() >= {"id": pod, "status": "TERMINATED", "deleted_at": START + 5}.items()
    assert [(call["method"], call["status"], call["effect"], call["at"]) for call in truth["calls"]] == [
        ("POST", 201, "created", START),
        ("DELETE", 204, "deleted", START + 5),
    ]


async def test_settings_and_faults_are_changed_over_http_without_being_counted_as_calls() -> None:
    world = World()
    assert (await world.client.patch("/_emulator/settings", json={"page_size": 7})).json()["page_size"] == 7
    rule = {"match": {"path": "/v2/pods"}, "do": {"answer": 503}}
    assert (await world.client.post("/_emulator/faults", json=[rule])).status_code == 204
    assert (await world.client.get("/v2/pods")).status_code == 503
    assert (await world.client.delete("/_emulator/faults")).status_code == 204
    assert (await world.client.get("/v2/pods")).status_code == 200
    assert len(world.emulator.truth()["calls"]) == 2


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"page_sise": 1}, "page_sise"),
        ({"page_size": 0}, "page_size"),
        ({"boot_seconds": -1}, "boot_seconds"),
        ({"boot_seconds": "soon"}, "boot_seconds"),
        ({"echo_env": "some"}, "echo_env"),
        ({"stock": {"NVIDIA A40": "FEW"}}, "stock.NVIDIA A40"),
        ({"exec": {"*": "program"}}, "exec.*"),
        ({"provisioning": 1}, "provisioning"),
    ],
)
async def test_a_wrong_setting_is_422_by_its_key_and_changes_nothing(change: dict[str, Any], key: str) -> None:
    world = World()
    before = (await world.client.get("/_emulator/settings")).json()
    answer = await world.client.patch("/_emulator/settings", json={"token_rate": 9} | change)
    assert (answer.status_code, answer.json()["errors"]) == (422, [key])
    assert (await world.client.get("/_emulator/settings")).json() == before


def test_a_wrong_setting_is_refused_at_construction_too() -> None:
    with pytest.raises(BadControl, match="boot_seconds"):
        Settings(boot_seconds=-1)


async def test_the_controls_are_for_this_machine_only() -> None:
    world = World()
    sent: list[Any] = []
    scope = {"type": "http", "method": "GET", "path": "/_emulator/truth", "headers": [], "client": ("203.0.113.9", 1)}
    messages = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> dict[str, Any]:
        return messages.pop() if messages else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    await world.app(scope, receive, send)
    assert sent[0]["status"] == 403


async def test_a_pod_that_nobody_asked_for_appears_with_its_age_and_bill() -> None:
    world = World()
    pod = world.emulator.put_pod({"name": "theirs", "env": {"OWNER": "them"}, "created_at": START - 3600})
    shown = await world.read(pod)
    assert (shown["name"], shown["env"], shown["status"]) == ("theirs", {"OWNER": "them"}, "RUNNING")
    assert shown["createdAt"] == "2027-01-15T07:00:00.000Z"
    assert world.truth_of(pod)["billed_seconds"] == 3600
    assert world.effects() == ["none"]


async def test_another_accounts_view_shows_that_accounts_pods_only() -> None:
    world = World()
    own = await world.create()
    world.emulator.change_settings({"account": "other"})
    assert await world.listed() == []
    assert (await world.client.get(f"/v2/pods/{own}")).status_code == 404
    world.emulator.change_settings({"account": "main"})
    assert await world.listed() == [own]


@pytest.mark.parametrize("word", ["EXITED", "ERROR", "RUNNING", "HIBERNATING"])
async def test_a_status_word_is_shown_as_ordered(word: str) -> None:
    world = World(unheard_of=word == "HIBERNATING")
    pod = await world.ready_pod()
    world.emulator.change_pod(pod, {"status": word})
    assert (await world.read(pod))["status"] == word


async def test_a_pod_ordered_terminated_is_readable_as_such_but_not_listed() -> None:
    world = World()
    pod = await world.ready_pod()
    world.emulator.change_pod(pod, {"status": "TERMINATED"})
    assert ((await world.read(pod))["status"], await world.listed()) == ("TERMINATED", [])
    assert world.truth_of(pod)["deleted_at"] == world.now


async def test_a_vanished_pod_is_gone_and_bills_no_more() -> None:
    world = World()
    pod = await world.ready_pod()
    world.emulator.change_pod(pod, {"vanish": True})
    world.now += 100
    assert (await world.listed(), world.truth_of(pod)["billed_seconds"]) == ([], 60)


async def test_a_migrated_pod_has_the_same_tags_under_a_new_id() -> None:
    world = World()
    old = await world.ready_pod(env={"TAG": "mine"})
    new = world.emulator.change_pod(old, {"migrate": True})
    shown = await world.read(new)
    assert (new != old, shown["env"], shown["name"]) == (True, {"TAG": "mine"}, "a-vllm")
    assert (await world.client.get(f"/v2/pods/{old}")).status_code == 404


@pytest.mark.parametrize("moves", [True, False])
async def test_a_restarted_container_falls_back_in_uptime_and_moves_its_start_only_if_so_set(moves: bool) -> None:
    world = World(started_at_moves=moves)
    pod = await world.ready_pod()
    before = (await world.read(pod))["startedAt"]
    world.emulator.change_pod(pod, {"restart": True})
    world.now += 2
    shown = await world.read(pod)
    assert (shown["status"], shown["runtime"]["uptime"]) == ("RUNNING", 2)
    assert (shown["startedAt"] != before) is moves


async def test_a_crash_loop_shows_as_uptime_that_falls_back_and_a_status_that_flips() -> None:
    world = World(boot_seconds=0, ready_seconds=5)
    pod = await world.create()
    world.emulator.change_pod(pod, {"upstream": {"crash_every_seconds": 40}})
    seen = []
    for passed in (39, 41, 51, 79, 81):
        world.now = START + passed
        shown = await world.read(pod)
        seen.append((shown["status"], (shown["runtime"] or {}).get("uptime")))
    assert seen == [("RUNNING", 39), ("STARTING", None), ("RUNNING", 1), ("RUNNING", 29), ("STARTING", None)]


async def test_orders_in_the_settings_hold_for_every_new_pod() -> None:
    world = World(boot_seconds=0, upstream={"crash_every_seconds": 40})
    first, second = await world.create(), await world.create()
    world.now += 41
    assert [(await world.read(pod))["status"] for pod in (first, second)] == ["STARTING", "STARTING"]


async def test_a_pod_can_lose_its_gpus() -> None:
    world = World()
    pod = await world.ready_pod()
    world.emulator.change_pod(pod, {"gpu_count": 0})
    shown = await world.read(pod)
    assert (shown["gpu"]["count"], shown["runtime"]["gpus"]) == (0, [])
    assert (await world.ask(pod, "/health")).status_code == 502


async def test_a_pod_is_changed_over_http_and_a_migration_answers_with_the_new_one() -> None:
    world = World()
    put = (await world.client.post("/_emulator/pods", json={"name": "theirs"})).json()
    moved = (await world.client.patch(f"/_emulator/pods/{put['id']}", json={"migrate": True})).json()
    assert (moved["name"], moved["id"] != put["id"]) == ("theirs", True)
    assert (await world.client.patch("/_emulator/pods/none", json={})).status_code == 404


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"colour": "red"}, "colour"),
        ({"status": "running"}, "status"),
        ({"upstream": {"state": "tired"}}, "upstream.state"),
        ({"upstream": {"crash_every_seconds": 0}}, "upstream.crash_every_seconds"),
        ({"upstream": {"mood": 1}}, "upstream.mood"),
        ({"env": {"A": 1}}, "env"),
    ],
)
async def test_a_wrong_change_of_a_pod_is_refused_by_its_key(change: dict[str, Any], key: str) -> None:
    world = World()
    pod = await world.create()
    with pytest.raises(BadControl) as refusal:
        world.emulator.change_pod(pod, change)
    assert refusal.value.key == key
