"""Does each stored line come into the file once and in order, whatever happens to the file?"""

import gzip
import json
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from controller.core.evidence_chain import BEFORE_THE_FIRST
from controller.store.errors import StoreError
from controller.store.evidence_file import EvidenceFile, LastLine
from controller.store.restoring import Older, take_up
from controller.tasks.evidence_writer import EvidenceWriter
from tests.tasks.world import Bench, at_once, on_bench


def on_a_disk_with(space: int) -> Any:
    """Files may not grow beyond so many bytes: the rest of a write fails, as on a full disk."""

    async def limited(work: Callable[[], Any]) -> Any:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (space, hard))
        try:
            return work()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    return limited


def path_of(bench: Bench) -> Path:
    return bench.folder / "evidence.jsonl"


def writer(bench: Bench, blocking: Any = at_once) -> EvidenceWriter:
    return EvidenceWriter(store=bench.store, path=path_of(bench), blocking=blocking)


def seqs(*paths: Path) -> list[int]:
    return [json.loads(line)["seq"] for path in paths for line in path.read_text().splitlines()]


async def tell(bench: Bench, count: int = 1) -> None:
    for _ in range(count):
        await bench.store.write(lambda tx: tx.line("clock.jumped", detail={"text": "x" * 100}))


def whole(bench: Bench) -> list[int]:
    return list(range(1, bench.store.book.seq_latest + 1))


@on_bench
async def test_lines_come_in_order_chained_and_once(bench: Bench) -> None:
    task = writer(bench)
    await bench.serve()
    await task.run_pass()
    await task.run_pass()
    await tell(bench, 3)
    await task.run_pass()
    lines = [json.loads(line) for line in path_of(bench).read_text().splitlines()]
    assert [line["seq"] for line in lines] == whole(bench)
    assert [line["prev"] for line in lines] == [BEFORE_THE_FIRST, *(line["hash"] for line in lines[:-1])]


@on_bench
async def test_more_lines_than_a_batch_are_written_in_one_pass(bench: Bench) -> None:
    await bench.store.write(lambda tx: [tx.line("clock.jumped") for _ in range(1201)])
    await writer(bench).run_pass()
    assert seqs(path_of(bench)) == whole(bench)


@on_bench
async def test_a_restart_goes_on_after_the_last_line_of_the_file(bench: Bench) -> None:
    await tell(bench, 3)
    await writer(bench).run_pass()
    await tell(bench, 2)
    await writer(bench).run_pass()
    assert seqs(path_of(bench)) == whole(bench)


@pytest.mark.parametrize("torn", ["{", '{"seq":99', '{"seq":4,"at":"x"}'])
@on_bench
async def test_a_line_torn_by_a_crash_is_replaced_by_the_whole_one(bench: Bench, torn: str) -> None:
    await tell(bench, 3)
    await writer(bench).run_pass()
    with path_of(bench).open("a") as file:
        file.write(torn)
    await tell(bench)
    await writer(bench).run_pass()
    assert seqs(path_of(bench)) == whole(bench)


@on_bench
async def test_a_rotation_by_name_is_noticed_before_the_next_line(bench: Bench) -> None:
    task, rotated = writer(bench), bench.folder / "evidence.jsonl.1"
    await tell(bench, 2)
    await task.run_pass()
    path_of(bench).rename(rotated)
    await tell(bench, 2)
    await task.run_pass()
    assert seqs(rotated, path_of(bench)) == whole(bench)
    assert seqs(rotated) == [1, 2]


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("made_anew", [False, True])
@on_bench
async def test_after_a_rotation_a_restart_reads_the_number_from_the_newest_rotation(
    bench: Bench, zipped: bool, made_anew: bool
) -> None:
    await tell(bench, 3)
    await writer(bench).run_pass()
    path, rotated = path_of(bench), bench.folder / "evidence.jsonl.1"
    path.rename(rotated)
    if zipped:
        rotated.with_name(rotated.name + ".gz").write_bytes(gzip.compress(rotated.read_bytes()))
        rotated.unlink()
    if made_anew:
        path.touch()
    await tell(bench, 2)
    await writer(bench).run_pass()
    assert seqs(path) == [4, 5]


@on_bench
async def test_a_file_opened_anew_on_request_goes_on(bench: Bench) -> None:
    task = writer(bench)
    await tell(bench)
    await task.run_pass()
    task.reopen()
    await tell(bench)
    await task.run_pass()
    assert seqs(path_of(bench)) == whole(bench)


@on_bench
async def test_a_file_that_cannot_be_written_fails_no_pass_and_is_alarmed(bench: Bench) -> None:
    path_of(bench).mkdir()
    task = writer(bench)
    await tell(bench)
    until = await task.run_pass()
    assert until is not None
    assert (until - bench.clock.now()).total_seconds() == 10
    assert bench.alarms("evidence-file") == [str(path_of(bench))]
    before = bench.store.book
    await task.run_pass()
    assert bench.store.book is before


@on_bench
async def test_lines_wait_in_the_store_until_the_file_can_be_written(bench: Bench) -> None:
    path_of(bench).mkdir()
    task = writer(bench)
    await tell(bench, 3)
    await task.run_pass()
    path_of(bench).rmdir()
    await task.run_pass()
    await task.run_pass()
    assert seqs(path_of(bench)) == whole(bench)
    assert bench.alarms("evidence-file") == []


@pytest.mark.parametrize("space", [1, 250, 700, 701, 702, 1000])
@on_bench
async def test_a_disk_that_fills_up_in_the_midst_of_a_batch_doubles_and_tears_no_line(bench: Bench, space: int) -> None:
    await tell(bench, 6)
    full = EvidenceWriter(store=bench.store, path=path_of(bench), blocking=on_a_disk_with(space))
    await full.run_pass()
    await full.run_pass()
    assert path_of(bench).stat().st_size <= space
    full._blocking = at_once
    await full.run_pass()
    await full.run_pass()
    assert seqs(path_of(bench)) == whole(bench)


@on_bench
async def test_closing_writes_what_is_left(bench: Bench) -> None:
    task = writer(bench)
    await tell(bench, 2)
    await task.close()
    assert seqs(path_of(bench)) == whole(bench)


def test_the_file_is_readable_by_its_group_and_writable_by_us_alone(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "evidence.jsonl"
    EvidenceFile(path).append(['{"seq":1}'])
    assert path.stat().st_mode & 0o777 == 0o640


NO_LINES = ["", "\n", "no json\n", '{"at":1}\n', "[1]\n", '{"seq":', "[" * 100_000 + "\n"]
NO_NUMBERS = ["true", "1e999", "NaN", "-1", "0", "1.5", "9223372036854775808", "9" * 400, "null", '"7"']


@pytest.mark.parametrize("content", [*NO_LINES, *(f'{{"seq":{seq},"hash":"x"}}\n' for seq in NO_NUMBERS)])
def test_a_file_without_a_numbered_line_begins_at_nought(tmp_path: Path, content: str) -> None:
    (tmp_path / "evidence.jsonl").write_text(content)
    assert EvidenceFile(tmp_path / "evidence.jsonl").last_seq() == 0


@pytest.mark.parametrize("zipped", [False, True])
@on_bench
async def test_a_rotation_that_is_named_after_its_day_counts_too(bench: Bench, zipped: bool) -> None:
    """As logrotate names them with `dateext`; the file itself was made anew and is empty."""
    await tell(bench, 3)
    await writer(bench).run_pass()
    path, rotated = path_of(bench), bench.folder / "evidence.jsonl-20261129-1795953600"
    path.rename(rotated)
    if zipped:
        rotated.with_name(rotated.name + ".gz").write_bytes(gzip.compress(rotated.read_bytes()))
        rotated.unlink()
    path.touch()
    await tell(bench, 2)
    await writer(bench).run_pass()
    assert seqs(path) == [4, 5]


@on_bench
async def test_a_file_of_another_store_is_set_aside_and_all_of_this_one_is_told(bench: Bench) -> None:
    path = path_of(bench)
    path.write_text('{"seq":900,"hash":"of-another-chain"}\n')
    await tell(bench, 2)
    await writer(bench).run_pass()
    assert seqs(path) == whole(bench)
    assert seqs(path.with_name("evidence.jsonl.aside-1")) == [900]


@on_bench
async def test_lines_that_cannot_be_read_at_the_end_wait_in_the_store_for_the_next_start(bench: Bench) -> None:
    task = writer(bench)
    await tell(bench)
    await task.run_pass()
    before = whole(bench)
    await tell(bench, 2)

    async def locked(*_: object) -> None:
        raise StoreError("database is locked")

    vars(bench.store)["read"] = locked
    await task.close()
    assert seqs(path_of(bench)) == before
    del vars(bench.store)["read"]
    await writer(bench).run_pass()
    assert seqs(path_of(bench)) == whole(bench)


TORN = [lambda packed: packed[:-9], lambda packed: packed[:40], lambda packed: b"no gzip", lambda packed: b""]


@pytest.mark.parametrize("tear", [*TORN, lambda packed: packed[:20] + b"\xff" * 30 + packed[50:]])
@on_bench
async def test_a_compressed_rotation_that_is_torn_neither_ends_the_daemon_nor_hides_the_whole_one(
    bench: Bench, tear: Callable[[bytes], bytes]
) -> None:
    """As a crash in the middle of a compression leaves it: the part beside the whole, and newer."""
    await tell(bench, 3)
    await writer(bench).run_pass()
    path, rotated = path_of(bench), bench.folder / "evidence.jsonl.1"
    path.rename(rotated)
    rotated.with_name(rotated.name + ".gz").write_bytes(tear(gzip.compress(rotated.read_bytes())))
    path.touch()
    await tell(bench, 2)
    await writer(bench).run_pass()
    assert seqs(path) == [4, 5]


@on_bench
async def test_lines_that_another_daemon_wrote_while_this_one_was_stopped_are_not_written_again(bench: Bench) -> None:
    """Stopped between the store's reading and the file's writing; the other one has written them meanwhile."""
    stopped: list[str] = []

    async def blocking(work: Callable[[], Any]) -> Any:
        if stopped and stopped.pop() == "now":
            await writer(bench).run_pass()
        return work()

    task = writer(bench, blocking)
    await tell(bench)
    await task.run_pass()
    await tell(bench, 3)
    stopped.append("now")
    await task.run_pass()
    assert seqs(path_of(bench)) == whole(bench)


@on_bench
async def test_file_that_was_emptied_in_place_goes_on_with_the_next_line(bench: Bench) -> None:
    task = writer(bench)
    await tell(bench, 2)
    await task.run_pass()
    path = path_of(bench)
    path.with_name("evidence.jsonl.1").write_bytes(path.read_bytes())
    path.write_bytes(b"")
    await tell(bench, 2)
    await task.run_pass()
    assert (seqs(path.with_name("evidence.jsonl.1")), seqs(path)) == (whole(bench)[:-2], whole(bench)[-2:])


@on_bench
async def test_a_store_put_back_goes_on_in_the_file_where_its_line_says_so(bench: Bench) -> None:
    """The file's last line is not this store's, and the declared break names its hash."""
    path = path_of(bench)
    await tell(bench, 2)
    path.write_text('{"seq":900,"hash":"of-the-lost-part"}\n')
    older = Older(why="told", after=LastLine(seq=900, hash="of-the-lost-part"), seq=900)
    await bench.store.write(lambda tx: take_up(tx, older))
    await tell(bench)
    await writer(bench).run_pass()
    break_at = bench.store.book.seq_latest - 2
    assert seqs(path)[0] == 900
    assert seqs(path)[1:] == list(range(break_at, bench.store.book.seq_latest + 1))
    assert json.loads(path.read_text().splitlines()[1])["event"] == "store.restored"
    assert not path.with_name("evidence.jsonl.aside-1").exists()
