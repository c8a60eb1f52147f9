"""Do the files of tests lie in memory only where they fit and can be started?"""

import os
from pathlib import Path

import pytest

from tests.support import memory


def mounted(*, free_bytes: int, flags: int = 0) -> os.statvfs_result:
    return os.statvfs_result((4096, 4096, 1 << 30, 1 << 30, free_bytes // 4096, 0, 0, 0, flags, 255))


@pytest.mark.parametrize(
    ("found", "fit"),
    [
        (mounted(free_bytes=memory.ROOM_BYTES), True),
        (mounted(free_bytes=memory.ROOM_BYTES - 4096), False),
        (mounted(free_bytes=memory.ROOM_BYTES, flags=os.ST_NOEXEC), False),
        (mounted(free_bytes=memory.ROOM_BYTES, flags=os.ST_NOSUID), True),
    ],
)
def test_a_folder_fits_that_has_room_and_lets_programs_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: os.statvfs_result, fit: bool
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _: found)
    assert memory.fit(tmp_path) is fit


def test_a_folder_that_is_not_there_does_not_fit(tmp_path: Path) -> None:
    assert not memory.fit(tmp_path / "none")


def test_a_place_that_was_named_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/elsewhere")
    monkeypatch.setattr(memory, "fit", lambda _: True)
    memory.lie_in_memory()
    assert os.environ["TMPDIR"] == "/elsewhere"
