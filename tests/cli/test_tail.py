"""Does a reader of a growing file get every line once, whatever rotation does to the file? (B51)"""

import gzip
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.cli import tail as tailing
from controller.cli.tail import Tail


class Writer:
    """Appends numbered lines; reopens when told, as a writer does on a signal."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._number = 0
        self.reopen()

    def reopen(self) -> None:
        self._descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640)

    def write(self, count: int) -> None:
        for _ in range(count):
            self._number += 1
            os.write(self._descriptor, f"{self._number}\n".encode())

    def close(self) -> None:
        os.close(self._descriptor)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "evidence.jsonl"


@pytest.fixture
def tail(path: Path) -> Iterator[Tail]:
    made = Tail(path)
    yield made
    made.close()


def numbers(first: int, last: int) -> list[str]:
    return [str(number) for number in range(first, last + 1)]


def rotate(path: Path) -> None:
    """Rename, as logrotate does with delaycompress: .1 plain, older ones gzipped."""
    for number in range(8, 0, -1):
        for suffix in ("", ".gz"):
            if (old := path.with_name(f"{path.name}.{number}{suffix}")).exists():
                new = path.with_name(f"{path.name}.{number + 1}.gz")
                if suffix:
                    old.rename(new)
                else:
                    with gzip.open(new, "wb") as packed:
                        packed.write(old.read_bytes())
                    old.unlink()
    path.rename(path.with_name(f"{path.name}.1"))


def test_a_file_that_is_not_there_yet_has_no_lines_and_is_read_when_it_comes(path: Path, tail: Tail) -> None:
    assert tail.lines() == []
    writer = Writer(path)
    writer.write(2)
    assert tail.lines() == numbers(1, 2)
    writer.close()


def test_half_a_line_is_no_line_until_its_end_comes(path: Path, tail: Tail) -> None:
    with path.open("ab", buffering=0) as out:
        out.write(b"on")
        assert tail.lines() == []
        out.write(b"e\ntw")
        assert tail.lines() == ["one"]
        out.write("ö\n".encode())
        assert tail.lines() == ["twö"]


def test_no_line_is_lost_or_told_twice_over_five_rotations(path: Path, tail: Tail) -> None:
    writer = Writer(path)
    seen: list[str] = []
    for _ in range(5):
        writer.write(1000)
        seen += tail.lines()
        writer.write(500)
        rotate(path)
        writer.write(500)  # before it notices
        seen += tail.lines()
        writer.write(10)
        writer.close()
        writer.reopen()
        writer.write(100)
        seen += tail.lines()
    writer.close()
    assert seen == numbers(1, 5 * 2110)


def test_what_comes_to_the_old_file_while_the_new_one_is_noticed_is_read(
    path: Path, tail: Tail, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(path)
    writer.write(1)
    assert tail.lines() == ["1"]
    path.rename(f"{path}.1")
    path.touch()

    def late(looked_at: Path) -> tuple[int, int]:
        if looked_at == path:
            writer.write(1)
        found = looked_at.stat()
        return found.st_dev, found.st_ino

    monkeypatch.setattr(tailing, "_identity", late)
    assert tail.lines() == ["2"]
    writer.close()


def test_a_file_that_came_and_was_renamed_between_two_looks_is_read_too(path: Path, tail: Tail) -> None:
    writer = Writer(path)
    writer.write(10)
    seen = tail.lines()
    for _ in range(2):
        writer.write(10)
        path.with_name(f"{path.name}.1").exists() and path.with_name(f"{path.name}.1").rename(f"{path}.2")
        path.rename(f"{path}.1")
        writer.close()
        writer.reopen()
    writer.write(10)
    assert seen + tail.lines() == numbers(1, 40)
    writer.close()


def test_reading_goes_on_after_copy_and_truncate(path: Path, tail: Tail) -> None:
    writer = Writer(path)
    writer.write(100)
    assert tail.lines() == numbers(1, 100)
    shutil.copy(path, f"{path}.1")
    os.truncate(path, 0)
    writer.write(3)
    assert tail.lines() == numbers(101, 103)
    writer.close()


def test_reading_goes_on_after_the_open_file_was_deleted(path: Path, tail: Tail) -> None:
    writer = Writer(path)
    writer.write(5)
    assert tail.lines() == numbers(1, 5)
    path.unlink()
    writer.write(5)
    assert tail.lines() == numbers(6, 10)
    writer.close()
    writer.reopen()
    writer.write(5)
    assert tail.lines() == numbers(11, 15)
    writer.close()


def test_a_folder_that_cannot_be_entered_for_a_while_loses_nothing(path: Path, tail: Tail) -> None:
    writer = Writer(path)
    writer.write(5)
    assert tail.lines() == numbers(1, 5)
    hidden = path.parent.with_name(f"{path.parent.name}-hidden")
    path.parent.rename(hidden)
    writer.write(5)
    assert tail.lines() == numbers(6, 10)
    hidden.rename(path.parent)
    writer.write(5)
    assert tail.lines() == numbers(11, 15)
    writer.close()
