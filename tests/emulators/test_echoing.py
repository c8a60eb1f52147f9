"""Does a careless emulator give away what a careless provider or model server would, and only where it is told to?"""

import pytest

from tests.emulators.world import CHAT, VLLM_BODY, World


@pytest.mark.parametrize("careless", [False, True])
async def test_a_refusal_of_the_api_quotes_the_request_with_its_key_and_body(careless: bool) -> None:
    world = World(echo_errors=careless)
    answer = await world.client.post("/v2/pods?x=1", json=VLLM_BODY | {"surprise": "yes"})
    assert answer.json()["status"] == answer.status_code == 422
    for quoted in ("Bearer account-key", "/v2/pods?x=1", "surprise"):
        assert (quoted in answer.json()["detail"]) is careless


@pytest.mark.parametrize("careless", [False, True])
async def test_a_refusal_of_a_model_server_quotes_the_key_that_it_was_given(careless: bool) -> None:
    world = World(echo_errors=careless)
    pod = await world.ready_pod()
    refused = await world.ask(pod, "/v1/chat/completions", key="open-sesame", json=CHAT | {"messages": []})
    assert (refused.status_code, "Bearer open-sesame" in refused.text) == (400, careless)
    served = await world.ask(pod, "/v1/chat/completions", key="open-sesame", json=CHAT)
    assert (served.status_code, "open-sesame" in served.text) == (200, False)


@pytest.mark.parametrize("careless", [False, True])
async def test_a_careless_program_prints_its_environment_with_its_secrets(careless: bool) -> None:
    world = World(echo_errors=careless)
    pod = await world.create()
    said = " ".join(line for _, _, line in world.emulator.pods[pod].log)
    assert ("open-sesame" in said) is careless
