"""Is what a test leaves changed in its process noticed, and named?"""

import gc
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from anyio._core import _eventloop

from controller.store.database import FileLock
from tests.support.as_found import changed, found

CHANGES: dict[str, Callable[[pytest.MonkeyPatch, Path], object]] = {
    "the folder": lambda patch, folder: patch.chdir(folder),
    "whether garbage is collected": lambda patch, folder: patch.setattr(gc, "isenabled", lambda: False),
    "what SIGTERM does": lambda patch, folder: patch.setattr(signal, "getsignal", lambda _: signal.SIG_IGN),
    "$HOME": lambda patch, folder: patch.delenv("HOME", raising=False),
    "$GPUWARDEN_NEW": lambda patch, folder: patch.setenv("GPUWARDEN_NEW", "1"),
    "anyio._core._eventloop.current_async_library": lambda patch, folder: patch.setattr(
        _eventloop, "current_async_library", lambda: "asyncio"
    ),
    "controller.store.database.FileLock.take": lambda patch, folder: patch.setattr(FileLock, "take", None),
}


@pytest.mark.parametrize("part", CHANGES)
def test_what_a_test_left_changed_is_named(part: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", os.fspath(tmp_path))
    before = found()
    with monkeypatch.context() as patch:
        CHANGES[part](patch, tmp_path)
        assert part in changed(before, found())
    assert changed(before, found()) == []
