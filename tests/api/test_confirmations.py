"""May an operator say that a config may stop everything, and what is told while one lies there that was not taken?"""

from pathlib import Path
from typing import Any

import pytest

from controller.api.client import Problem
from controller.core.removal import CONFIG_REFUSED, Confirmed
from controller.daemon.built import Mode
from tests.api.world import POLICY, World, at, world

DIGEST = "0123456789abcdef" * 4
PATH = "/v1/config/confirm"
WORDS = "config.toml is not taken: it would stop all that runs (qwen: 1 machine)"
FORMER = Mode(refused=WORDS)


async def refuse(house: World) -> None:
    """As a start on the former config does."""
    await house.store.write(lambda tx: tx.raise_alarm(CONFIG_REFUSED, subject=POLICY.account, detail=WORDS))


async def test_the_word_is_kept_and_told_with_what_it_lets_stop(house: World) -> None:
    record = await house.serve()
    answer = await house.operator.post(PATH, {"digest": DIGEST, "models": ["other"]})
    assert answer["confirmed"]
    assert answer["removes"] == {
        "models": ["qwen"],
        "machines": 1,
        "unpriced": 0,
        "usd_per_hour": str(record.usd_per_hour),
    }
    assert house.store.book.confirmed == Confirmed(digest=DIGEST, at=house.store.now)
    told = (await house.operator.get("/v1/status"))["config"]
    assert told == {"refused": None, "confirmed": {"digest": DIGEST, "at": at(house.store.now)}}
    assert (await house.events())["config.confirmed"] == 1
    assert house.record().stop_required_at is None


async def test_where_nothing_would_be_stopped_nothing_is_kept(house: World) -> None:
    await house.serve()
    answer = await house.operator.post(PATH, {"digest": DIGEST, "models": ["qwen"]})
    assert (answer["confirmed"], answer["removes"], house.store.book.confirmed) == (False, None, None)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"digest": DIGEST},
        {"digest": DIGEST, "models": "qwen"},
        {"digest": DIGEST, "models": [1]},
        {"digest": DIGEST[1:], "models": []},
        {"digest": DIGEST.upper(), "models": []},
    ],
)
async def test_a_word_for_no_config_in_particular_is_none(house: World, body: dict[str, Any]) -> None:
    await house.serve()
    with pytest.raises(Problem) as caught:
        await house.operator.post(PATH, body)
    assert (caught.value.status, house.store.book.confirmed) == (400, None)


async def test_a_daemon_on_a_former_config_says_so_everywhere(tmp_path: Path) -> None:
    async with world(tmp_path, mode=FORMER) as house:
        await refuse(house)
        status = await house.operator.get("/v1/status")
        assert (status["mode"], status["ready"], status["config"]["refused"]) == ("former-config", False, WORDS)
        assert status["alarms"][0]["detail"] == WORDS
        assert any(f"see the alarm {CONFIG_REFUSED}" in problem for problem in status["problems"])
        page = await house.operator.text("/metrics")
        assert "gpuwarden_config_refused 1\n" in page
        assert "gpuwarden_alarms 1\n" in page
        lines = (await house.operator.get("/v1/models/qwen/explain"))["lines"]
        assert (lines[-1]["subject"], lines[-1]["text"]) == ("config", WORDS)


async def test_a_daemon_on_its_config_says_nothing_of_the_kind(house: World) -> None:
    assert (await house.operator.get("/v1/status"))["config"] == {"refused": None, "confirmed": None}
    assert "gpuwarden_config_refused 0\n" in await house.operator.text("/metrics")


async def test_what_would_begin_something_is_refused_with_the_reason(tmp_path: Path) -> None:
    async with world(tmp_path, mode=FORMER) as house:
        for path in ("/v1/models/qwen/restart", "/v1/models/qwen/prefetch"):
            with pytest.raises(Problem, match="the config was refused"):
                await house.operator.post(path)
        refusal = (await house.view())["refusal"]
        assert (refusal["code"], refusal["final"]) == ("refused", True)
