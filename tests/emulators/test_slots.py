"""Do an emulated llama.cpp's slots tell how far each request has come?"""

import json
from typing import Any

import anyio
import pytest

from controller.core.runtime import Scrape
from controller.emulators.runpod import Emulator
from controller.upstreams.stats import with_slots
from tests.emulators.flow import Flow, on_virtual_time

PROMPT = "a prompt of ten words for a server with slots"
ASK: dict[str, Any] = {"messages": [{"role": "user", "content": PROMPT}], "max_tokens": 20}
Slots = list[dict[str, Any]]


def pod_of(emulator: Emulator, arguments: str) -> str:
    return emulator.put_pod(
        {
            "image": "ghcr.io/ggml-org/llama.cpp:server-cuda",
            "args": f"-m /m.gguf -a tiny --port 8000 {arguments}",
            "upstream": {"state": "ready", "token_rate": 1.0, "first_token_seconds": 2.0},
        }
    )


async def ask(emulator: Emulator, pod: str, body: dict[str, Any], after: float = 0.0) -> None:
    await anyio.sleep(after)
    await Flow().run(emulator, "POST", f"/proxy/{pod}/8000/v1/chat/completions", key="any", body=body)


def looks(
    *moments: float, asks: list[dict[str, Any]], arguments: str = "-c 400 -np 2", apart: float = 0
) -> list[bytes]:
    """What /slots says at these seconds after the first request came."""

    async def main(emulator: Emulator) -> list[bytes]:
        pod, found, begun = pod_of(emulator, arguments), [], anyio.current_time()
        async with anyio.create_task_group() as group:
            for number, body in enumerate(asks):
                group.start_soon(ask, emulator, pod, body, number * apart)
            for moment in moments:
                await anyio.sleep(begun + moment - anyio.current_time())
                flow = Flow()
                await flow.run(emulator, "GET", f"/proxy/{pod}/8000/slots", key="any")
                found.append(flow.body)
        return found

    return on_virtual_time(main)


def test_slots_that_never_worked_tell_their_context_alone() -> None:
    (body,) = looks(1, asks=[])
    assert json.loads(body) == [
        {"id": number, "n_ctx": 200, "speculative": False, "is_processing": False} for number in range(2)
    ]


def test_four_slots_share_the_whole_context_where_nobody_says_how_many() -> None:
    (body,) = looks(1, asks=[], arguments="-c 400")
    assert [slot["n_ctx"] for slot in json.loads(body)] == [400] * 4


@pytest.mark.parametrize("streams", [True, False])
def test_a_slot_fills_with_the_prompt_and_each_word_and_is_let_go(streams: bool) -> None:
    bodies = looks(1, 2.5, 7.5, 30, asks=[ASK | {"stream": streams}])
    slots = [json.loads(body)[0] for body in bodies]
    assert [slot["is_processing"] for slot in slots] == [True, True, True, False]
    assert [slot["n_prompt_tokens"] for slot in slots] == [10] * 4
    assert [slot["n_prompt_tokens_processed"] for slot in slots] == [0, 10, 10, 10]
    assert [slot["next_token"][0]["n_decoded"] for slot in slots] == [0, 0, 5, 20]
    assert [slot["next_token"][0]["n_remain"] for slot in slots] == [20, 20, 15, 0]
    assert [with_slots(Scrape(), body).cache_use for body in bodies] == [0.0, 0.05, 0.075, 0.0]


def test_each_request_has_a_slot_and_the_next_one_the_lowest_that_is_free() -> None:
    asks = [ASK | {"max_tokens": 3}, ASK | {"max_tokens": 18}, ASK | {"max_tokens": 3}]
    bodies = looks(6.5, 15, 30, asks=asks, apart=4.0, arguments="-np 3")
    busy = [[(slot.get("id_task"), slot["is_processing"]) for slot in json.loads(body)] for body in bodies]
    assert busy == [
        [(0, False), (1, True), (None, False)],
        [(2, False), (1, True), (None, False)],
        [(2, False), (1, False), (None, False)],
    ]


def test_a_server_that_starts_anew_has_empty_slots() -> None:
    async def main(emulator: Emulator) -> Slots:
        pod, flow = pod_of(emulator, "-np 1"), Flow()
        await ask(emulator, pod, ASK)
        emulator.change_pod(pod, {"restart": True})
        await anyio.sleep(300)
        await flow.run(emulator, "GET", f"/proxy/{pod}/8000/slots", key="any")
        return list(json.loads(flow.body))

    (slot,) = on_virtual_time(main)
    assert "id_task" not in slot
