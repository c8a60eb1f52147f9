"""When may what is framed already be written to a client?"""

from types import SimpleNamespace
from typing import Any

import pytest

from controller.http1.asked import OUTLET, Asked, Receive, Scope, Send
from controller.http1.heads import Head

CHUNKED: list[tuple[bytes, bytes]] = []
OF_KNOWN_LENGTH = [(b"content-length", b"9")]


def asked(*, version: str = "1.1", method: str = "POST") -> Asked:
    transport = SimpleNamespace(write=lambda data: None)
    line: Any = SimpleNamespace(
        transport=transport, scope={}, may_write=None, cut=lambda *, reset: None, end=lambda asked: None
    )
    head = Head(method, version, b"/", b"", [])
    head.keep = True
    return Asked(line, head)


async def begun(one: Asked, headers: list[tuple[bytes, bytes]] = CHUNKED) -> Asked:
    await one.send({"type": "http.response.start", "status": 200, "headers": headers})
    await one.send({"type": "http.response.body", "body": b"one", "more_body": True})
    return one


async def test_an_app_finds_it_in_its_scope() -> None:
    seen: list[Any] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["extensions"][OUTLET])
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body"})

    one = asked()
    await one.run(app)
    assert seen == [one]


async def test_while_its_chunks_go_out() -> None:
    one = asked()
    before = one.flows
    assert one.outlet is one
    assert (before, (await begun(one)).flows) == (False, True)


@pytest.mark.parametrize(
    ("options", "headers"), [({"version": "1.0"}, CHUNKED), ({"method": "HEAD"}, CHUNKED), ({}, OF_KNOWN_LENGTH)]
)
async def test_not_where_none_are_sent(options: dict[str, str], headers: list[tuple[bytes, bytes]]) -> None:
    assert not (await begun(asked(**options), headers)).flows


async def test_not_behind_its_end() -> None:
    one = await begun(asked())
    await one.send({"type": "http.response.body", "body": b"", "more_body": False})
    assert not one.flows


@pytest.mark.parametrize("how", ["leave", "cut", "done"])
async def test_not_once_nobody_takes_it(how: str) -> None:
    one = await begun(asked())
    getattr(one, how)()
    assert not one.flows
