"""What does a client of our own server get, on real sockets, for what it asks?"""

import asyncio
import json
from typing import Any

import anyio
import pytest

from controller.http1.asked import ABORT, WRITE, App, Receive, Scope, Send
from tests.support.standing import GET, JSON, LAST, POST, answer, answers, asked, body_of, echo, said, standing


@pytest.fixture(scope="module", params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """Both loops: they write, close and reset in ways of their own."""
    return "asyncio", {"use_uvloop": request.param}


async def test_an_answer_has_its_headers_and_no_others() -> None:
    async with standing(echo) as place:
        raw = await said(place.port, LAST)
    [(status, headers, _)] = answers(raw)
    assert status == 200
    assert sorted(headers) == ["connection", "content-length", "content-type"]
    assert raw.startswith(b"HTTP/1.1 200 OK\r\n")


async def test_requests_that_did_not_wait_are_answered_in_order_each_with_its_own_body() -> None:
    body = POST + b"content-length: 3\r\n\r\nabc"
    chunked = POST + b"transfer-encoding: chunked\r\n\r\n3\r\nxyz\r\n1;ext=1\r\n!\r\n0\r\ntrailer: t\r\n\r\n"
    async with standing(echo) as place:
        raw = await said(place.port, body + GET + chunked + LAST)
    assert [(each["method"], each["path"], each["body"]) for each in asked(raw)] == [
        ("POST", "/a", "abc"),
        ("GET", "/a", ""),
        ("POST", "/a", "xyz!"),
        ("GET", "/last", ""),
    ]
    assert "trailer" not in dict(asked(raw)[2]["headers"])


async def test_a_slow_answer_holds_up_those_behind_it_and_they_come_in_order() -> None:
    begun: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        begun.append(scope["path"])
        if scope["path"] == "/a":
            await asyncio.sleep(0.05)
            assert begun == ["/a"]
        await answer(send, scope["path"].encode())

    async with standing(app) as place:
        raw = await said(place.port, GET + LAST)
    assert [body for _, _, body in answers(raw)] == [b"/a", b"/last"]


@pytest.mark.parametrize(
    "head", [b"GET /a HTTP/1.0\r\n\r\n", b"GET /a HTTP/1.0\r\nconnection: keep-alive\r\n\r\n", LAST]
)
async def test_an_older_client_and_one_that_says_so_are_answered_once(head: bytes) -> None:
    async with standing(echo) as place:
        raw = await said(place.port, head + GET)
    [(status, headers, _)] = answers(raw)
    assert (status, headers["connection"]) == (200, "close")


async def test_a_body_is_asked_for_when_somebody_reads_it() -> None:
    async with standing(echo) as place:
        reader, writer = await asyncio.open_connection("127.0.0.1", place.port)
        writer.write(POST + b"content-length: 3\r\nexpect: 100-continue\r\n\r\n")
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"abc")
        await asyncio.sleep(0.01)
        writer.write(POST + b"content-length: 3\r\nconnection: close\r\n\r\n")  # this one does not wait for it
        await asyncio.sleep(0.01)
        writer.write(b"def")
        assert [each["body"] for each in asked(await reader.read())] == ["abc", "def"]
        writer.close()


async def test_a_body_that_was_not_asked_for_ends_the_connection_with_its_answer() -> None:
    """Whether it comes or not is the client's choice then, and the next request would be taken for it."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await answer(send, b"no", status=413)

    async with standing(app) as place:
        raw = await said(place.port, POST + b"content-length: 99\r\nexpect: 100-continue\r\n\r\n", GET)
    [(status, headers, _)] = answers(raw)
    assert (status, headers["connection"]) == (413, "close")


@pytest.mark.parametrize("pause_s", [0, 0.05], ids=["at once", "with much of it unread"])
async def test_an_answer_before_its_body_has_come_leaves_the_connection_usable(pause_s: float) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.sleep(pause_s)
        await answer(send, scope["path"].encode())

    async with standing(app) as place:
        raw = await said(place.port, POST + b"content-length: 300000\r\n\r\n", b"x" * 200_000, b"x" * 100_000 + LAST)
    assert [body for _, _, body in answers(raw)] == [b"/a", b"/last"]


@pytest.mark.parametrize("path", [b"/length", b"/other"])
async def test_a_question_for_the_head_gets_no_body(path: bytes) -> None:
    async with standing(echo) as place:
        raw = await said(place.port, b"HEAD %b HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n" % path)
    head, _, rest = raw.partition(b"\r\n\r\n")
    assert (b"content-length" in head, b"chunked" in head, rest) == (path == b"/length", False, b"")


@pytest.mark.parametrize("status", [204, 304])
async def test_an_answer_without_a_body_has_no_length(status: int) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await answer(send, b"", status=status, length=False)

    async with standing(app) as place:
        raw = await said(place.port, GET + LAST)
    assert [(found, "content-length" in headers) for found, headers, _ in answers(raw)] == [(status, False)] * 2


async def two_pieces(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": JSON})
    await send({"type": "http.response.body", "body": b"one", "more_body": True})
    assert not scope["extensions"][WRITE](b""), "it would be the last chunk"
    assert scope["extensions"][WRITE](b"two") is (scope["http_version"] == "1.1")
    if scope["path"] == "/cut":
        scope["extensions"][ABORT]()
    elif scope["path"] == "/raise":
        raise RuntimeError("scripted")
    elif scope["path"] == "/return":
        return
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def test_an_answer_of_unknown_length_comes_in_chunks() -> None:
    async with standing(two_pieces) as place:
        raw = await said(place.port, GET + LAST)
    assert [body for _, _, body in answers(raw)] == [b"onetwo"] * 2
    assert raw.count(b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n") == 2


async def test_to_an_older_client_its_end_is_that_of_the_connection() -> None:
    async with standing(two_pieces) as place:
        raw = await said(place.port, b"GET /a HTTP/1.0\r\n\r\n")
    [(_, headers, body)] = answers(raw)
    assert ("transfer-encoding" in headers, body) == (False, b"one")


@pytest.mark.parametrize("path", [b"/cut", b"/raise", b"/return"])
async def test_an_answer_that_breaks_off_has_no_last_chunk(path: bytes) -> None:
    async with standing(two_pieces) as place:
        raw = await said(place.port, b"GET %b HTTP/1.1\r\nhost: x\r\n\r\n" % path + GET)
    assert raw.endswith(b"3\r\none\r\n3\r\ntwo\r\n")


@pytest.mark.parametrize("path", [b"/cut", b"/raise", b"/return"])
async def test_an_older_client_is_reset_where_an_answer_breaks_off(path: bytes) -> None:
    """The end of its connection would be taken for the end of the answer (B47)."""
    async with standing(two_pieces) as place:
        raw = await said(place.port, b"GET %b HTTP/1.0\r\n\r\n" % path)
    assert raw.endswith(b"(reset)")


async def raises(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": [(b"content-length", b"7")]})
    raise RuntimeError("scripted")


async def returns(scope: Scope, receive: Receive, send: Send) -> None:
    await body_of(receive)


async def too_long(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"1")]})
    await send({"type": "http.response.body", "body": b"two", "more_body": False})


async def too_short(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"9")]})
    await send({"type": "http.response.body", "body": b"two", "more_body": False})


async def two_lines(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"a", b"b\r\nset-cookie: c")]})
    await send({"type": "http.response.body", "body": b"two", "more_body": False})


@pytest.mark.parametrize("app", [raises, returns, too_long, too_short, two_lines])
async def test_an_app_that_fails_before_it_answers_is_a_500_in_our_shape(
    app: App, capsys: pytest.CaptureFixture[str]
) -> None:
    async with standing(app) as place:
        raw = await said(place.port, GET + GET)
    [(status, headers, body)] = answers(raw)
    assert (status, headers["connection"], json.loads(body)["error"]["status"]) == (500, "close", 500)
    assert "request_" in capsys.readouterr().out


async def test_a_request_for_another_protocol_is_answered_in_this_one_with_its_body() -> None:
    """Java's own client asks for HTTP/2 with its first request."""
    upgrade = POST + b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AA\r\n"
    socket = b"GET /socket HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"
    async with standing(echo) as place:
        raw = await said(
            place.port, upgrade + b"content-length: 3\r\n\r\nabc" + socket + upgrade[:-2], b"\r\n\r\n" + LAST
        )
    assert [(each["path"], each["body"]) for each in asked(raw)] == [
        ("/a", "abc"),
        ("/socket", ""),
        ("/a", ""),
        ("/last", ""),
    ]


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        (b"/a%20b%2Fc?d=%20e", "/a b/c", "d=%20e"),
        (b"/%C3%A9", "/é", ""),
        (b"/a?b?c", "/a", "b?c"),
        (b"http://host:1/a?b", "/a", "b"),
        (b"http://host", "/", ""),
        (b"*", "*", ""),
    ],
)
async def test_a_target_is_split_and_its_path_decoded(target: bytes, path: str, query: str) -> None:
    async with standing(echo) as place:
        raw = await said(place.port, b"OPTIONS %b HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n" % target)
    assert [(each["path"], each["query"]) for each in asked(raw)] == [(path, query)]


async def test_who_asks_is_told_to_the_app() -> None:
    scopes: list[Scope] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scopes.append(scope)
        await answer(send, b"{}")

    async with standing(app) as place:
        reader, writer = await asyncio.open_connection("127.0.0.1", place.port)
        own = writer.get_extra_info("sockname")
        writer.write(GET)
        await reader.readuntil(b"}")
        writer.close()
    assert (scopes[0]["client"], scopes[0]["server"]) == (own, ("127.0.0.1", place.port))
    assert (scopes[0]["type"], scopes[0]["raw_path"]) == ("http", b"/a")


async def test_a_body_that_nobody_reads_is_not_read_from_its_client() -> None:
    go_on = anyio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await go_on.wait()
        body = await body_of(receive)
        await answer(send, b"%d" % len(body or b""))

    size = 30_000_000
    async with standing(app) as place:
        reader, writer = await asyncio.open_connection("127.0.0.1", place.port)
        writer.write(POST + b"content-length: %d\r\nconnection: close\r\n\r\n" % size)
        writer.write(b"x" * size)
        with anyio.move_on_after(0.3) as scope:
            await writer.drain()
        assert scope.cancelled_caught
        go_on.set()
        assert answers(await reader.read())[0][2] == b"%d" % size
        writer.close()


async def test_an_app_waits_for_a_client_that_reads_nothing() -> None:
    written = 0

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal written
        await send({"type": "http.response.start", "status": 200, "headers": JSON})
        for _ in range(5000):
            await send({"type": "http.response.body", "body": b"x" * 10_000, "more_body": True})
            written += 1
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async with standing(app) as place:
        reader, writer = await asyncio.open_connection("127.0.0.1", place.port)
        writer.write(LAST)
        await asyncio.sleep(0.3)
        assert 0 < written < 4000
        assert (await reader.read()).count(b"x") == 50_000_000
        writer.close()
