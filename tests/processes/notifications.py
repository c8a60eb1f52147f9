"""What does a process tell the one that would be systemd?"""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Told:
    """What a process says to the one that would be systemd."""

    def __init__(self, name: str, listener: socket.socket) -> None:
        self.name = name
        self._listener = listener
        self._heard: list[str] = []

    def said(self, word: str) -> bool:
        try:
            while True:
                self._heard += self._listener.recv(4096).decode().splitlines()
        except BlockingIOError:
            return word in self._heard


@contextmanager
def notify_socket(path: Path) -> Iterator[Told]:
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(path))
        listener.setblocking(False)
        yield Told(str(path), listener)
