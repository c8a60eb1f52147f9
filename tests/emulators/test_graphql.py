"""Does the old GraphQL door answer what is asked, say no in its own way, and do what it is told?"""

from typing import Any

import pytest

from controller.emulators.runpod.graphql_reading import Unreadable, Wanted, read_operation
from tests.emulators.world import World


async def asked(world: World, query: str, **headers: str) -> dict[str, Any]:
    answer = await world.client.post("/graphql", json={"query": query}, headers=headers)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_arguments_nested_fields_and_text_with_quotes_are_read() -> None:
    read = read_operation(
        'mutation Name { a(input: {x: "q\\"uo,te", n: -2, f: 1.5, l: [true, null], e: ALL}) { b { c } } d }'
    )
    arguments = {"input": {"x": 'q"uo,te', "n": -2, "f": 1.5, "l": [True, None], "e": "ALL"}}
    inner = Wanted(name="b", fields=(Wanted(name="c"),))
    assert read.kind == "mutation"
    assert read.fields == (Wanted(name="a", arguments=arguments, fields=(inner,)), Wanted(name="d"))


@pytest.mark.parametrize(
    "query", ["", "{", "{ a", "{ a( }", "{ a } b", "{ a(x: }) }", "{ $a }", "query ! { a }", "{ 1 }"]
)
def test_what_is_no_query_is_said_to_be_none(query: str) -> None:
    with pytest.raises(Unreadable):
        read_operation(query)


async def test_an_unknown_field_is_an_error_with_status_200() -> None:
    found = await asked(World(), "{ myself { clientBalance colour } }")
    assert found == {"data": None, "errors": [{"message": 'Cannot query field "colour".'}]}


@pytest.mark.parametrize("body", [b"", b"[]", b'{"q": 1}', b"{"])
async def test_a_body_without_a_query_is_400(body: bytes) -> None:
    assert (await World().client.post("/graphql", content=body)).status_code == 400


async def test_without_a_key_the_account_is_null_and_a_wrong_one_is_401() -> None:
    world = World(api_key="account-key")
    assert await asked(world, "{ myself { id } }", authorization="") == {"data": {"myself": None}}
    refused = await world.client.post(
        "/graphql", json={"query": "{ myself { id } }"}, headers={"authorization": "Bearer other"}
    )
    assert refused.status_code == 401


async def test_a_pod_is_stopped_resumed_and_terminated_and_bills_accordingly() -> None:
    world = World()
    pod = await world.ready_pod()
    for call, wanted in (("podStop", "EXITED"), ("podResume", "RUNNING")):
        found = await asked(world, f'mutation {{ {call}(input: {{podId: "{pod}", gpuCount: 1}}) {{ desiredStatus }} }}')
        assert found == {"data": {call: {"desiredStatus": wanted}}}
        world.now += 10
    assert await asked(world, f'mutation {{ podTerminate(input: {{podId: "{pod}"}}) }}') == {
        "data": {"podTerminate": None}
    }
    assert world.effects() == ["created", "stopped", "started", "deleted"]
    assert world.truth_of(pod)["billed_seconds"] == 70
    (error,) = (await asked(world, f'mutation {{ podTerminate(input: {{podId: "{pod}"}}) }}'))["errors"]
    assert error["message"] == "pod not found to terminate"


async def test_a_termination_that_is_ignored_is_answered_as_if_it_were_not() -> None:
    world = World()
    pod = await world.create()
    world.emulator.add_faults([{"match": {"path": "/graphql"}, "do": {"ignore": True}}])
    await asked(world, f'mutation {{ podTerminate(input: {{podId: "{pod}"}}) }}')
    assert (await world.listed(), world.effects()) == ([pod], ["created", "none", "none"])


async def test_a_pod_can_be_asked_for_by_the_old_words() -> None:
    world = World()
    found = await asked(
        world,
        'mutation { podFindAndDeployOnDemand(input: {name: "n", imageName: "i:1", cloudType: ALL,'
        ' gpuTypeId: "NVIDIA A40", gpuCount: 2, volumeInGb: 20, volumeMountPath: "/w", ports: "8000/http,22/tcp",'
        ' dataCenterId: null, env: [{ key: "K", value: "v" }], dockerArgs: "serve x"})'
        " { id imageName env machine { podHostId } } }",
    )
    made = found["data"]["podFindAndDeployOnDemand"]
    pod = await world.read(made["id"])
    assert (made["imageName"], made["env"], pod["gpu"]["count"], pod["args"]) == ("i:1", ["K=v"], 2, "serve x")
    assert (pod["ports"], pod["mounts"]) == (["8000/http", "22/tcp"], {"persistent": {"size": 20, "path": "/w"}})


async def test_a_pod_that_cannot_be_had_is_an_error_in_the_providers_words() -> None:
    world = World(stock={"NVIDIA A40": 0})
    order = (
        'mutation { podFindAndDeployOnDemand(input: {name: "n", imageName: "i:1", gpuTypeId: "NVIDIA A40"}) { id } }'
    )
    (error,) = (await asked(world, order))["errors"]
    assert error["message"].startswith("There are no longer any instances available")
    assert world.emulator.truth()["pods"] == []


async def test_a_cpu_pod_costs_by_its_flavor_and_shows_its_memory() -> None:
    world = World()
    order = 'mutation { deployCpuPod(input: {name: "n", imageName: "i:1", instanceId: "cpu5g-4-16"}) { id } }'
    pod = await world.read((await asked(world, order))["data"]["deployCpuPod"]["id"])
    assert (pod["cpu"], pod["cost"]) == ({"id": "cpu5g", "vcpuCount": 4, "memory": 16}, 0.2)


@pytest.mark.parametrize(("allowed", "ended"), [(True, True), (False, False)])
async def test_a_pods_own_key_ends_that_pod_if_so_set_and_reads_no_account(allowed: bool, ended: bool) -> None:
    world = World(injected_key_may_delete=allowed)
    pod, other = await world.create(), await world.create()
    own = {"authorization": f"Bearer {world.emulator.injected_key(world.emulator.pods[pod])}"}
    assert "errors" in await asked(world, "{ myself { clientBalance } }", **own)
    assert "errors" in await asked(world, f'mutation {{ podStop(input: {{podId: "{other}"}}) {{ id }} }}', **own)
    await asked(world, f'mutation {{ podTerminate(input: {{podId: "{pod}"}}) }}', **own)
    assert (world.truth_of(pod)["deleted_at"] is not None) is ended
