"""Is evidence that was changed, removed or put in found and named, in the file and against the store?"""

import gzip
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from controller.cli.evidence import _show_text
from controller.core.evidence_chain import BEFORE_THE_FIRST, canonical, link
from tests.cli.conftest import Run
from tests.cli.fake_daemon import FakeDaemon

Lines = list[dict[str, Any]]


def chain(count: int) -> Lines:
    lines: Lines = []
    prev = BEFORE_THE_FIRST
    for seq in range(1, count + 1):
        line = {"seq": seq, "at": "2026-11-29T12:00:00.000Z", "event": "stop.submitted", "deployment": f"qwen-{seq}"}
        lines.append(link(line, prev))
        prev = lines[-1]["hash"]
    return lines


def written(lines: Lines) -> str:
    return "".join(f"{canonical(line)}\n" for line in lines)


@pytest.fixture
def file(folder: Path) -> Path:
    return folder / "state" / "evidence.jsonl"


def stored(daemon: FakeDaemon, lines: Lines, after: int = 0) -> None:
    daemon.will(f"GET /v1/evidence?after={after}&wait=0&limit=1000", {"lines": lines})


def test_whole_evidence_is_said_to_be_whole(run: Run, daemon: FakeDaemon, file: Path) -> None:
    file.write_text(written(chain(5)))
    stored(daemon, chain(5))
    ended = run("evidence", "verify")
    assert (ended.code, ended.err) == (0, "whole: 5 lines, 5 of them compared with the daemon\n")
    assert json.loads(run("evidence", "verify", "--json").out)["lines"] == 5


def test_rotated_files_are_read_in_their_order(run: Run, daemon: FakeDaemon, file: Path) -> None:
    lines = chain(30)
    for number, part in ((11, lines[:10]), (2, lines[10:20])):
        with gzip.open(f"{file}.{number}.gz", "wt", encoding="utf-8") as packed:
            packed.write(written(part))
    Path(f"{file}.1").write_text(written(lines[20:29]))
    file.write_text(written(lines[29:]))
    stored(daemon, lines)
    assert run("evidence", "verify").err == "whole: 30 lines, 30 of them compared with the daemon\n"


def test_old_files_that_were_thrown_away_are_no_fault(run: Run, daemon: FakeDaemon, file: Path) -> None:
    file.write_text(written(chain(9)[4:]))
    stored(daemon, chain(9)[4:], after=4)
    assert run("evidence", "verify").code == 0


def test_a_changed_line_is_named(run: Run, file: Path) -> None:
    file.write_text(written(chain(5)).replace("qwen-3", "qwen-7"))
    ended = run("evidence", "verify")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err == f"{file}:3: seq 3: its content does not have its hash: it was changed\n"


def test_a_removed_line_is_named_in_the_rotated_file(run: Run, file: Path) -> None:
    lines = chain(8)
    Path(f"{file}.1").write_text(written([*lines[:2], *lines[3:5]]))
    file.write_text(written(lines[5:]))
    ended = run("evidence", "verify")
    assert ended.code == 1
    assert ended.err.startswith(f"{file}.1:3: seq 4: it does not follow the line before")


@pytest.mark.parametrize("line", ["{", "[]", "null", '{"seq": NaN}', '{"seq": 1e999}', "[" * 9999])
def test_a_line_that_is_none_is_named(run: Run, file: Path, line: str) -> None:
    file.write_text(written(chain(2)) + line + "\n")
    ended = run("evidence", "verify")
    assert ended.code == 1
    assert ended.err.startswith(f"{file}:3: not ")


def test_a_forged_chain_is_found_against_the_store(run: Run, daemon: FakeDaemon, file: Path) -> None:
    forged = chain(2)
    forged.append(link({**forged[1], "seq": 3, "event": "obligation.discharged"}, forged[1]["hash"]))
    file.write_text(written(forged))
    stored(daemon, chain(3))
    ended = run("evidence", "verify")
    assert (ended.code, ended.err) == (1, f"{file}:3: seq 3: the daemon holds another line of this seq\n")


def test_a_line_taken_out_of_a_chain_that_was_linked_anew_is_named(run: Run, daemon: FakeDaemon, file: Path) -> None:
    lines = chain(4)
    file.write_text(written([*lines[:2], link(lines[3], lines[1]["hash"])]))
    stored(daemon, lines)
    ended = run("evidence", "verify")
    assert (ended.code, ended.err) == (1, "seq 3 is in the daemon, and in no file\n")


def test_a_line_that_the_store_does_not_know_is_named(run: Run, daemon: FakeDaemon, file: Path) -> None:
    file.write_text(written(chain(4)))
    stored(daemon, chain(3))
    ended = run("evidence", "verify")
    assert (ended.code, ended.err) == (1, f"{file}:4: seq 4: the daemon knows no such line\n")


def test_a_tail_that_was_cut_off_is_found(run: Run, daemon: FakeDaemon, file: Path) -> None:
    file.write_text(written(chain(3)))
    stored(daemon, chain(5))
    ended = run("evidence", "verify")
    assert (ended.code, ended.err) == (1, "seq 4 to 5 are in the daemon's store, and in no file\n")


def test_no_evidence_is_not_whole_evidence(run: Run) -> None:
    assert run("evidence", "verify").code == 1


def put_in_store(folder: Path, lines: Lines) -> None:
    rows = sqlite3.connect(folder / "state" / "gpuwarden.db")
    rows.execute("CREATE TABLE evidence (seq INTEGER PRIMARY KEY, line)")
    rows.executemany("INSERT INTO evidence VALUES (?, ?)", [(line["seq"], canonical(line)) for line in lines])
    rows.commit()
    rows.close()


def test_without_a_daemon_the_file_is_compared_with_its_store(run: Run, folder: Path, file: Path) -> None:
    file.write_text(written(chain(3)))
    put_in_store(folder, chain(4))
    ended = run("evidence", "verify")
    assert ended.code == 3
    assert "seq 4 to 4 are in the store and not yet in a file" in ended.err
    assert ended.err.endswith("whole: 3 lines, 3 of them compared with the store\n")


def test_without_a_daemon_a_forged_line_is_still_found(run: Run, folder: Path, file: Path) -> None:
    file.write_text(written([*chain(2), link({"seq": 3, "event": "x"}, chain(2)[1]["hash"])]))
    put_in_store(folder, chain(3))
    assert "the store holds another line" in run("evidence", "verify").err


def test_the_newest_lines_are_shown(run: Run, file: Path) -> None:
    file.write_text(written(chain(5)))
    out = run("evidence", "-n", "2").out.splitlines()
    assert [line.split()[-1] for line in out] == ["qwen-4", "qwen-5"]
    assert [json.loads(line)["seq"] for line in run("evidence", "--json", "-n", "2").out.splitlines()] == [4, 5]


@pytest.mark.parametrize("tear", [lambda packed: packed[:-9], lambda packed: packed[:20] + b"\xff" * 30 + packed[50:]])
def test_a_torn_rotation_is_named(run: Run, file: Path, tear: Callable[[bytes], bytes]) -> None:
    file.write_text(written(chain(2)))
    Path(f"{file}.1.gz").write_bytes(tear(gzip.compress(written(chain(2)).encode())))
    ended = run("evidence", "verify")
    assert ended.code == 1
    assert ended.err.startswith(f"{file}.1.gz: cannot be read: ")


@pytest.mark.parametrize(
    "text", ["5", "null", "[]", "{", "[" * 9999, '{"phase": "x", "evidence": [1], "detail": 1e999}']
)
def test_a_line_that_is_none_does_not_end_the_following(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    _show_text(text, as_json=False)
    shown = capsys.readouterr()
    assert shown.err.startswith("unreadable line: ") or shown.out


def test_without_a_file_the_daemon_is_asked_and_then_the_store(run: Run, folder: Path, daemon: FakeDaemon) -> None:
    stored(daemon, chain(2))
    assert run("evidence").out.count("stop.submitted") == 2
    (folder / "state" / "api.sock").unlink()
    put_in_store(folder, chain(3))
    ended = run("evidence")
    assert (ended.code, ended.out.count("stop.submitted")) == (3, 3)


@pytest.mark.process
def test_following_goes_on_through_a_rotation(folder: Path, file: Path) -> None:
    file.write_text(written(chain(3)))
    command = [sys.executable, "-m", "controller", "evidence", "-f", "-n", "1", "-c", str(folder / "config.toml")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ}) as started:
        assert started.stdout is not None
        assert started.stdout.readline().split()[-1] == "qwen-3"
        with file.open("a") as out:
            out.write(written(chain(4)[3:]))
        file.rename(f"{file}.1")
        file.write_text(written(chain(6)[4:]))
        assert [started.stdout.readline().split()[-1] for _ in range(3)] == ["qwen-4", "qwen-5", "qwen-6"]
        started.send_signal(signal.SIGINT)
    assert started.returncode == 130
