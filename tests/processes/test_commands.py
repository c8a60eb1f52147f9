"""What do an operator's commands do to a daemon that runs, and to one that does not?

Case B08: a stop that the provider accepted is no success before its proof.
"""

import json
import re
import signal

import anyio
import pytest

from tests.processes.box import box

pytestmark = pytest.mark.process


async def test_a_day_of_everyday_commands() -> None:
    async with box() as world:
        await world.run_daemon()
        await world.run_gateway()
        started = await world.cli("start", "m1", "--json")
        assert (started.code, started.json["schema"], started.json["model"]["phase"]) == (0, 1, "ready")

        status = await world.cli("status", "--json")
        assert (status.json["schema"], status.json["models"][0]["alias"], status.json["owed"]) == (1, "m1", 0)
        assert "m1" in (await world.cli("status", "m1")).out
        owed = await world.cli("owed", "--json")
        assert (owed.code, owed.json["schema"], len(owed.json["obligations"])) == (0, 1, 1)
        explained = await world.cli("explain", "m1", "--json")
        assert (explained.json["schema"], bool(explained.json["lines"])) == (1, True)
        shown = await world.cli("evidence", "--json")
        assert "create.answered" in [json.loads(line)["event"] for line in shown.out.splitlines()]
        verified = await world.cli("evidence", "verify", "--json")
        assert (verified.code, verified.json["ok"], verified.json["source"]) == (0, True, "daemon")

        said = await world.cli("chat", "m1", "hello")
        assert (said.code, bool(said.out.strip())) == (0, True)

        stopped = await world.cli("stop", "m1", "--json")
        assert (stopped.code, stopped.json["unproven"]) == (0, [])
        assert await world.alive() == []
        assert world.open_duties() == []


async def test_a_stop_without_proof_is_no_success_and_an_operators_word_is_taken_only_with_force() -> None:
    async with box() as world:
        await world.run_daemon()
        await world.serving()
        await world.fault({"ignore": True}, method="DELETE", path="/v2/pods/*")
        stopped = await world.cli("stop", "m1", "--now", "--limit", "2s")
        assert stopped.code == 1
        ((obligation, _),) = world.open_duties()
        assert obligation in stopped.err

        words = ("confirm-stopped", obligation, "--reference", "ticket 7")
        refused = await world.cli(*words)
        assert (refused.code, "alive" in refused.err) == (6, True)
        assert len(world.open_duties()) == 1
        assert (await world.cli(*words, "--force")).code == 0
        (ended,) = await world.recorded("obligation.discharged")
        assert ended["evidence"]["kind"] == "external-confirmation"
        assert "ticket 7" in ended["evidence"]["reference"]


async def test_a_stop_that_had_no_effect_twice_succeeds_with_its_proof_and_not_before() -> None:
    async with box() as world:
        await world.run_daemon()
        await world.serving()
        await world.fault({"ignore": True}, method="DELETE", path="/v2/pods/*", times=2)
        early = await world.cli("stop", "m1", "--now", "--limit", "1s")
        assert (early.code, len(await world.alive())) == (1, 1)
        assert (await world.cli("stop", "m1", "--now", within=40)).code == 0
        assert await world.alive() == []
        assert len(await world.calls("DELETE")) == 3
        assert world.open_duties() == []


async def test_what_is_not_there_is_named_with_5() -> None:
    async with box() as world:
        await world.run_daemon()
        for words in (("start", "nope"), ("stop", "nope"), ("explain", "nope"), ("status", "nope"), ("claim", "i0")):
            ran = await world.cli(*words)
            assert (ran.code, words[1] in ran.err) == (5, True), (words, ran)
        assert (await world.cli("confirm-stopped", "onope", "--reference", "x")).code == 5
        assert await world.creates() == []


async def test_what_another_installation_left_is_claimed_and_stopped() -> None:
    async with box() as world:
        daemon = await world.run_daemon()
        await world.serving()
        former = (await world.status())["installation"]
        await daemon.kill()
        for path in world.state.glob("gpuwarden.db*"):
            path.unlink()
        world.evidence.unlink()
        world.migrated()
        await world.run_daemon()

        async def claimed() -> bool:
            return (await world.cli("claim", former, "--json")).code == 0

        await world.eventually(claimed, within=15, what="something to claim")
        await world.phase("ready")
        assert len(await world.creates()) == 1
        assert (await world.cli("stop", "--all", "--now")).code == 0
        assert await world.alive() == []


async def test_with_the_daemon_down_its_store_is_read_and_3_says_so() -> None:
    async with box() as world:
        daemon = await world.run_daemon()
        await world.serving()
        await daemon.kill()
        status = await world.cli("status", "--json")
        assert (status.code, status.json["source"], status.json["obligations_open"]) == (3, "store", 1)
        assert status.json["obligations_ended"] == {"discharged": 0, "transferred": 0, "void": 0}
        owed = await world.cli("owed", "--json")
        assert (owed.code, len(owed.json["obligations"])) == (3, 1)
        assert (await world.cli("start", "m1")).code == 3
        assert (await world.cli("stop", "m1")).code == 3


async def test_verify_names_the_line_of_which_one_byte_was_changed() -> None:
    async with box() as world:
        daemon = await world.run_daemon()
        await world.serving()
        await daemon.kill()
        lines = world.evidence.read_text().splitlines(keepends=True)
        number = 1 + next(at for at, line in enumerate(lines) if '"create.answered"' in line)
        assert (await world.cli("evidence", "verify")).code == 3  # whole, but compared with a daemon that is down
        changed = re.sub(r'"at":"(\d)', lambda found: f'"at":"{int(found[1]) ^ 1}', lines[number - 1], count=1)
        world.evidence.write_text("".join([*lines[: number - 1], changed, *lines[number:]]))
        verified = await world.cli("evidence", "verify")
        assert verified.code == 1
        assert f"{world.evidence}:{number}:" in verified.err


async def test_config_check_takes_a_good_one_and_names_what_is_wrong_with_another() -> None:
    async with box() as world:
        checked = await world.cli("config", "check", "--json")
        assert (checked.code, checked.json["schema"], checked.json["keys"]) == (0, 1, [])
        world.break_config()
        assert (await world.cli("config", "check")).code == 78
        assert (await world.truth())["calls"] == []


async def test_chat_wakes_a_cold_model() -> None:
    async with box() as world:
        await world.run_daemon()
        await world.run_gateway()
        with anyio.fail_after(30):
            said = await world.cli("chat", "m1", "hello", within=30)
        assert (said.code, bool(said.out.strip())) == (0, True)


async def test_follow_shows_what_comes() -> None:
    async with box() as world:
        await world.run_daemon()
        follower = world.spawn("evidence", "evidence", "-f", "--json", "--config", str(world.config))
        await world.eventually(lambda: _has(follower.text(), "daemon.started"), within=10, what="the first line")
        await world.start_model()
        await world.eventually(lambda: _has(follower.text(), "create.answered"), within=10, what="what came")


async def _has(words: str, event: str) -> bool:
    return event in words


async def test_a_qualification_killed_and_interrupted_leaves_nothing_that_the_next_does_not_stop() -> None:
    async with box(limit=150, ready_seconds=3, balance=100) as world:
        words = ("doctor", "--live", "--spend-limit", "1", "--config", str(world.config))
        killed = world.spawn("doctor", *words)

        async def rented() -> bool:
            return bool(await world.alive())

        await world.eventually(rented, within=30, what="a machine")
        await killed.kill()
        assert len(world.open_duties()) == 1

        interrupted = world.spawn("doctor", *words)

        async def another() -> bool:
            return len(await world.pods()) == 2

        await world.eventually(another, within=60, what="a second machine, once the first is proven gone")
        assert len(await world.alive()) == 1
        interrupted.signal(signal.SIGINT)
        assert await interrupted.ended(within=60) == 130, interrupted.text()
        assert (await world.alive(), world.open_duties()) == ([], [])

        whole = await world.cli("doctor", "--live", "--spend-limit", "1", "--json", within=90)
        assert whole.code == 0, whole.err
        assert {answer["question"]: answer["said"] for answer in whole.json["answers"]}["OU-4"] == "yes"
        assert await world.alive() == []
        verified = await world.cli("evidence", "verify")
        assert "whole: " in verified.err, verified.err


async def test_an_examination_beside_a_daemon_and_without_one_rents_nothing() -> None:
    async with box(balance=100) as world:
        fresh = await world.cli("doctor", "--json")
        assert (fresh.code, fresh.json["counts"]["fail"]) == (0, 0)
        daemon = await world.run_daemon()
        await world.serving()
        creates = len(await world.creates())

        running = await world.cli("doctor", "--json")
        found = {(check["check"], check["subject"]): check["verdict"] for check in running.json["checks"]}
        assert {name for name, verdict in found.items() if verdict != "ok"} == {("hub-token", None)}
        assert running.code == 0

        await daemon.kill()
        down = await world.cli("doctor")
        assert (down.code, "1 obligation is open" in down.out) == (1, True)
        assert len(await world.creates()) == creates
        assert {call["path"] for call in await world.calls("POST")} == {"/v2/pods", "/graphql"}
        assert await world.calls("DELETE") + await world.calls("PATCH") == []
