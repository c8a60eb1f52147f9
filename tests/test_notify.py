"""Does systemd get what it expects, in one datagram each?"""

import socket
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from controller.notify import Notifier


@pytest.fixture(params=["path", "abstract"])
def heard(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[socket.socket, str]]:
    named = str(tmp_path / "notify") if request.param == "path" else f"@gpuwarden-test-{tmp_path.name}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind("\0" + named[1:] if named.startswith("@") else named)
        listener.settimeout(1)
        yield listener, named


def test_each_message_is_one_datagram(heard: tuple[socket.socket, str]) -> None:
    listener, named = heard
    notifier = Notifier({"NOTIFY_SOCKET": named}, process_id=7)
    sent = [
        notifier.ready(),
        notifier.said("2 machines,\n$1.58/h"),
        notifier.alive(),
        notifier.needs(timedelta(seconds=1.5)),
        notifier.reloading(timedelta(seconds=2)),
        notifier.stopping(),
    ]
    assert all(sent)
    assert [listener.recv(4096).decode() for _ in sent] == [
        "READY=1",
        "STATUS=2 machines, $1.58/h",
        "WATCHDOG=1",
        "EXTEND_TIMEOUT_USEC=1500000",
        "RELOADING=1\nMONOTONIC_USEC=2000000",
        "STOPPING=1",
    ]


@pytest.mark.parametrize("environment", [{}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "relative"}])
def test_without_systemd_nothing_is_told(environment: dict[str, str]) -> None:
    assert not Notifier(environment, process_id=7).ready()


def test_a_socket_that_went_away_is_no_failure(tmp_path: Path) -> None:
    assert not Notifier({"NOTIFY_SOCKET": str(tmp_path / "gone")}, process_id=7).alive()


@pytest.mark.parametrize(
    ("environment", "span"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "60000000"}, timedelta(seconds=60)),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "7"}, timedelta(seconds=60)),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "8"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_the_watchdog_is_kept_only_when_it_is_meant_for_us(environment: dict[str, str], span: timedelta | None) -> None:
    assert Notifier(environment, process_id=7).watchdog == span
