"""Who waits for a cold model, how often the daemon is asked, and what ends a wait."""

from functools import partial
from typing import Any

import anyio
import pytest

from tests.gateway.world import Answered, World, asking, in_world, now, together

WAIT_0 = [(b"prefer", b"wait=0")]


def in_background(group: Any, results: list[Answered], world: World, **fields: Any) -> None:
    async def ask() -> None:
        results.append(await world.ask(asking(**fields)))

    group.start_soon(ask)


def test_two_hundred_callers_make_one_start_and_are_all_answered() -> None:
    async def scene(world: World) -> tuple[list[Answered], list[tuple[float, str, int]]]:
        await world.changed(queue=256)

        async def become_ready() -> Answered:
            await anyio.sleep(3)
            await world.ready()
            return Answered(200, {}, b"", True, 0)

        answers = await together(become_ready, *[partial(world.ask, asking()) for _ in range(200)])
        return answers, world.daemon.starts

    answers, starts = in_world(scene)
    assert [answer.status for answer in answers] == [200] * 201
    assert len(starts) == 1


def test_requests_around_the_moment_of_readiness_reach_the_server_once_each() -> None:
    async def scene(world: World) -> tuple[list[Answered], list[str]]:
        async def ask(number: int) -> Answered:
            await anyio.sleep(number * 0.0005)
            return await world.ask(asking(user=str(number)))

        async def become_ready() -> Answered:
            await anyio.sleep(0.005)
            world.make_ready(proven=False)
            return Answered(200, {}, b"", True, 0)

        answers = await together(become_ready, *[partial(ask, number) for number in range(20)])
        return answers, [asked["user"] for asked in world.server.asked]

    answers, users = in_world(scene)
    assert {answer.status for answer in answers} == {200}
    assert sorted(users) == sorted(str(number) for number in range(20))


def test_the_daemon_is_asked_again_while_anybody_waits_and_then_no_more() -> None:
    async def scene(world: World) -> list[float]:
        async with anyio.create_task_group() as group:
            group.start_soon(world.ask, asking())
            await anyio.sleep(25)
            await world.ready()
            await anyio.sleep(60)
        return [at for at, _, _ in world.daemon.starts]

    assert [round(at - 0.1) for at in in_world(scene)] == [0, 10, 20]


def test_the_daemon_hears_how_many_wait() -> None:
    async def scene(world: World) -> int:
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(world.ask, asking())
            await anyio.sleep(12)
            group.cancel_scope.cancel()
        return world.daemon.starts[-1][2]

    assert in_world(scene) == 3


def test_the_queue_is_bounded_and_those_beyond_are_told_at_once() -> None:
    async def scene(world: World) -> tuple[list[Answered], float]:
        await world.changed(queue=64)
        begun = now()

        async def become_ready() -> Answered:
            await anyio.sleep(30)
            await world.ready()
            return Answered(0, {}, b"", True, 0)

        return (await together(*[partial(world.ask, asking()) for _ in range(200)], become_ready))[:-1], begun

    answers, begun = in_world(scene)
    full = [answer for answer in answers if answer.status == 429]
    assert (len(full), sum(answer.status == 200 for answer in answers)) == (136, 64)
    assert {answer.code for answer in full} == {"queue_full"}
    assert all(0 < int(answer.headers[b"retry-after"]) <= 60 and answer.at - begun < 1 for answer in full)


def test_the_queue_of_one_model_is_no_bound_for_another() -> None:
    async def scene(world: World) -> int:
        await world.changed(queue=1)
        await world.ready("m2", deployment="d2")
        async with anyio.create_task_group() as group:
            group.start_soon(world.ask, asking("m1"))
            await anyio.sleep(1)
            status = (await world.ask(asking("m2"))).status
            group.cancel_scope.cancel()
        return status

    assert in_world(scene) == 200


def test_a_caller_who_prefers_it_is_told_at_once_and_has_started_the_model() -> None:
    async def scene(world: World) -> tuple[Answered, int, float]:
        def starting(alias: str) -> None:
            told = {"deployment": "d1", "phase": "requested", "since": "", "eta_seconds": 142.0, "usd_so_far": "0.0123"}
            world.daemon.change(alias, phase="starting", starting=told)

        world.daemon.on_start = starting
        begun = now()
        answer = await world.ask(asking(), headers=WAIT_0)
        return answer, len(world.daemon.starts), answer.at - begun

    answer, starts, took = in_world(scene)
    assert (answer.status, answer.code, starts, answer.headers[b"retry-after"]) == (503, "model_starting", 1, b"60")
    assert {name: answer.error[name] for name in ("phase", "eta_seconds", "usd_so_far")} == {
        "phase": "requested",
        "eta_seconds": 142.0,
        "usd_so_far": "0.0123",
    }
    assert took < 0.1


def test_a_told_caller_takes_no_place_in_the_queue() -> None:
    async def scene(world: World) -> str:
        await world.changed(queue=1)
        async with anyio.create_task_group() as group:
            group.start_soon(world.ask, asking())
            await anyio.sleep(1)
            code = (await world.ask(asking(), headers=WAIT_0)).code
            group.cancel_scope.cancel()
        return code

    assert in_world(scene) == "model_starting"


@pytest.mark.parametrize(("prefer", "seconds"), [(None, 570), (b"wait=30", 30), (b"respond-async, wait=7", 7)])
def test_a_wait_ends_when_the_caller_has_no_patience_left(prefer: bytes | None, seconds: int) -> None:
    async def scene(world: World) -> tuple[Answered, float]:
        begun = now()
        answer = await world.ask(asking(), headers=[] if prefer is None else [(b"prefer", prefer)])
        return answer, answer.at - begun

    answer, took = in_world(scene)
    assert (answer.status, answer.code, round(took)) == (503, "model_starting", seconds)


def refusal(code: str, *, final: bool) -> dict[str, Any]:
    return {"code": code, "reason": "because", "final": final, "retry_after_seconds": 300.0}


def test_a_final_refusal_is_answered_now() -> None:
    async def scene(world: World) -> tuple[Answered, float]:
        await world.changed(refusal=refusal("model_blocked", final=True))
        begun = now()
        answer = await world.ask(asking())
        return answer, answer.at - begun

    answer, took = in_world(scene)
    assert (answer.status, answer.code, answer.error["message"]) == (503, "model_blocked", "because")
    assert answer.headers[b"retry-after"] == b"60"
    assert took < 0.1


def test_a_refusal_that_may_pass_is_waited_out_and_named_at_the_end() -> None:
    async def scene(world: World) -> tuple[Answered, float]:
        await world.changed(refusal=refusal("no_capacity", final=False), wait_seconds=100.0)
        begun = now()
        answer = await world.ask(asking())
        return answer, answer.at - begun

    answer, took = in_world(scene)
    assert (answer.code, round(took)) == ("no_capacity", 100)


def test_a_failed_start_answers_all_who_waited_and_nobody_who_came_later() -> None:
    async def scene(world: World) -> tuple[list[Answered], Answered]:
        earlier: list[Answered] = []
        later: list[Answered] = []
        async with anyio.create_task_group() as group:
            for _ in range(3):
                in_background(group, earlier, world)
            await anyio.sleep(20)
            world.daemon.fail("m1", "startup-deadline")
            await anyio.sleep(1)
            in_background(group, later, world)
            await anyio.sleep(20)
            assert not later
            await world.ready()
        return earlier, later[0]

    earlier, later = in_world(scene)
    assert [(answer.status, answer.code) for answer in earlier] == [(503, "start_failed")] * 3
    assert "startup-deadline" in earlier[0].error["message"]
    assert later.status == 200


def test_a_later_caller_asks_for_a_new_start_at_once() -> None:
    async def scene(world: World) -> list[float]:
        async with anyio.create_task_group() as group:
            group.start_soon(world.ask, asking())
            await anyio.sleep(3)
            world.daemon.fail("m1", "crash-loop")
            await anyio.sleep(1)
            group.start_soon(world.ask, asking())
            await anyio.sleep(1)
            group.cancel_scope.cancel()
        return [at for at, _, _ in world.daemon.starts]

    assert [round(at) for at in in_world(scene)] == [0, 4]


def test_a_client_that_leaves_frees_its_place() -> None:
    async def scene(world: World) -> tuple[int, int]:
        await world.changed(queue=1)
        async with anyio.create_task_group() as group:
            group.start_soon(world.ask, asking())
            await anyio.sleep(5)
            waiting = world.gateway.rooms.waiting("m1")
            group.cancel_scope.cancel()
        await anyio.sleep(0.01)
        left = world.gateway.rooms.waiting("m1")
        return waiting, left

    assert in_world(scene) == (1, 0)


def test_a_place_that_was_left_is_free_while_others_wait_on() -> None:
    async def scene(world: World) -> list[int]:
        await world.changed(queue=2)
        waiting = []
        async with anyio.create_task_group() as group:
            group.start_soon(world.ask, asking())
            for _ in range(3):
                with anyio.move_on_after(1):
                    await world.ask(asking())
                await anyio.sleep(0.01)
                waiting.append(world.gateway.rooms.waiting("m1"))
            group.cancel_scope.cancel()
        return waiting

    assert in_world(scene) == [1, 1, 1]


def test_a_streaming_caller_gets_its_head_and_comments_every_ten_seconds() -> None:
    async def scene(world: World) -> tuple[list[tuple[int, bytes]], float]:
        begun = now()
        seen: list[tuple[int, bytes]] = []
        async with anyio.create_task_group() as group:

            async def become_ready() -> None:
                await anyio.sleep(35)
                await world.ready()

            group.start_soon(become_ready)
            answer = await world.open(asking(stream=True))
            head_after = now() - begun
            async for piece in answer.chunks():
                seen.append((round(now() - begun), piece))
        return seen, head_after

    seen, head_after = in_world(scene)
    comments = [(at, piece) for at, piece in seen if piece.startswith(b": ")]
    assert round(head_after) == 10
    assert [at for at, _ in comments] == [10, 20, 30]
    assert all(piece.endswith(b"\n\n") for _, piece in comments)
    assert b"".join(piece for _, piece in seen if not piece.startswith(b": ")).endswith(b"data: [DONE]\n\n")


def test_a_streaming_caller_is_told_of_a_failure_in_the_stream_and_then_cut_off() -> None:
    async def scene(world: World) -> Answered:
        results: list[Answered] = []
        async with anyio.create_task_group() as group:
            in_background(group, results, world, stream=True)
            await anyio.sleep(12)
            world.daemon.fail("m1", "startup-deadline")
        return results[0]

    answer = in_world(scene)
    events = [event for event in answer.body.split(b"\n\n") if event.startswith(b"data: ")]
    assert answer.status == 200
    assert len(events) == 1
    assert b'"start_failed"' in events[0]
    assert not answer.whole


def test_a_streaming_caller_that_fails_early_gets_a_plain_answer() -> None:
    async def scene(world: World) -> Answered:
        await world.changed(refusal=refusal("no_funds", final=True))
        return await world.ask(asking(stream=True))

    answer = in_world(scene)
    assert (answer.status, answer.code, answer.whole) == (503, "no_funds", True)


def test_a_model_that_the_daemon_does_not_know_is_unknown() -> None:
    async def scene(world: World) -> Answered:
        del world.daemon.models["m1"]
        return await world.ask(asking())

    answer = in_world(scene)
    assert (answer.status, answer.code) == (404, "unknown_model")


def test_who_waits_is_answered_when_the_gateway_stops() -> None:
    async def scene(world: World) -> Answered:
        results: list[Answered] = []
        async with anyio.create_task_group() as group:
            in_background(group, results, world)
            await anyio.sleep(5)
            await world.gateway.drain()
        return results[0]

    assert in_world(scene).code == "model_starting"


def test_a_waiter_survives_a_restart_of_the_daemon() -> None:
    async def scene(world: World) -> Answered:
        results: list[Answered] = []
        async with anyio.create_task_group() as group:
            in_background(group, results, world)
            await anyio.sleep(5)
            world.daemon.go_down()
            await anyio.sleep(30)
            world.daemon.return_()
            await anyio.sleep(5)
            await world.ready()
        return results[0]

    assert in_world(scene).status == 200


def test_a_start_that_failed_under_the_daemon_before_does_not_answer_those_who_ask_the_new_one() -> None:
    async def scene(world: World) -> Answered:
        results: list[Answered] = []
        async with anyio.create_task_group() as group:
            in_background(group, results, world)
            await anyio.sleep(5)
            world.daemon.go_down()
            world.daemon.return_()
            world.daemon.fail("m1", "old")
            await anyio.sleep(30)
            await world.ready()
        return results[0]

    assert in_world(scene).status == 200


def test_a_model_whose_wait_is_nothing_tells_its_callers_at_once() -> None:
    async def scene(world: World) -> tuple[list[Answered], float]:
        await world.changed(wait_seconds=0.0)
        asked = now()
        told = await world.ask(asking())
        begun = now()
        assert begun - asked < 0.1
        return [told, await world.ask(asking(), headers=[(b"prefer", b"wait=20")])], begun

    (told, held), begun = in_world(scene)
    assert (told.code, round(held.at - begun), held.code) == ("model_starting", 20, "model_starting")


def test_who_is_told_before_anything_was_declared_learns_how_long_starts_take() -> None:
    async def scene(world: World) -> Answered:
        await world.changed(cold_start_seconds=41.5)
        return await world.ask(asking(), headers=WAIT_0)

    answer = in_world(scene)
    assert (answer.error["eta_seconds"], answer.headers[b"retry-after"]) == (41.5, b"42")
