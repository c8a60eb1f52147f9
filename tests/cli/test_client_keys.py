"""Are keys handed out, shown and taken back, and does a gateway that runs know at once?"""

import json
import os
import signal
import socket
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from controller.cli.exits import Exit
from controller.gateway.day_book import DayBook
from tests.cli.conftest import Run
from tests.cli.test_gateway import with_key


def test_a_key_is_shown_once_alone_on_stdout_and_never_again(run: Run, folder: Path) -> None:
    made = run("keys", "add", "alice", "--models", "qwen", "--requests-per-minute", "60", "--usd-per-day", "0.50")
    key = made.out.strip()
    assert (made.code, key[:13], len(key.split())) == (0, "sk-gpuwarden-", 1)
    assert key not in made.err
    listed = run("keys", "list", "--json")
    shown = json.loads(listed.out)
    (entry,) = shown["keys"]
    assert entry.pop("created_at").endswith("Z")
    assert (shown["schema"], entry) == (
        1,
        {
            "name": "alice",
            "models": ["qwen"],
            "requests_per_minute": 60,
            "concurrent": None,
            "usd_per_day": "0.50",
            "usd_today": "0.000000",
        },
    )
    assert run("keys", "list").out.splitlines()[1].split()[:3] == ["alice", "qwen", "60"]
    assert key not in (folder / "state" / "clients.json").read_text()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("alice", "--models", "qwen,nope"), Exit.NOT_FOUND, "no model 'nope'"),
        (("alice", "--models", ""), Exit.NOT_FOUND, "no model ''"),
        (("a b",), Exit.USAGE, "NAME: "),
        (("alice", "--concurrent", "0"), Exit.USAGE, "--concurrent: out of bounds"),
        (("alice", "--requests-per-minute", "-1"), Exit.USAGE, "--requests-per-minute: out of bounds"),
        (("alice", "--usd-per-day", "much"), Exit.USAGE, "--usd-per-day: not an amount of money"),
        (("alice", "--usd-per-day", "0"), Exit.USAGE, "--usd-per-day: out of bounds"),
        (("there",), Exit.REFUSED, "there is a key of there already"),
    ],
)
def test_what_cannot_be_handed_out_is_refused_and_writes_nothing(
    run: Run, folder: Path, arguments: tuple[str, ...], code: Exit, words: str
) -> None:
    assert run("keys", "add", "there").code == 0
    before = (folder / "state" / "clients.json").read_bytes()
    ended = run("keys", "add", *arguments)
    assert (ended.code, ended.out) == (code, "")
    assert words in ended.err
    assert (folder / "state" / "clients.json").read_bytes() == before


def test_the_list_tells_what_a_key_with_a_budget_spent_today(run: Run, folder: Path) -> None:
    for name, options in (("alice", ("--usd-per-day", "1")), ("bob", ())):
        run("keys", "add", name, *options)
    book = DayBook(folder / "state" / "spent.json")
    book.add(datetime.now(UTC).date().isoformat(), {"alice": 250_000, "bob": 1})
    told = [key["usd_today"] for key in json.loads(run("keys", "list", "--json").out)["keys"]]
    assert told == ["0.250000", None]
    assert "$0.250000" in run("keys", "list").out
    book.path.write_text("{")
    damaged = run("keys", "list", "--json")
    assert [key["usd_today"] for key in json.loads(damaged.out)["keys"]] == [None, None]
    assert "cannot be read" in damaged.err


def test_a_key_is_taken_back_by_its_name(run: Run) -> None:
    run("keys", "add", "alice")
    run("keys", "add", "bob")
    assert run("keys", "revoke", "alice").code == 0
    assert [key["name"] for key in json.loads(run("keys", "list", "--json").out)["keys"]] == ["bob"]
    assert run("keys", "revoke", "alice").code == Exit.NOT_FOUND


def test_without_any_key_the_list_is_empty(run: Run) -> None:
    assert json.loads(run("keys", "list", "--json").out) == {"schema": 1, "keys": []}
    assert "no key" in run("keys", "list").err


def test_a_folder_that_cannot_be_written_is_told(run: Run, folder: Path) -> None:
    (folder / "state").rmdir()
    (folder / "state").write_text("")
    ended = run("keys", "add", "alice")
    assert ended.code == Exit.FAILED
    assert "cannot write" in ended.err


def test_an_address_beyond_loopback_needs_a_key_and_one_that_was_handed_out_will_do(run: Run, folder: Path) -> None:
    with_key(folder)
    with_key(folder, "account-key", "runpod")
    with (folder / "config.toml").open("a") as config:
        config.write('\n[gateway]\nlisten = "0.0.0.0:8080"\n')
    ended = run("config", "check")
    assert ended.code == 78
    assert f'{folder}/config.toml: gateway.listen = "0.0.0.0:8080": everybody who reaches this address' in ended.err
    assert run("gateway").code == 78
    assert run("keys", "add", "alice").code == 0
    assert run("config", "check").code == 0


def answers(port: int, key: str) -> int:
    with socket.create_connection(("127.0.0.1", port)) as client:
        request = f"GET /v1/models HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\nconnection: close\r\n\r\n"
        client.sendall(request.encode())
        return int(client.recv(1000).split()[1])


def eventually(port: int, key: str, status: int) -> bool:
    """Within the seconds after which a gateway looks at its keys anew; it answers in between."""
    ended = os.times().elapsed + 20
    while os.times().elapsed < ended:
        if answers(port, key) == status:
            return True
    return False


@pytest.mark.process
def test_keys_that_are_added_and_taken_back_reach_a_gateway_that_runs(folder: Path) -> None:
    with_key(folder)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = {
        **os.environ,
        "GPUWARDEN_CONFIG": str(folder / "config.toml"),
        "GPUWARDEN_GATEWAY__LISTEN": f"127.0.0.1:{port}",
        "NOTIFY_SOCKET": str(folder / "notify"),
    }
    program = [sys.executable, "-m", "controller"]

    def command(*arguments: str) -> str:
        done = subprocess.run([*program, *arguments], env=environment, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
        notified.bind(str(folder / "notify"))
        notified.settimeout(30)
        with subprocess.Popen([*program, "gateway"], env=environment, stdout=subprocess.DEVNULL) as started:
            assert notified.recv(100) == b"READY=1"
            open_at_first = answers(port, "none")
            alice, bob = command("keys", "add", "alice"), command("keys", "add", "bob")
            closed = eventually(port, "none", 401)
            taken = [answers(port, alice), answers(port, bob)]
            command("keys", "revoke", "alice")
            refused = eventually(port, alice, 401)
            left = answers(port, bob)
            started.send_signal(signal.SIGTERM)
    assert (open_at_first, closed, taken, refused, left) == (200, True, [200, 200], True, 200)
