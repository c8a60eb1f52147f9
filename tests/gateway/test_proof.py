"""No client's request reaches a deployment before one of ours was answered there."""

import anyio
import pytest

from tests.gateway.stub_server import StubServer
from tests.gateway.world import ENDPOINT, Answered, World, asking, in_world, now, together
from tests.support.fake_daemon import route

JSON = [(b"content-type", b"application/json")]
HTML = [(b"content-type", b"text/html")]


def test_one_proof_serves_all_who_wait_and_is_reported() -> None:
    async def scene(world: World) -> tuple[list[Answered], int, list[str]]:
        await world.ready(proven=False)
        answers = await together(*[lambda: world.ask(asking())] * 20)
        return answers, world.server.proofs, world.daemon.kinds()

    answers, proofs, kinds = in_world(scene)
    assert [answer.status for answer in answers] == [200] * 20
    assert (proofs, kinds) == (1, ["proved"])


def test_a_deployment_proven_by_another_gateway_is_not_proven_again() -> None:
    async def scene(world: World) -> int:
        await world.ready(proven=True)
        await world.ask(asking())
        return world.server.proofs

    assert in_world(scene) == 0


def test_a_new_epoch_is_proven_anew() -> None:
    async def scene(world: World) -> int:
        for epoch in (1, 2):
            await world.ready(proven=False, epoch=epoch)
            await world.ask(asking())
        return world.server.proofs

    assert in_world(scene) == 2


@pytest.mark.parametrize(
    ("status", "headers", "body"),
    [(503, JSON, b"{}"), (502, HTML, b"<html>"), (200, HTML, b"<html>"), (403, HTML, b"error code: 1010")],
)
def test_a_server_that_is_not_up_yet_is_asked_until_it_is(
    status: int, headers: list[tuple[bytes, bytes]], body: bytes
) -> None:
    async def scene(world: World) -> tuple[int, float, int, list[str]]:
        world.server.status, world.server.complaint = status, (headers, body)
        if status == 200:
            world.server.status = 299  # the stand-in's own 200 is a real answer

        async def come_up() -> Answered:
            await anyio.sleep(120)
            world.server.status = 200
            return Answered(0, {}, b"", True, 0)

        await world.ready(proven=False)
        begun = now()
        answer, _ = await together(lambda: world.ask(asking()), come_up)
        return answer.status, now() - begun, len(world.server.bodies), world.daemon.kinds()

    got, took, requests, kinds = in_world(scene)
    assert (got, requests, kinds) == (200, 1, ["proved"])
    assert 120 <= took < 126


def test_a_server_that_accepts_and_says_nothing_is_asked_again() -> None:
    async def scene(world: World) -> tuple[int, float]:
        world.server.think_s = 10_000

        async def wake() -> Answered:
            await anyio.sleep(10)
            world.server.think_s = 0
            return Answered(0, {}, b"", True, 0)

        await world.ready(proven=False)
        begun = now()
        answer, _ = await together(lambda: world.ask(asking()), wake)
        return answer.status, now() - begun

    status, took = in_world(scene)
    assert status == 200
    assert 60 <= took < 62


@pytest.mark.parametrize(
    ("status", "kind"), [(401, "key-refused"), (403, "key-refused"), (404, "served-model-mismatch")]
)
def test_a_definite_refusal_is_reported_and_no_request_gets_through(status: int, kind: str) -> None:
    async def scene(world: World) -> tuple[str, int, list[str]]:
        world.server.status = status
        await world.ready(proven=False)
        answer = await world.ask(asking(), headers=[(b"prefer", b"wait=20")])
        return answer.code, len(world.server.bodies), world.daemon.kinds()

    assert in_world(scene) == ("model_starting", 0, [kind])


def test_a_model_that_only_embeds_is_proven_by_an_embedding() -> None:
    async def scene(world: World) -> tuple[int, int]:
        await world.changed(wires=["embeddings"])
        await world.ready(proven=False)
        answer = await world.ask({"model": "m1", "input": "word"}, path="/v1/embeddings")
        return answer.status, world.server.proofs

    assert in_world(scene) == (200, 1)


def test_a_model_that_only_rates_is_proven_by_a_rating() -> None:
    async def scene(world: World) -> tuple[int, int]:
        await world.changed(wires=["rerank"])
        await world.ready(proven=False)
        answer = await world.ask({"model": "m1", "query": "word", "documents": ["a"]}, path="/v1/rerank")
        return answer.status, world.server.proofs

    assert in_world(scene) == (200, 1)


def test_a_proof_that_waits_for_a_machine_goes_to_where_the_deployment_was_moved() -> None:
    async def scene(world: World) -> tuple[int, list[str]]:
        gone = StubServer()
        gone.status = 503
        world.upstream.apps["elsewhere"] = gone.app
        moved = [route("d1", ENDPOINT, proven=False)]
        await world.changed(phase="ready", routes=[route("d1", "https://elsewhere/v1/", proven=False)], starting=None)

        async def move() -> Answered:
            await anyio.sleep(30)
            await world.changed(routes=moved)
            return Answered(0, {}, b"", True, 0)

        answer, _ = await together(lambda: world.ask(asking()), move)
        return answer.status, world.daemon.kinds()

    assert in_world(scene) == (200, ["proved"])


def test_a_proof_ends_when_the_deployment_is_gone() -> None:
    async def scene(world: World) -> int:
        world.server.status = 503
        await world.ready(proven=False)
        async with anyio.create_task_group() as group:
            group.start_soon(world.ask, asking())
            await anyio.sleep(20)
            await world.changed(phase="stopping", routes=[])
            await anyio.sleep(10)
            proofs = world.server.proofs
            await anyio.sleep(60)
            group.cancel_scope.cancel()
        return world.server.proofs - proofs

    assert in_world(scene) == 0


def test_what_comes_up_for_a_told_caller_is_proven_before_it_asks_again() -> None:
    async def scene(world: World) -> tuple[int, int, int]:
        told = await world.ask(asking(), headers=[(b"prefer", b"wait=0")])
        await world.ready(proven=False)
        await anyio.sleep(1)
        again = await world.ask(asking(), headers=[(b"prefer", b"wait=0")])
        return told.status, again.status, world.server.proofs

    assert in_world(scene) == (503, 200, 1)


def test_what_nobody_asked_this_gateway_for_is_not_proven() -> None:
    async def scene(world: World) -> int:
        await world.ready(proven=False)
        await anyio.sleep(60)
        return world.server.proofs

    assert in_world(scene) == 0


def test_what_never_proves_itself_is_in_use_only_while_somebody_waits_for_it() -> None:
    """It was in use for ever after its first caller: the daemon was told of an open request, and never saw it idle."""

    async def scene(world: World) -> tuple[list[int], int, bool]:
        world.server.status = 500
        await world.ready(proven=False)
        waits = world.start(asking())
        open_while_waiting = []
        for _ in range(6):
            await anyio.sleep(10)
            open_while_waiting.append(len(world.daemon.listed))
        waits.close()
        await anyio.sleep(21)
        proofs, listed = world.server.proofs, len(world.daemon.listed)
        await anyio.sleep(3600)
        return open_while_waiting, listed + len(world.daemon.listed), world.server.proofs > proofs

    assert in_world(scene) == ([1] * 6, 0, True)
