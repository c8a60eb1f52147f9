"""What is left of a start whose create does not leave, though it is on record as on its way?"""

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any

import pytest

from controller.core.deployment import CreateAnswer
from controller.core.errors import Refusal
from controller.core.identity import DeploymentId
from controller.core.lifecycle import Phase
from controller.core.obligation import Ending
from controller.providers.fake.adapter import Made
from controller.store import declaring
from controller.store.declaring import StartOf
from controller.store.errors import Stale, StoreUnwritable
from controller.store.store import Store
from controller.tasks.executor import Executor
from tests.tasks.world import Bench, on_bench
from tests.tasks.writing import Port, pauses_after_commit

NAME = DeploymentId("qwen-1")


def wanted(bench: Bench) -> StartOf:
    return StartOf(model=bench.model, slot=0, ceiling=Decimal(1), holder=bench.holder, offer="L40S")


async def begin(executor: Executor, bench: Bench, name: DeploymentId = NAME) -> None:
    await executor.begin(name, wanted(bench))


def commits_unseen(monkeypatch: pytest.MonkeyPatch, bench: Bench, *, after: int = 0) -> None:
    """The end of a commit is not seen: of the next one, or of the one after so many."""
    write, left = bench.store.write, [after]

    async def lost(work: Callable[..., object], **options: object) -> object:
        result = await write(work)
        left[0] -= 1
        if left[0] < 0:
            monkeypatch.undo()
            raise StoreUnwritable("scripted: no commit was seen")
        return result

    monkeypatch.setattr(Store, "write", lambda store, work, **options: lost(work))


@on_bench
async def test_declaration_obligation_and_mark_are_one_commit(bench: Bench) -> None:
    write, commits = bench.store.write, list[tuple[int, int, int]]()

    async def counted(work: Any, **options: Any) -> Any:
        result, book = await write(work, **options), bench.store.book
        marked = [create for create in book.creates.values() if create.submitting_at is not None]
        commits.append((len(book.obligations), len(marked), len(bench.provider.resources)))
        return result

    vars(bench.store)["write"] = counted
    await begin(await bench.executor(), bench)
    await bench.settle()
    assert commits == [(1, 1, 0), (1, 1, 1)]  # the second is the answer's
    assert (bench.record().phase, bench.provider.calls["create"]) == (Phase.REQUESTED, 1)


@on_bench
async def test_who_looks_at_what_is_committed_is_woken_after_the_create_left(bench: Bench) -> None:
    port, rung = Port(bench), list[list[str]]()
    port.hangs = True
    executor = await bench.executor(writing=port)
    bench.store.on_change(lambda: rung.append(list(port.created)))
    await begin(executor, bench)
    await bench.move(0.019)
    assert (port.created, rung) == (["L40S"], [])
    await bench.move(0.002)
    assert rung == [["L40S"]]


@on_bench
async def test_a_store_that_is_closed_wakes_nobody_any_more(bench: Bench) -> None:
    rung: list[None] = []
    port = Port(bench)
    port.hangs = True
    executor = await bench.executor(writing=port)
    bench.store.on_change(lambda: rung.append(None))
    await begin(executor, bench)
    await bench.settle()
    await bench.store.close()
    await bench.move(1)
    assert rung == []


@pytest.mark.parametrize(("paused_s", "sent"), [(300, 1), (300.001, 0)])
@on_bench
async def test_a_process_that_was_stopped_past_its_lease_after_the_commit_sends_no_create(
    bench: Bench, paused_s: float, sent: int
) -> None:
    executor = await bench.executor()
    pauses_after_commit(bench, paused_s)
    bench.group.start_soon(partial(begin, executor, bench))
    await bench.move(301)
    assert (bench.provider.calls["create"], len(bench.provider.resources)) == (sent, sent)
    assert bench.duty().ending is (None if sent else Ending.VOID)


@pytest.mark.parametrize("lost", ["file", "epoch"])
@on_bench
async def test_a_process_whose_right_was_taken_after_the_commit_sends_no_create(bench: Bench, lost: str) -> None:
    executor = await bench.executor()
    pauses_after_commit(bench, 5, meanwhile=bench.lose_file if lost == "file" else lambda: None)
    bench.group.start_soon(partial(begin, executor, bench))
    await bench.settle()
    if lost == "epoch":
        lease = bench.store.book.leases[NAME]
        await bench.store.write(lambda tx: tx.put_lease(replace(lease, epoch=tx.next_epoch())))
    await bench.move(6)
    assert bench.provider.calls["create"] == 0


@on_bench
async def test_nothing_is_declared_once_shut_and_what_was_asked_for_just_before_is_told_as_not_sent(
    bench: Bench,
) -> None:
    executor = await bench.executor()
    await begin(executor, bench)
    executor.shut()
    await bench.settle()
    with pytest.raises(Stale, match="ending"):
        await begin(executor, bench, DeploymentId("qwen-2"))
    (create,) = bench.store.book.creates.values()
    assert (create.answer, bench.record().phase) == (CreateAnswer.NOT_SENT, Phase.CANCELLED)
    assert bench.provider.calls["create"] == 0


@on_bench
async def test_a_start_that_cannot_be_written_leaves_nothing_and_stands_in_nobody_s_way(bench: Bench) -> None:
    executor = await bench.executor()
    bench.break_store()
    with pytest.raises(StoreUnwritable):
        await begin(executor, bench)
    with pytest.raises(StoreUnwritable):
        await bench.store.write(lambda tx: tx.line("x", detail={}))
    bench.mend_store()
    await executor.take_back()
    await bench.settle()
    assert (bench.store.book.records, bench.provider.calls["create"]) == ({}, 0)
    await begin(executor, bench, DeploymentId("qwen-2"))
    await bench.settle()
    assert bench.record("qwen-2").phase is Phase.REQUESTED


@on_bench
async def test_a_start_that_was_committed_unseen_is_taken_back_as_not_sent(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = await bench.executor()
    commits_unseen(monkeypatch, bench)
    with pytest.raises(StoreUnwritable):
        await begin(executor, bench)
    assert bench.record().phase is Phase.DECLARED
    await executor.take_back()
    (create,) = bench.store.book.creates.values()
    assert (create.answer, bench.record().phase, bench.duty().ending) == (
        CreateAnswer.NOT_SENT,
        Phase.CANCELLED,
        Ending.VOID,
    )
    await bench.settle()
    assert bench.provider.calls["create"] == 0


@on_bench
async def test_what_was_taken_back_once_is_not_taken_back_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    executor = await bench.executor()
    commits_unseen(monkeypatch, bench)
    with pytest.raises(StoreUnwritable):
        await begin(executor, bench)
    bench.lock_store()
    with pytest.raises(StoreUnwritable):
        await executor.take_back()
    monkeypatch.undo()
    del bench.store.write
    await executor.take_back()
    bench.lock_store()
    await executor.take_back()  # nothing is left to be written


@on_bench
async def test_the_next_offer_whose_mark_was_committed_unseen_is_not_asked_for(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    port, planned = Port(bench), await bench.submit()
    bench.provider.script.creates.append(Made.NO_CAPACITY)
    executor = await bench.executor(writing=port)
    commits_unseen(monkeypatch, bench, after=1)  # the first is the refusal's
    executor.start(planned, bench.model)
    await bench.move(3)
    answers = [create.answer for create in bench.store.book.creates.values()]
    assert (port.created, answers) == (["L40S"], [CreateAnswer.REJECTED, CreateAnswer.NOT_SENT])
    assert bench.record().phase is Phase.CANCELLED


@on_bench
async def test_what_was_called_is_never_taken_back(bench: Bench) -> None:
    """Whatever is wrong with the record of its answer."""
    create = (await bench.submit()).create
    await bench.store.write(lambda tx: declaring.withdraw(tx, NAME, called={create.request}))
    assert (bench.record().phase, bench.duty().open) == (Phase.DECLARED, True)
    assert bench.store.book.creates[create.request].answer is None


@on_bench
async def test_what_serves_or_is_unknown_is_not_taken_back(bench: Bench) -> None:
    await bench.serve()
    await bench.store.write(lambda tx: declaring.withdraw(tx, NAME, DeploymentId("nobody"), called=()))
    assert (bench.record().phase, bench.duty().open) == (Phase.ACTIVE, True)


@on_bench
async def test_an_order_that_cannot_be_made_is_told_as_not_sent(bench: Bench) -> None:
    executor = await bench.executor(launches={})
    await begin(executor, bench)
    await bench.settle()
    (create,) = bench.store.book.creates.values()
    assert (create.answer, bench.record().phase) == (CreateAnswer.NOT_SENT, Phase.CANCELLED)


@on_bench
async def test_in_a_doubtful_account_nothing_is_declared(bench: Bench) -> None:
    await bench.store.write(lambda tx: tx.put_account(replace(tx.book.account, trusted=False)))
    with pytest.raises(Stale, match="doubt"):
        await begin(await bench.executor(), bench)
    assert bench.store.book.records == {}


@on_bench
async def test_what_the_contract_refuses_is_neither_declared_nor_sent(bench: Bench) -> None:
    executor = await bench.executor()
    await begin(executor, bench)
    with pytest.raises(Refusal):
        await begin(executor, bench, DeploymentId("qwen-2"))
    await bench.settle()
    assert (list(bench.store.book.records), bench.provider.calls["create"]) == ([NAME], 1)
