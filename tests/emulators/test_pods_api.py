"""Does the emulated API answer about pods as Runpod's documents say?"""

from typing import Any

import pytest

from tests.emulators.world import A40, START, VLLM_BODY, World


async def test_a_pod_goes_from_provisioning_over_starting_to_running_by_the_clock() -> None:
    world = World(boot_seconds=20)
    pod = await world.create()
    seen = []
    for passed in (0, 4.9, 5, 19.9, 20):
        world.now = START + passed
        seen.append((await world.read(pod))["status"])
    assert seen == ["PROVISIONING", "PROVISIONING", "STARTING", "STARTING", "RUNNING"]


async def test_runtime_is_null_until_the_container_runs_and_then_counts_up() -> None:
    world = World(boot_seconds=20)
    pod = await world.create()
    world.now += 19
    assert (await world.read(pod))["runtime"] is None
    world.now += 11
    assert (await world.read(pod))["runtime"]["uptime"] == 10


async def test_running_is_said_at_once_without_a_runtime_when_so_set() -> None:
    world = World(provisioning=False)
    pod = await world.read(await world.create())
    assert (pod["status"], pod["runtime"], pod["startedAt"]) == ("RUNNING", None, None)


async def test_a_deleted_pod_is_404_and_unlisted() -> None:
    world = World()
    pod = await world.create()
    assert (await world.client.delete(f"/v2/pods/{pod}")).status_code == 204
    again = await world.client.delete(f"/v2/pods/{pod}")
    assert (again.status_code, again.json()["detail"], await world.listed()) == (404, "pod not found", [])
    assert world.truth_of(pod)["deleted_at"] == START


async def test_a_deleted_pod_is_shown_for_the_stop_lag_but_does_not_bill() -> None:
    world = World(stop_lag_seconds=30)
    pod = await world.create()
    world.now += 10
    await world.client.delete(f"/v2/pods/{pod}")
    world.now += 29
    assert await world.listed() == [pod]
    world.now += 1
    assert (await world.listed(), world.truth_of(pod)["billed_seconds"]) == ([], 10)


async def test_a_new_pod_is_unlisted_and_404_for_its_lags() -> None:
    world = World(list_lag_seconds=20, get_lag_seconds=5)
    pod = await world.create()
    world.now += 4.9
    assert (await world.client.get(f"/v2/pods/{pod}")).status_code == 404
    world.now += 0.1
    assert ((await world.client.get(f"/v2/pods/{pod}")).status_code, await world.listed()) == (200, [])
    world.now = START + 20
    assert await world.listed() == [pod]


async def test_a_listing_is_paged_newest_first_and_says_when_it_ends() -> None:
    world = World(page_size=2)
    made = []
    for _ in range(5):
        made.append(await world.create())
        world.now += 1
    seen: list[str] = []
    pages, cursor = 0, None
    while pages == 0 or cursor is not None:
        page = (await world.client.get("/v2/pods", params={"cursor": cursor} if cursor else {})).json()
        seen += [pod["id"] for pod in page["pods"]]
        pages, cursor = pages + 1, page["pagination"]["nextCursor"]
        assert page["pagination"]["hasNextPage"] is (cursor is not None)
    assert (seen, pages) == (made[::-1], 3)


@pytest.mark.parametrize("cursor", ["nonsense", "7b7d", "5b5d"])
async def test_a_malformed_cursor_is_422(cursor: str) -> None:
    assert (await World().client.get("/v2/pods", params={"cursor": cursor})).status_code == 422


async def test_a_cursor_is_good_only_for_the_parameters_that_it_came_from() -> None:
    world = World(page_size=1)
    await world.create()
    await world.create()
    cursor = (await world.client.get("/v2/pods")).json()["pagination"]["nextCursor"]
    answer = await world.client.get("/v2/pods", params={"cursor": cursor, "includeClusterPods": "true"})
    assert answer.status_code == 422


async def test_unknown_query_parameters_are_ignored() -> None:
    world = World()
    await world.create()
    assert len((await world.client.get("/v2/pods?desiredStatus=EXITED")).json()["pods"]) == 1


@pytest.mark.parametrize(
    ("change", "status", "said"),
    [
        ({"surprise": 1}, 422, "$: additional properties 'surprise' not allowed"),
        ({"name": ""}, 422, "$.name: minLength: got 0, want 1"),
        ({"env": {"A": 1}}, 422, "$.env.A: got number, want string"),
        ({"gpu": {"id": "NVIDIA A40", "count": 0}}, 422, "$.gpu.count: minimum: got 0, want 1"),
        ({"gpu": {"id": "NVIDIA A40", "colour": "red"}}, 422, "$.gpu: additional properties 'colour' not allowed"),
        ({"gpu": {"id": "Voodoo 2", "count": 1}}, 422, "$.gpu.id: unknown GPU type 'Voodoo 2'"),
        ({"cloud": "ANY"}, 422, "$.cloud: value must be one of 'SECURE', 'COMMUNITY'"),
        ({"cpu": {"id": "cpu3c", "vcpuCount": 2}}, 400, "exactly one of gpu or cpu must be set"),
        ({"mounts": {"persistent": {"size": 5, "path": "/w"}}}, 422, "minimum: got 5, want 10"),
        ({"dataCenterIds": ["XX-NOWHERE-1"]}, 400, "There are no longer any instances available"),
        ({"gpu": {"id": "NVIDIA A40", "count": 11}}, 400, "There are no longer any instances available"),
        ({"templateId": "t"}, 404, "template not found"),
        ({"args": "x" * 102_400}, 413, "request body too large"),
    ],
)
async def test_a_create_that_breaks_a_rule_is_refused_and_makes_nothing(
    change: dict[str, Any], status: int, said: str
) -> None:
    world = World()
    answer = await world.client.post("/v2/pods", json=VLLM_BODY | change)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert said in answer.text.replace('\\"', '"')
    assert world.emulator.truth()["pods"] == []


async def test_a_create_without_image_names_what_is_missing() -> None:
    answer = await World().client.post("/v2/pods", json={"name": "x", "gpu": A40})
    assert answer.json()["errors"] == ["$: missing property 'image'"]


async def test_the_split_command_is_taken_and_echoed() -> None:
    world = World()
    pod = await world.read(await world.create(entrypoint=["python", "-c"], cmd=["pass"]))
    assert (pod["entrypoint"], pod["cmd"]) == (["python", "-c"], ["pass"])


@pytest.mark.parametrize(
    ("echo", "shown"), [("full", "{{ RUNPOD_SECRET_key }}"), ("none", None), ("resolved", "open-sesame")]
)
async def test_the_environment_is_echoed_as_set_and_secrets_stay_references_unless_resolved(
    echo: str, shown: str | None
) -> None:
    world = World(echo_env=echo)
    await world.create()
    (pod,) = (await world.client.get("/v2/pods")).json()["pods"]
    assert pod["env"].get("VLLM_API_KEY") == shown


@pytest.mark.parametrize(
    ("status", "action", "answered"),
    [
        ("RUNNING", "start", 409),
        ("RUNNING", "stop", 200),
        ("RUNNING", "restart", 200),
        ("RUNNING", "terminate", 204),
        ("EXITED", "stop", 409),
        ("EXITED", "start", 200),
        ("EXITED", "terminate", 204),
        ("ERROR", "stop", 409),
        ("ERROR", "terminate", 204),
        ("STARTING", "restart", 409),
        ("STARTING", "stop", 200),
        ("PROVISIONING", "terminate", 204),
    ],
)
async def test_an_action_is_legal_only_from_some_statuses(status: str, action: str, answered: int) -> None:
    world = World()
    pod = world.emulator.put_pod({"status": status})
    answer = await world.client.post(f"/v2/pods/{pod}/action", json={"action": action})
    assert answer.status_code == answered


async def test_an_unknown_action_is_422() -> None:
    world = World()
    answer = await world.client.post(f"/v2/pods/{await world.create()}/action", json={"action": "reset"})
    assert answer.json()["errors"] == ["$.action: value must be one of 'start', 'stop', 'restart', 'terminate'"]


async def test_a_stopped_pod_costs_nothing_and_starts_again_from_zero() -> None:
    world = World(boot_seconds=20)
    pod = await world.ready_pod()
    stopped = (await world.client.post(f"/v2/pods/{pod}/action", json={"action": "stop"})).json()
    assert (stopped["status"], stopped["cost"], stopped["runtime"]) == ("EXITED", 0, None)
    await world.client.post(f"/v2/pods/{pod}/action", json={"action": "start"})
    assert (await world.read(pod))["status"] == "STARTING"
    world.now += 25
    assert (await world.read(pod))["runtime"]["uptime"] == 5


async def test_a_patch_changes_what_it_names_and_restarts_the_container_for_a_new_command() -> None:
    world = World()
    pod = await world.ready_pod()
    await world.client.patch(f"/v2/pods/{pod}", json={"name": "renamed"})
    assert (await world.read(pod))["runtime"]["uptime"] == 40
    await world.client.patch(f"/v2/pods/{pod}", json={"args": "other"})
    shown = await world.read(pod)
    assert (shown["name"], shown["args"], shown["runtime"]["uptime"]) == ("renamed", "other", 0)


async def test_every_answer_carries_a_request_id_rate_limits_and_a_date() -> None:
    world = World(clock_offset_seconds=3600)
    answer = await world.client.get("/v2/pods")
    missing = await world.client.get("/v2/pods/none")
    assert answer.headers["x-request-id"] != missing.headers["x-request-id"]
    assert missing.headers["ratelimit"].startswith('"minute";r=998;')
    assert answer.headers["date"] == "Fri, 15 Jan 2027 09:00:00 GMT"


async def test_without_a_key_nothing_is_answered() -> None:
    world = World()
    answer = await world.client.get("/v2/pods", headers={"authorization": ""})
    assert (answer.status_code, answer.json()["detail"]) == (401, "missing bearer token")


async def test_a_wrong_key_is_refused_where_one_is_set() -> None:
    world = World(api_key="account-key")
    assert (await world.client.get("/v2/pods")).status_code == 200
    assert (await world.client.get("/v2/pods", headers={"authorization": "Bearer other"})).status_code == 401


@pytest.mark.parametrize(("allowed", "answered"), [(True, 204), (False, 403)])
async def test_a_pods_own_key_ends_that_pod_if_so_set_and_reads_no_other(allowed: bool, answered: int) -> None:
    world = World(injected_key_may_delete=allowed)
    pod, other = await world.create(), await world.create()
    own = {"authorization": f"Bearer {world.emulator.injected_key(world.emulator.pods[pod])}"}
    assert (await world.client.get(f"/v2/pods/{other}", headers=own)).status_code == 403
    assert (await world.client.get("/v2/pods", headers=own)).status_code == 403
    assert (await world.client.delete(f"/v2/pods/{pod}", headers=own)).status_code == answered


@pytest.mark.parametrize("path", ["/v1/pods", "/v1/gpuTypes", "/v1"])
async def test_the_retired_version_is_gone(path: str) -> None:
    assert (await World().client.get(path)).status_code == 410


async def test_a_wrong_method_names_those_allowed() -> None:
    answer = await World().client.put("/v2/pods")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, POST")


async def test_the_catalog_shows_stock_only_when_asked_for_a_product() -> None:
    world = World(stock={"NVIDIA A40": 0, "NVIDIA L40S": "LOW"})
    plain = (await world.client.get("/v2/catalog/gpus")).json()["gpus"]
    query = {"include": "AVAILABILITY", "product": "POD", "cloud": "SECURE", "count": "1"}
    asked = (await world.client.get("/v2/catalog/gpus", params=query)).json()["gpus"]
    levels = {gpu["id"]: gpu["availability"] for gpu in asked}
    assert "availability" not in plain[0]
    assert (levels["NVIDIA A40"], levels["NVIDIA L40S"], levels["NVIDIA H200"]) == ("NONE", "LOW", "HIGH")
    assert (await world.client.get("/v2/catalog/gpus?include=AVAILABILITY")).status_code == 400
    assert (await world.client.get("/v2/catalog/gpus?count=1")).status_code == 400


async def test_counted_stock_is_taken_by_a_create_and_given_back_by_an_end() -> None:
    world = World(stock={"NVIDIA A40": 1})
    pod = await world.create()
    refused = await world.client.post("/v2/pods", json=VLLM_BODY)
    assert (refused.status_code, "no longer any instances" in refused.text) == (400, True)
    await world.client.delete(f"/v2/pods/{pod}")
    await world.create()


async def test_more_lines_of_a_log_than_it_keeps_are_422() -> None:
    world = World()
    assert (await world.client.get(f"/v2/pods/{await world.create()}/logs?tail=5001")).status_code == 422


async def test_nothing_is_queued() -> None:
    answer = await World().client.get("/v2/queued-pods")
    assert answer.json() == {"queuedPods": [], "pagination": {"nextCursor": None, "hasNextPage": False}}


async def test_a_key_of_another_account_shows_and_makes_that_account_s_pods() -> None:
    world = World(accounts={"other-key": "other"})
    pod = await world.create()
    world.client.headers["authorization"] = "Bearer other-key"
    assert (await world.listed(), (await world.client.get(f"/v2/pods/{pod}")).status_code) == ([], 404)
    theirs = await world.create()
    world.client.headers["authorization"] = "Bearer account-key"
    assert (await world.listed(), world.truth_of(theirs)["account"]) == ([pod], "other")


async def test_a_member_of_a_cluster_is_listed_on_request_only_and_cannot_be_changed_by_itself() -> None:
    world = World()
    member = world.emulator.put_pod({"cluster": {"id": "c1", "rank": 0}})
    assert await world.listed() == []
    (shown,) = (await world.client.get("/v2/pods?includeClusterPods=true")).json()["pods"]
    assert (shown["id"], shown["cluster"]) == (member, {"id": "c1", "rank": 0})
    for refused in (
        await world.client.delete(f"/v2/pods/{member}"),
        await world.client.patch(f"/v2/pods/{member}", json={"name": "x"}),
        await world.client.post(f"/v2/pods/{member}/action", json={"action": "terminate"}),
    ):
        assert (refused.status_code, refused.json()["detail"]) == (409, "pod belongs to cluster c1")
    assert world.truth_of(member)["deleted_at"] is None


async def test_data_centers_are_filtered_by_all_that_is_asked() -> None:
    world = World()

    async def found(query: str) -> list[str]:
        answer = await world.client.get(f"/v2/catalog/datacenters?{query}")
        return [place["id"] for place in answer.json()["dataCenters"]]

    assert await found("regions=EUROPE&globalNetwork=true") == ["EU-RO-1"]
    assert await found("networkVolumeTypes=STANDARD,HIGH_PERFORMANCE") == []
    assert await found("compliance=SOC_2_TYPE_2") == await found("")


async def test_cpu_flavors_are_listed_and_an_unknown_one_is_refused() -> None:
    world = World()
    cpus = (await world.client.get("/v2/catalog/cpus?include=AVAILABILITY&product=POD")).json()["cpus"]
    assert {cpu["availability"] for cpu in cpus} == {"HIGH"}
    assert (await world.client.get(f"/v2/catalog/cpus/{cpus[0]['id']}")).json()["name"] == cpus[0]["name"]
    assert (await world.client.get("/v2/catalog/cpus/none")).status_code == 404
    body = {"name": "x", "image": "i:1", "cpu": {"id": "none", "vcpuCount": 2}}
    assert (await world.client.post("/v2/pods", json=body)).status_code == 422
