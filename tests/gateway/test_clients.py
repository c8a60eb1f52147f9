"""Whose key is it, what may be asked for with it, and when does a change reach a gateway that runs?"""

import hashlib
import json
from decimal import Decimal
from typing import Any

import anyio
import pytest

from controller.gateway.clients import Client, Clients
from controller.gateway.config import Declared
from controller.gateway.refusals import Refused
from tests.gateway.world import CLIENT_KEY, World, asking, in_world


def client(name: str, key: str | None = None, **more: object) -> Client:
    return Client(name=name, digest=hashlib.sha256((key or name).encode()).hexdigest(), **more)  # type: ignore[arg-type]


class Kept:
    """The clients as an operator changes them."""

    def __init__(self, *clients: Client) -> None:
        self.clients: tuple[Client, ...] | None = clients
        self.reads = 0

    def read(self) -> tuple[Client, ...] | None:
        self.reads += 1
        found, self.clients = self.clients, None
        return found


def bearer(key: str) -> dict[bytes, bytes]:
    return {b"authorization": f"Bearer {key}".encode()}


def test_a_client_is_found_by_its_key_among_many_and_by_no_other() -> None:
    kept = Kept(*(client(f"k{number}") for number in range(500)))
    clients = Clients(fixed=(), read=kept.read, now=lambda: 0.0)
    assert clients.of(bearer("k77")).name == "k77"
    for wrong in ("k500", "", "K77"):
        with pytest.raises(Refused):
            clients.of(bearer(wrong))
    with pytest.raises(Refused):
        clients.of({})


def test_the_digest_of_nothing_opens_to_nobody() -> None:
    clients = Clients(fixed=[hashlib.sha256(b"").hexdigest()], read=None, now=lambda: 0.0)
    with pytest.raises(Refused):
        clients.of({})


def test_a_key_is_neither_looked_up_by_itself_nor_by_its_digest() -> None:
    kept = Kept(client("alice"))
    clients = Clients(fixed=(), read=kept.read, now=lambda: 0.0)
    clients.of(bearer("alice"))
    digest = hashlib.sha256(b"alice").hexdigest()
    assert digest.encode() not in clients._known
    assert bytes.fromhex(digest) not in clients._known
    assert not any(b"alice" in sent or digest.encode() in sent for sent in clients._sent)


def test_a_client_that_was_known_again_is_another_as_soon_as_the_keys_are_read_anew() -> None:
    time = [0.0]
    kept = Kept(client("alice"), client("bob"))
    clients = Clients(fixed=(), read=kept.read, now=lambda: time[0])
    before = [clients.of(bearer("alice")), clients.of(bearer("alice")), clients.of({b"x-api-key": b"bob"})]
    kept.clients = (client("alice", requests_per_minute=1),)
    time[0] = 2.0
    assert [each.requests_per_minute for each in (*before, clients.of(bearer("alice")))] == [None, None, None, 1]
    with pytest.raises(Refused):
        clients.of({b"x-api-key": b"bob"})


def test_only_what_was_let_in_is_remembered_and_not_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.gateway.clients.SENT_MOST", 3)
    names = [f"k{number}" for number in range(8)]
    clients = Clients(fixed=(), read=Kept(*map(client, names)).read, now=lambda: 0.0)
    for name in names:
        with pytest.raises(Refused):
            clients.of(bearer(f"not-{name}"))
        assert clients.of(bearer(name)).name == name
        assert len(clients._sent) <= 3
    with pytest.raises(Refused):
        clients.of({b"authorization": b"", b"x-api-key": b"Bearer k7"})


def test_the_file_is_looked_at_every_two_seconds_at_most() -> None:
    time = [0.0]
    kept = Kept(client("alice"))
    clients = Clients(fixed=(), read=kept.read, now=lambda: time[0])
    for instant in (0.0, 0.5, 1.999, 2.0, 3.999):
        time[0] = instant
        clients.of(bearer("alice"))
    assert kept.reads == 2


def test_a_key_that_is_taken_back_is_refused_within_two_seconds_and_the_address_stays_closed() -> None:
    kept = Kept(client("alice"))

    async def scene(world: World) -> list[int]:
        await world.ready()
        before = await world.ask(asking(), key="alice")
        kept.clients = ()
        await anyio.sleep(2)
        after = await world.ask(asking(), key="alice")
        nobody = await world.ask(asking(), key=None)
        return [before.status, after.status, nobody.status]

    assert in_world(scene, client_keys=frozenset(), read_clients=kept.read) == [200, 401, 401]


def test_a_gateway_open_to_everybody_closes_with_the_first_key() -> None:
    kept = Kept()
    kept.clients = None

    async def scene(world: World) -> list[int]:
        await world.ready()
        before = await world.ask(asking(), key=None)
        kept.clients = (client("alice"),)
        await anyio.sleep(2)
        return [
            before.status,
            (await world.ask(asking(), key=None)).status,
            (await world.ask(asking(), key="alice")).status,
        ]

    assert in_world(scene, client_keys=frozenset(), read_clients=kept.read) == [200, 401, 200]


DECLARED = {
    "m1": Declared(wires=("chat",), tools=True, adapters=("sql", "law")),
    "m2": Declared(wires=("chat",), tools=True),
}


@pytest.mark.parametrize(
    ("models", "asked", "status"),
    [
        (None, "m1", 200),
        (("m1",), "m1", 200),
        (("m1",), "m1:sql", 200),
        (("m2",), "m1", 403),
        (("m2",), "m1:sql", 403),
        (("m1:sql",), "m1:sql", 200),
        (("m1:sql",), "m1", 403),
        (("m1:sql",), "m1:law", 403),
        (("m1",), "nope", 404),
    ],
)
def test_a_key_may_use_its_models_and_wakes_no_other(models: tuple[str, ...] | None, asked: str, status: int) -> None:
    kept = Kept(client("alice", models=None if models is None else frozenset(models)))

    async def scene(world: World) -> tuple[int, str, int]:
        if status == 200:
            await world.ready()
        answer = await world.ask(asking(asked), key="alice")
        return answer.status, "" if answer.status == 200 else answer.code, len(world.daemon.starts)

    found, code, starts = in_world(scene, read_clients=kept.read, declared=DECLARED)
    assert (found, starts) == (status, 0)
    assert (code == "model_not_allowed") == (status == 403)


def test_the_list_of_models_shows_what_a_key_may_use() -> None:
    kept = Kept(client("alice", models=frozenset({"m2", "m1:sql"})), client("bob"))

    async def scene(world: World) -> list[list[str]]:
        answers = [await world.ask(b"", path="/v1/models", method="GET", key=key) for key in ("alice", "bob")]
        return [[entry["id"] for entry in json.loads(answer.body)["data"]] for answer in answers]

    assert in_world(scene, read_clients=kept.read, declared=DECLARED) == [
        ["m1:sql", "m2"],
        ["m1", "m1:sql", "m1:law", "m2"],
    ]


def test_a_key_of_the_config_goes_on_working_beside_those_handed_out() -> None:
    kept = Kept(client("alice"))

    async def scene(world: World) -> list[int]:
        await world.ready()
        return [(await world.ask(asking(), key=key)).status for key in (CLIENT_KEY, "alice")]

    assert in_world(scene, read_clients=kept.read) == [200, 200]


@pytest.mark.parametrize(
    ("limits", "asked", "status"),
    [
        ({"models": frozenset({"m2"})}, "m1", 403),
        ({"requests_per_minute": 1}, "m1", 429),
        ({"usd_per_day": Decimal("0.001")}, "m1", 429),
        ({}, "nope", 404),
    ],
)
def test_what_a_client_is_refused_is_no_use_of_the_machine_that_serves(
    limits: dict[str, Any], asked: str, status: int
) -> None:
    """B25: an idle stop would be put off by whoever may not use the model."""

    async def scene(world: World) -> tuple[int, int, int]:
        await world.ready()
        world.server.think_s = 2
        await world.ask(asking(), key="alice")
        await anyio.sleep(30)
        before = len(world.daemon.leases)
        answer = await world.ask(asking(asked), key="alice")
        await anyio.sleep(30)
        return answer.status, len(world.daemon.leases) - before, len(world.daemon.starts)

    assert in_world(scene, read_clients=Kept(client("alice", **limits)).read) == (status, 0, 0)
