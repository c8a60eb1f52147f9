"""Does the gateway listen where it should, and only there?"""

import os
import socket
import subprocess
import sys

import pytest

from controller.cli.exits import Exit, Failure
from controller.cli.listening import Sockets, bound, close_all, listeners


def listening(listen: str, *, workers: int = 1, environment: dict[str, str] | None = None) -> list[Sockets]:
    return listeners(listen, workers=workers, environment=environment or {}, process_id=os.getpid(), open_to_all=False)


def test_workers_have_a_socket_each_at_one_address() -> None:
    found = listening("127.0.0.1:0", workers=3)
    names = {one.getsockname() for (one,) in found}
    assert (len(found), len(names), len({one.fileno() for (one,) in found})) == (3, 1, 3)
    close_all(found)


@pytest.mark.parametrize("workers", [1, 2])
def test_an_address_of_other_workers_is_taken(workers: int) -> None:
    found = listening("127.0.0.1:0", workers=2)
    port = found[0][0].getsockname()[1]
    with pytest.raises(Failure, match="cannot listen on") as failure:
        listening(f"127.0.0.1:{port}", workers=workers)
    assert failure.value.code is Exit.FAILED
    close_all(found)


def test_an_address_of_version_six_is_written_as_such() -> None:
    found = listening("[::1]:0", workers=2)
    assert {one.getsockname()[0] for (one,) in found} == {"::1"}
    close_all(found)


def test_what_is_meant_for_another_process_is_not_taken() -> None:
    found = listening("127.0.0.1:0", environment={"LISTEN_FDS": "1", "LISTEN_PID": "1"})
    assert found[0][0].fileno() != 3
    close_all(found)


HANDED = """
import os, socket, sys
from controller.cli.exits import Failure
from controller.cli.listening import listeners
kind, address, open_to_all, listens = sys.argv[1:]
one = socket.socket(socket.AF_INET, getattr(socket, kind))
one.bind((address, 0))
if listens == "yes":
    one.listen(1)
os.dup2(one.fileno(), 3)
told = {"LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid())}
try:
    all_may = open_to_all == "yes"
    found = listeners("127.0.0.1:1", workers=2, environment=told, process_id=os.getpid(), open_to_all=all_may)
except Failure as failure:
    print(int(failure.code), failure)
else:
    print([one.fileno() for several in found for one in several], os.get_inheritable(3))
"""


def handed(kind: str, address: str, *, open_to_all: bool, listens: bool = True) -> str:
    words = [kind, address, *("yes" if each else "no" for each in (open_to_all, listens))]
    ran = subprocess.run([sys.executable, "-c", HANDED, *words], capture_output=True, text=True, check=True, timeout=30)
    return ran.stdout.strip()


def test_a_socket_that_systemd_hands_over_is_shared_by_all_workers() -> None:
    assert handed("SOCK_STREAM", "127.0.0.1", open_to_all=True) == "[3, 3] False"
    assert handed("SOCK_STREAM", "0.0.0.0", open_to_all=False) == "[3, 3] False"


def test_one_beyond_loopback_is_refused_where_everybody_could_spend() -> None:
    assert "78 0.0.0.0:" in handed("SOCK_STREAM", "0.0.0.0", open_to_all=True)


def test_one_that_does_not_listen_is_refused() -> None:
    assert handed("SOCK_STREAM", "127.0.0.1", open_to_all=False, listens=False).startswith("78 ")
    assert handed("SOCK_DGRAM", "127.0.0.1", open_to_all=False, listens=False).startswith("78 ")


def test_a_bound_socket_of_one_gateway_is_not_shared() -> None:
    with bound("127.0.0.1:0") as one:
        assert not one.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT)
