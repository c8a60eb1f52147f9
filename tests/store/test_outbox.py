"""Are evidence lines stored in order, chained, without a gap, and read back from any number on?"""

import json
from decimal import Decimal
from pathlib import Path

import pytest

from controller.core.deployment import CreateAnswer
from controller.core.evidence_chain import BEFORE_THE_FIRST, verify
from controller.store import deployments
from controller.store.outbox import lines_after
from controller.store.transaction import Tx
from tests.core.samples import key
from tests.store.samples import accept, declare, lose, opened, submit
from tests.support.clocks import NOON, HandClock


async def test_lines_are_numbered_from_one_and_chained_across_a_restart(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        await store.write(accept)
    async with opened(tmp_path, HandClock()) as store:
        await store.write(lambda tx: lose(tx, "q2", slot=1))
        found = await store.read(lambda sql: lines_after(sql, 0, limit=1000))
        tail = (store.book.seq_latest, store.book.hash_latest)
    lines = [json.loads(line) for _, line in found]
    assert [seq for seq, _ in found] == [line["seq"] for line in lines] == list(range(1, tail[0] + 1))
    assert verify(lines, BEFORE_THE_FIRST) is None
    assert lines[-1]["hash"] == tail[1]


@pytest.mark.parametrize(("after", "limit", "numbers"), [(0, 2, [1, 2]), (2, 2, [3]), (3, 2, [])])
async def test_lines_are_read_from_any_number_on(tmp_path: Path, after: int, limit: int, numbers: list[int]) -> None:
    async with opened(tmp_path, HandClock()) as store:
        await store.write(declare)
        found = await store.read(lambda sql: lines_after(sql, after, limit=limit))
        assert [seq for seq, _ in found] == numbers


async def test_a_line_says_instants_amounts_and_keys_in_the_fixed_form_and_leaves_out_the_unknown(
    tmp_path: Path,
) -> None:
    def tell(tx: Tx) -> None:
        tx.line("x", resource=key(), usd_per_hour=Decimal("0.790"), reason=None, detail={"until": NOON, "none": None})

    async with opened(tmp_path, HandClock()) as store:
        await store.write(tell)
        ((_, text),) = await store.read(lambda sql: lines_after(sql, 0, limit=1))
    line = json.loads(text)
    assert {name: line[name] for name in line if name not in {"prev", "hash"}} == {
        "seq": 1,
        "at": "2026-03-01T12:00:00.000Z",
        "event": "x",
        "resource": {"provider": "runpod", "account": "main", "name": "gpuwarden-qwen", "incarnation": "p1"},
        "usd_per_hour": "0.79",
        "detail": {"until": "2026-03-01T12:00:00.000Z"},
    }


async def test_half_a_character_from_outside_does_not_keep_a_fact_from_being_written(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        create = await store.write(submit)
        await store.write(lambda tx: deployments.record_unknown(tx, create, detail="half: \ud800"))
        assert store.book.creates[create.request].answer is CreateAnswer.UNKNOWN
    async with opened(tmp_path, HandClock()) as store:
        assert store.book.creates[create.request].detail == "half: ?"
