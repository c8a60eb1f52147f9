"""Is a gateway put together from the config as written, and does it end as it should?"""

import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from controller.cli.exits import Exit, Failure
from controller.cli.gateway import gateway_config
from controller.cli.listening import bound
from controller.settings import ConfigProblems
from tests.cli.conftest import Run
from tests.test_settings import SHORT, taken


def with_key(folder: Path, content: str = "model-key", alias: str = "qwen") -> Path:
    path = folder / "keys" / alias
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)
    path.chmod(0o600)
    return path


def test_the_gateway_gets_keys_limits_and_clients_from_the_config(tmp_path: Path) -> None:
    with_key(tmp_path)
    digest = "a" * 64
    text = f'{SHORT}\n[gateway]\nbody_limit_mib = 2\nkeys = ["sha256:{digest}"]\nlisten = "0.0.0.0:80"\n'
    config = gateway_config(taken(tmp_path, text))
    assert config.models["qwen"]() == "model-key"
    assert config.body_limit == 2 << 20
    assert config.read_clients is not None
    assert [client.digest for client in config.read_clients() or ()] == [digest]
    assert "model-key" not in repr(config)


def test_the_limits_on_a_model_server_s_silence_come_from_the_config(tmp_path: Path) -> None:
    with_key(tmp_path)
    text = f'{SHORT}\n[gateway]\nfirst_byte_limit = "20m"\nsilence_limit = "45s"\n'
    config = gateway_config(taken(tmp_path, text))
    assert (config.head_limit, config.silence_limit) == (timedelta(minutes=20), timedelta(seconds=45))


def test_a_key_that_changed_is_used_and_one_that_went_bad_leaves_the_former(tmp_path: Path) -> None:
    path = with_key(tmp_path)
    read = gateway_config(taken(tmp_path, SHORT)).models["qwen"]
    path.write_text("newer-key")
    assert read() == "newer-key"
    path.chmod(0o644)
    assert read() == "newer-key"
    path.unlink()
    assert read() == "newer-key"


def test_a_missing_key_ends_the_gateway_with_78(run: Run, tmp_path: Path) -> None:
    with pytest.raises(ConfigProblems, match="the key of qwen's server is missing"):
        gateway_config(taken(tmp_path, SHORT))
    assert run("gateway").code == 78


def test_an_address_that_is_taken_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken_by:
        port = taken_by.getsockname()[1]
        with pytest.raises(Failure, match=f"cannot listen on 127.0.0.1:{port}") as failure:
            bound(f"127.0.0.1:{port}")
    assert failure.value.code is Exit.FAILED


@contextmanager
def standing(
    folder: Path, *, under: Sequence[str] = ()
) -> Iterator[tuple["subprocess.Popen[str]", socket.socket, int]]:
    """A gateway that said that it is ready, where it says so, and its port. `under` is a command that starts it."""
    with_key(folder)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = {
        **os.environ,
        "GPUWARDEN_GATEWAY__LISTEN": f"127.0.0.1:{port}",
        "NOTIFY_SOCKET": str(folder / "notify"),
    }
    command = [*under, sys.executable, "-m", "controller", "gateway", "-c", str(folder / "config.toml")]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
        notified.bind(str(folder / "notify"))
        notified.settimeout(20)
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as started:
            try:
                assert notified.recv(100) == b"READY=1"
                yield started, notified, port
            finally:
                started.terminate()


@pytest.mark.process
@pytest.mark.parametrize("ended_by", [signal.SIGTERM, signal.SIGINT])
def test_a_gateway_serves_says_it_is_ready_and_ends_by_a_signal(folder: Path, ended_by: signal.Signals) -> None:
    with standing(folder) as (started, notified, port):
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            assert client.recv(1000).startswith(b"HTTP/1.1 200")
        started.send_signal(ended_by)
        assert notified.recv(100) == b"STOPPING=1"
        assert started.wait(20) == 0


@pytest.mark.process
def test_a_gateway_started_where_few_files_may_be_open_takes_as_many_as_it_may(folder: Path) -> None:
    """From 1024 on, as a login gives, the 500th stream was closed on without a word."""
    with standing(folder, under=("sh", "-c", 'ulimit -S -n 128; exec "$@"', "sh")) as (started, _, _):
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        assert resource.prlimit(started.pid, resource.RLIMIT_NOFILE) == (most, most)


@pytest.mark.process
def test_the_emulator_runs_by_hand_until_a_signal(folder: Path) -> None:
    command = [sys.executable, "-m", "controller", "emulate", "runpod", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as started:
        assert started.stderr is not None
        assert "base_url http://127.0.0.1:" in started.stderr.readline()
        started.send_signal(signal.SIGTERM)
    assert started.returncode == 0
