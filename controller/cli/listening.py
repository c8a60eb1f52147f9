"""On which sockets does the gateway listen?

On those that systemd hands over, else on its own. For several workers there is one socket each on the same address,
among which the kernel spreads connections; the parent keeps all of them open, so that the queue of a worker that died
waits for the next one. That option also lets any other process of the same user join in, so an address is tried
without it first: one that is taken is refused as ever.
"""

import socket
from collections.abc import Mapping, Sequence
from typing import Final

from controller.cli.exits import Exit, Failure
from controller.settings import is_loopback

BACKLOG: Final = 2048
FIRST_HANDED: Final = 3
"""systemd's files begin behind the three that every process has."""

Sockets = Sequence[socket.socket]


def listeners(
    listen: str, *, workers: int, environment: Mapping[str, str], process_id: int, open_to_all: bool
) -> list[Sockets]:
    """Sockets for each worker. Raises Failure if there can be none."""
    handed = _handed(environment, process_id)
    if handed:
        for one in handed:
            _require_fit(one, open_to_all=open_to_all)
        return [handed] * workers
    first = bound(listen)
    if workers == 1:
        return [[first]]
    # The number that a port of 0 came to holds for all; between the two calls nobody else is asked for it.
    host, port = first.getsockname()[:2]
    first.close()
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return [[bound(address, shared=True)] for _ in range(workers)]


def bound(listen: str, *, shared: bool = False) -> socket.socket:
    """A listening socket. Raises Failure if there can be none."""
    host, _, port = listen.rpartition(":")
    host = host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((host, int(port)))
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise Failure(Exit.FAILED, f"cannot listen on {listen}: {error.strerror or error}") from error
    return listener


def close_all(sockets: Sequence[Sockets]) -> None:
    for several in sockets:
        for one in several:
            one.close()


def _handed(environment: Mapping[str, str], process_id: int) -> list[socket.socket]:
    """sd_listen_fds(3): only what is meant for this very process."""
    count = environment.get("LISTEN_FDS", "")
    if environment.get("LISTEN_PID") != str(process_id) or not (count.isascii() and count.isdigit()):
        return []
    found = []
    for number in range(FIRST_HANDED, FIRST_HANDED + int(count)):
        try:
            one = socket.socket(fileno=number)
        except OSError as error:
            raise Failure(Exit.FAILED, f"file {number}, handed over to listen on: {error.strerror or error}") from error
        one.set_inheritable(False)
        one.setblocking(False)
        found.append(one)
    return found


def _require_fit(one: socket.socket, *, open_to_all: bool) -> None:
    """The config's rule against an address that lets everybody spend holds for one that systemd bound, too."""
    if one.type != socket.SOCK_STREAM or not one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        raise Failure(Exit.BAD_CONFIG, "a socket that was handed over does not listen for connections")
    if one.family == socket.AF_UNIX or not open_to_all:
        return
    host, port = one.getsockname()[:2]
    if not is_loopback(f"[{host}]:{port}" if ":" in host else f"{host}:{port}"):
        raise Failure(
            Exit.BAD_CONFIG, f"{host}:{port}, handed over to listen on, is not loopback, and there are no client keys"
        )
