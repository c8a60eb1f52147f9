"""How the sockets are made, left and given back."""

import logging
import os
import socket
import stat
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from controller.api.app import gateways_app, serve_unix
from controller.api.binding import bind_unix
from controller.api.client import DaemonClient
from tests.api.world import World


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_a_socket_answers_with_its_mode_and_is_gone_afterwards(house: World, tmp_path: Path) -> None:
    path, closing = tmp_path / "g.sock", house.closing
    async with anyio.create_task_group() as group:
        await group.start(partial(serve_unix, gateways_app(house.panel), path, mode=0o660, closing=closing))
        assert mode_of(path) == 0o660
        answer = await DaemonClient.at_socket(str(path)).routes(after=None, wait=timedelta(0))
        assert answer["controller"] == "c-1"
        closing.set()
    assert not path.exists()


@pytest.mark.parametrize("cancelled", [True, False])
async def test_who_waits_is_answered_when_serving_ends_and_nothing_is_logged_as_wrong(
    house: World, tmp_path: Path, caplog: pytest.LogCaptureFixture, cancelled: bool
) -> None:
    path = tmp_path / "g.sock"
    answers: list[dict[str, Any]] = []
    client = DaemonClient.at_socket(str(path))

    async def follow() -> None:
        answers.append(await client.routes(after=1, wait=timedelta(seconds=60)))

    with anyio.fail_after(3), caplog.at_level(logging.WARNING):
        async with anyio.create_task_group() as callers, anyio.create_task_group() as servers:
            await servers.start(partial(serve_unix, gateways_app(house.panel), path, mode=0o600, closing=house.closing))
            await client.routes(after=None, wait=timedelta(0))
            callers.start_soon(follow)
            while not house.panel.board.changed.statistics().tasks_waiting:
                await checkpoint()
            if cancelled:
                servers.cancel_scope.cancel()
            else:
                house.closing.set()
    assert answers[0]["version"] == 1
    assert not caplog.records
    assert not path.exists()


def test_the_mode_is_exact_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        bind_unix(tmp_path / "a.sock", mode=0o660).close()
        assert os.umask(0o077) == 0o077
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "a.sock") == 0o660


def test_what_a_crash_left_is_taken_away(tmp_path: Path) -> None:
    path = tmp_path / "a.sock"
    bind_unix(path, mode=0o660).close()
    assert path.exists()
    with bind_unix(path, mode=0o600):
        assert mode_of(path) == 0o600


def test_a_socket_that_somebody_listens_on_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.sock"
    with bind_unix(path, mode=0o660) as listener:
        with pytest.raises(OSError, match="somebody listens there already"):
            bind_unix(path, mode=0o660)
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(str(path))
        assert listener.fileno() >= 0


def test_a_file_that_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.sock"
    path.write_text("mine")
    with pytest.raises(FileExistsError):
        bind_unix(path, mode=0o660)
    assert path.read_text() == "mine"
