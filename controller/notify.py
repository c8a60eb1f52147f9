"""What does systemd have to know of us?

One datagram per message to the socket that systemd names, and nothing at all without one. A failure to tell is not a
failure to run: it is answered with False.
"""

import socket
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

_STATUS_CHARACTERS: Final = 500


class Notifier:
    """Speaks to the systemd that started this process, if one did. `environment` as it was at the start."""

    def __init__(self, environment: Mapping[str, str], *, process_id: int) -> None:
        path = environment.get("NOTIFY_SOCKET", "")
        self._address = "\0" + path[1:] if path.startswith("@") else path
        self.watchdog = _watchdog(environment, process_id)
        """It expects `alive` at least this often; None: never. Half of it is a good rhythm."""

    def ready(self) -> bool:
        return self._tell("READY=1")

    def said(self, words: str) -> bool:
        """One line for `systemctl status`."""
        return self._tell(f"STATUS={' '.join(words.split())[:_STATUS_CHARACTERS]}")

    def alive(self) -> bool:
        return self._tell("WATCHDOG=1")

    def stopping(self) -> bool:
        return self._tell("STOPPING=1")

    def reloading(self, boot: timedelta) -> bool:
        """`boot` is CLOCK_MONOTONIC; both lines go in one datagram, or systemd takes the second for another message."""
        return self._tell(f"RELOADING=1\nMONOTONIC_USEC={_microseconds(boot)}")

    def needs(self, more: timedelta) -> bool:
        """Starting or stopping takes so much longer from now on."""
        return self._tell(f"EXTEND_TIMEOUT_USEC={_microseconds(more)}")

    def _tell(self, message: str) -> bool:
        if not self._address.startswith(("/", "\0")):
            return False
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK) as out:
                out.sendto(message.encode(), self._address)
        except OSError:
            return False
        return True


def _watchdog(environment: Mapping[str, str], process_id: int) -> timedelta | None:
    micros, whose = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", "")
    if not (micros.isascii() and micros.isdigit()) or int(micros) == 0 or whose not in ("", str(process_id)):
        return None
    return timedelta(microseconds=int(micros))


def _microseconds(span: timedelta) -> int:
    return span // timedelta(microseconds=1)
