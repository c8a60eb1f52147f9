"""Is it told when we see nothing, or when our clock is not the provider's?"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from controller.core.evidence import StopReason
from controller.core.identity import RequestId, Tags
from controller.core.unlisted import Unlisted
from controller.core.view import View
from controller.providers.fake.adapter import Looked
from controller.tasks.lookout import Lookout
from tests.tasks.world import Bench, on_bench


def lookout(bench: Bench) -> Lookout:
    return Lookout(store=bench.store, view=bench.view, policy=bench.policy)


async def looked(bench: Bench, task: Lookout, *, after_s: float = 15) -> datetime | None:
    await bench.move(after_s)
    await bench.look()
    return await task.run_pass()


@pytest.mark.parametrize("look", [Looked.FAILED, Looked.PARTIAL])
@on_bench
async def test_so_long_without_a_complete_listing_is_told_once_until_there_is_one(bench: Bench, look: Looked) -> None:
    bench.provider.script.listings += [look] * 6  # two in each of the next three looks at most
    task = lookout(bench)
    began_at = bench.clock.now() + timedelta(seconds=15)
    assert await looked(bench, task) == began_at + bench.policy.stop_alarm_after
    await bench.move(299.999)
    await task.run_pass()
    assert bench.alarms("listing-failing") == []
    await bench.move(0.001)
    for _ in range(3):
        await task.run_pass()
    assert bench.alarms("listing-failing") == ["main"]
    assert len(await bench.events("listing.failed")) == 1
    bench.provider.script.listings.clear()
    await looked(bench, task)
    assert bench.alarms("listing-failing") == []


@on_bench
async def test_a_restart_alone_ends_no_such_alarm(bench: Bench) -> None:
    await bench.store.write(lambda tx: tx.raise_alarm("listing-failing", subject="main", detail="since long"))
    await bench.restart()
    task = lookout(bench)
    await task.run_pass()
    assert bench.alarms("listing-failing") == ["main"]
    await looked(bench, task)
    assert bench.alarms("listing-failing") == []


@pytest.mark.parametrize(("apart_s", "told"), [(60, False), (60.001, True), (-60, False), (-60.001, True)])
@on_bench
async def test_a_provider_whose_date_is_not_ours_is_told_until_it_is(bench: Bench, apart_s: float, told: bool) -> None:
    task = lookout(bench)
    await looked(bench, task)
    listing = bench.view.value.completed
    assert listing is not None
    odd = replace(listing, provider_time=listing.ended_at + timedelta(seconds=apart_s))
    bench.view.publish(View(completed=odd))
    for _ in range(2):
        await task.run_pass()
    assert bench.alarms("clock-disagrees") == (["main"] if told else [])
    assert len(await bench.events("alarm.raised")) == told
    bench.view.publish(View(completed=listing))
    await task.run_pass()
    assert bench.alarms("clock-disagrees") == []


@on_bench
async def test_an_eye_that_never_saw_anything_is_told_too(bench: Bench) -> None:
    bench.view.publish(View(failing_since=bench.clock.now()))
    await bench.move(300)
    await lookout(bench).run_pass()
    (line,) = await bench.events("listing.failed")
    assert line["detail"]["text"].endswith(": unknown")


@on_bench
async def test_nothing_named_like_ours_that_shows_tags_is_told_until_one_does(bench: Bench) -> None:
    task = lookout(bench)
    await bench.start()
    await looked(bench, task)
    assert bench.alarms("tags-hidden") == []
    (seen,) = bench.provider.resources
    bench.provider.put(replace(seen, tags=Tags(request=seen.tags.request)))
    for _ in range(2):
        await looked(bench, task)
    assert bench.alarms("tags-hidden") == ["main"]
    assert len(await bench.events("alarm.raised")) == 1
    bench.provider.put(seen)
    await looked(bench, task)
    assert bench.alarms("tags-hidden") == []


@pytest.mark.parametrize(("machines", "words"), [(1, "the one machine named"), (2, "of 2 named")])
@on_bench
async def test_how_many_show_no_tags_is_told(bench: Bench, machines: int, words: str) -> None:
    for number in range(machines):
        bench.stray(f"x{number}", tags=Tags(request=RequestId(f"r{number}")))
    await looked(bench, lookout(bench))
    assert bench.store.book.alarms["tags-hidden", "main"].detail.startswith(words)


@pytest.mark.parametrize(
    "other",
    [
        {"tags": Tags()},
        {"tags": Tags(request=RequestId("r0")), "fault": StopReason.WRONG_RESOURCE},
        {"tags": Tags(request=RequestId("r0")), "cluster": True},
    ],
    ids=["no request id in its name", "waits in a queue", "of a cluster"],
)
@on_bench
async def test_what_need_not_show_tags_is_no_sign_that_they_are_hidden(bench: Bench, other: dict[str, Any]) -> None:
    await bench.start()
    (seen,) = bench.provider.resources
    bench.provider.put(replace(seen, **other))
    task = lookout(bench)
    await looked(bench, task)
    assert bench.alarms("tags-hidden") == []


@on_bench
async def test_one_that_shows_its_tags_shows_that_tags_are_shown(bench: Bench) -> None:
    await bench.start()
    (seen,) = bench.provider.resources
    changed = replace(seen.key, incarnation="changed-in-the-console")
    bench.provider.put(replace(seen, key=changed, tags=Tags(request=seen.tags.request)))
    task = lookout(bench)
    await looked(bench, task)
    assert bench.alarms("tags-hidden") == []


async def listed(bench: Bench, task: Lookout, **missing: tuple[Unlisted, ...]) -> None:
    bench.view.publish(replace(bench.view.value, unlisted=missing))
    await task.run_pass()


SLIP = Unlisted(named="L40Z", offers=frozenset({"L40Z"}), nearest=("L40S", "L40"))
TOLD = 'models.qwen.gpus: the provider\'s catalog has no "L40Z" (did you mean "L40S" or "L40"?)'


@on_bench
async def test_a_type_that_the_catalog_lacks_is_told_once_for_its_model_until_there_is_one(bench: Bench) -> None:
    task = lookout(bench)
    for _ in range(2):
        await listed(bench, task, qwen=(SLIP,), other=(SLIP,))
    assert bench.alarms("gpu-unknown") == ["other", "qwen"]
    assert bench.store.book.alarms["gpu-unknown", "qwen"].detail == TOLD
    await listed(bench, task, other=(SLIP,))
    assert bench.alarms("gpu-unknown") == ["other"]
    assert len(await bench.events("alarm.raised")) == 2


@on_bench
async def test_another_type_that_the_catalog_lacks_is_told_in_place_of_the_former(bench: Bench) -> None:
    task = lookout(bench)
    await listed(bench, task, qwen=(SLIP,))
    await listed(bench, task, qwen=(replace(SLIP, named="L41"),))
    assert '"L41"' in bench.store.book.alarms["gpu-unknown", "qwen"].detail


@on_bench
async def test_another_alarm_about_the_same_model_is_not_taken_for_this_one(bench: Bench) -> None:
    task = lookout(bench)
    await listed(bench, task, qwen=(SLIP,))
    await bench.store.write(lambda tx: tx.raise_alarm("model-blocked", subject="qwen", detail="looked into"))
    await listed(bench, task, qwen=(SLIP,))
    assert await bench.events("alarm.cleared") == []


@on_bench
async def test_while_there_is_nothing_new_to_tell_a_locked_store_is_not_asked(bench: Bench) -> None:
    bench.stray(tags=Tags(request=RequestId("r0")))
    task = lookout(bench)
    await looked(bench, task)
    await listed(bench, task, qwen=(SLIP,))
    assert (bench.alarms("tags-hidden"), bench.alarms("gpu-unknown")) == (["main"], ["qwen"])
    bench.lock_store()
    await task.run_pass()


@on_bench
async def test_while_no_catalog_was_read_nothing_is_told_of_types_and_nothing_taken_back(bench: Bench) -> None:
    await listed(bench, lookout(bench), qwen=(SLIP,))
    await bench.restart()
    await lookout(bench).run_pass()
    assert bench.alarms("gpu-unknown") == ["qwen"]
    await listed(bench, lookout(bench))
    assert bench.alarms("gpu-unknown") == []
