"""What a call's outcome says, on real sockets for what only they can do, in process for the rest."""

import asyncio
import gzip
import socket
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

import anyio
import httpx
import pytest

from controller.transport import (
    HIDDEN,
    Answer,
    CallLimits,
    Http,
    NotSent,
    OutcomeUnknown,
    Sip,
    redacted,
)
from tests.support.asgi_transport import ABORT, AsgiTransport, Receive, Scope, Send
from tests.support.virtual_time import run_virtual

KEY = "KEY_CANARY_1"
SHORT = CallLimits(whole=timedelta(milliseconds=200), body_bytes=1000)
WHOLE = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"

Reply = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Listener:
    def __init__(self) -> None:
        self.url = ""
        self.connections = 0
        self.requests: list[bytes] = []


@asynccontextmanager
async def listening(reply: Reply) -> AsyncIterator[Listener]:
    listener = Listener()
    tasks: list[asyncio.Task[None] | None] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        listener.connections += 1
        tasks.append(asyncio.current_task())
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                listener.requests.append(head)
                await reply(reader, writer)
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    listener.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield listener
    finally:
        server.close()
        for task in tasks:
            if task is not None:
                task.cancel()


def answering(raw: bytes, *, close: bool = False) -> Reply:
    async def reply(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(raw)
        await writer.drain()
        if close:
            writer.close()

    return reply


async def silence(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def reset(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    writer.close()


def http(url: str, *, limits: CallLimits = SHORT) -> Http:
    return Http(url, user_agent="test", bearer=KEY, limits=limits)


async def test_a_port_where_nobody_listens_got_nothing() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
    async with http(url) as party:
        with pytest.raises(NotSent):
            await party.call("POST", "/pods", body=b"{}", fresh=True)


async def test_a_failed_tls_handshake_got_nothing() -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(WHOLE)
        writer.close()

    server = await asyncio.start_server(plain, "127.0.0.1", 0)
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, http(url, limits=CallLimits()) as party:
        with pytest.raises(NotSent):
            await party.call("POST", "/pods", body=b"{}", fresh=True)


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(silence, id="silence"),
        pytest.param(reset, id="reset"),
        pytest.param(answering(b"", close=True), id="closed without an answer"),
        pytest.param(answering(b"HTTP/1.1 201 Created\r\ncontent-length: 9\r\n\r\n{", close=True), id="torn body"),
        pytest.param(answering(b"\xff{\r\n\r\n", close=True), id="no HTTP at all"),
        pytest.param(answering(b"HTTP/1.1 200 OK\r\ncontent-length: 1001\r\n\r\n" + b"x" * 1001), id="too large"),
    ],
)
async def test_whatever_happens_after_sending_began_leaves_the_outcome_unknown(reply: Reply) -> None:
    async with listening(reply) as listener, http(listener.url) as party:
        with pytest.raises(OutcomeUnknown):
            await party.call("POST", "/pods", body=b"{}", fresh=True)
        assert len(listener.requests) == 1


async def test_a_body_of_exactly_the_bound_is_read() -> None:
    raw = b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n" + b"x" * 1000
    async with listening(answering(raw)) as listener, http(listener.url) as party:
        assert len((await party.call("GET", "/")).body) == 1000


def packed(body: bytes, coding: bytes = b"gzip") -> Reply:
    head = b"HTTP/1.1 200 OK\r\ncontent-encoding: %s\r\ncontent-length: %d\r\n\r\n"
    return answering(head % (coding, len(body)) + body)


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(packed(gzip.compress(b"x" * 1001)), id="too large once it is unpacked"),
        pytest.param(packed(gzip.compress(gzip.compress(b"x")), b"gzip, gzip"), id="packed twice"),
        pytest.param(packed(gzip.compress(b"ok")[:-8]), id="torn"),
        pytest.param(packed(b"ok"), id="not packed at all"),
        pytest.param(packed(b"ok", b"br"), id="packed as nobody here can read"),
    ],
)
async def test_a_packed_answer_that_cannot_be_had_whole_leaves_the_outcome_unknown(reply: Reply) -> None:
    async with listening(reply) as listener, http(listener.url) as party:
        with pytest.raises(OutcomeUnknown):
            await party.call("POST", "/pods", body=b"{}", fresh=True)


@pytest.mark.parametrize("reply", [packed(gzip.compress(b"x" * 1000)), packed(b"x" * 1000, b"Identity")], ids=range(2))
async def test_an_answer_is_read_whether_it_is_packed_or_not(reply: Reply) -> None:
    async with listening(reply) as listener, http(listener.url) as party:
        assert (await party.call("GET", "/pods")).body == b"x" * 1000


async def test_a_small_answer_that_holds_a_huge_one_takes_no_memory() -> None:
    bomb = gzip.compress(b"\0" * 50_000_000)
    async with (
        listening(packed(bomb)) as listener,
        http(listener.url, limits=CallLimits(body_bytes=100_000)) as party,
    ):
        tracemalloc.start()
        with pytest.raises(OutcomeUnknown, match="larger"):
            await party.call("GET", "/pods")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 5_000_000


async def test_a_redirect_is_an_answer_and_nobody_else_gets_the_key() -> None:
    async with listening(answering(WHOLE)) as elsewhere:
        raw = f"HTTP/1.1 307 Go\r\nlocation: {elsewhere.url}/\r\ncontent-length: 0\r\n\r\n".encode()
        async with listening(answering(raw)) as listener, http(listener.url) as party:
            assert (await party.call("GET", "/")).code == 307
    assert elsewhere.requests == []


async def test_a_fresh_call_never_leaves_on_a_used_connection() -> None:
    async with listening(answering(WHOLE)) as listener, http(listener.url) as party:
        await party.call("GET", "/")
        await party.call("GET", "/")
        assert listener.connections == 1
        await party.call("POST", "/", body=b"{}", fresh=True)
        await party.call("POST", "/", body=b"{}", fresh=True)
        assert listener.connections == 3


async def test_a_proxy_named_in_the_environment_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    async with listening(answering(WHOLE)) as listener, http(listener.url) as party:
        assert (await party.call("GET", "/")).code == 200


async def test_its_own_user_agent_and_key_go_with_every_call() -> None:
    async with listening(answering(WHOLE)) as listener, http(listener.url) as party:
        await party.call("GET", "/")
    assert b"user-agent: test\r\n" in listener.requests[0].lower()
    assert f"authorization: bearer {KEY.lower()}\r\n".encode() in listener.requests[0].lower()


def test_a_key_without_the_address_it_is_for_is_refused() -> None:
    with pytest.raises(ValueError, match="address"):
        Http("", user_agent="test", bearer=KEY)


async def hanging(scope: Scope, receive: Receive, send: Send) -> None:
    await asyncio.Event().wait()


def test_a_call_ends_at_its_limit_and_not_before() -> None:
    async def call() -> float:
        party = Http("http://x", user_agent="test", transport=AsgiTransport(hanging))
        with pytest.raises(OutcomeUnknown, match="30 s"):
            await party.call("GET", "/")
        return asyncio.get_running_loop().time()

    assert run_virtual(call) == pytest.approx(30)


def test_a_dripping_answer_ends_at_the_limit_though_each_byte_is_in_time() -> None:
    async def dripping(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while True:
            await asyncio.sleep(1)
            await send({"type": "http.response.body", "body": b"x", "more_body": True})

    async def call() -> float:
        party = Http("http://x", user_agent="test", transport=AsgiTransport(dripping))
        with pytest.raises(OutcomeUnknown):
            await party.call("GET", "/")
        return asyncio.get_running_loop().time()

    assert run_virtual(call) == pytest.approx(30)


def test_cancellation_from_outside_passes_through() -> None:
    async def call() -> bool:
        party = Http("http://x", user_agent="test", transport=AsgiTransport(hanging))
        with anyio.move_on_after(1) as scope:
            await party.call("GET", "/")
        return scope.cancelled_caught

    assert run_virtual(call)


@pytest.mark.parametrize("started", [False, True])
def test_a_connection_that_an_app_cuts_leaves_the_outcome_unknown(started: bool) -> None:
    async def cutting(scope: Scope, receive: Receive, send: Send) -> None:
        if started:
            await send({"type": "http.response.start", "status": 201, "headers": []})
            await send({"type": "http.response.body", "body": b"{", "more_body": True})
        scope["extensions"][ABORT]()

    async def call() -> Answer:
        return await Http("http://x", user_agent="test", transport=AsgiTransport(cutting)).call("POST", "/", body=b"")

    with pytest.raises(OutcomeUnknown):
        run_virtual(call)


async def test_a_write_that_broke_may_have_brought_enough_over() -> None:
    def breaking(request: httpx.Request) -> httpx.Response:
        raise httpx.WriteError("broken", request=request)

    with pytest.raises(OutcomeUnknown):
        await Http("http://x", user_agent="test", transport=httpx.MockTransport(breaking)).call("POST", "/", body=b"x")


STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n2\r\nid\r\n"
REFUSAL = b"HTTP/1.1 403 Forbidden\r\ncontent-type: application/problem+json\r\ncontent-length: 2\r\n\r\n{}"


@pytest.mark.parametrize(("raw", "code", "body"), [(STREAM, 200, b""), (REFUSAL, 403, b"{}")])
async def test_what_may_never_end_is_left_as_soon_as_it_begins(raw: bytes, code: int, body: bytes) -> None:
    async with listening(answering(raw)) as listener, Http(listener.url, user_agent="test", bearer=KEY) as party:
        with anyio.fail_after(2):
            found = await party.open("/logs")
    assert (found.code, found.body, KEY.encode() in listener.requests[0]) == (code, body, True)


@pytest.mark.parametrize("reply", [silence, answering(REFUSAL[:-1])])
async def test_a_stream_that_never_begins_is_given_up(reply: Reply) -> None:
    async with listening(reply) as listener, Http(listener.url, user_agent="test", limits=SHORT) as party:
        with pytest.raises(OutcomeUnknown, match=r"no whole answer within 0\.2 s"):
            await party.open("/logs")


async def test_a_stream_of_nobody_was_never_asked_for() -> None:
    with pytest.raises(NotSent):
        await Http("http://127.0.0.1:1", user_agent="test").open("/logs")


SIP = Sip(whole=timedelta(seconds=1), quiet=timedelta(milliseconds=100), body_bytes=1000)
EVENTS = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"


@pytest.mark.parametrize(("sent", "ends", "whole"), [(b"data: a\n\n", False, True), (b"data: a\n\n", True, False)])
async def test_a_stream_is_taken_until_it_falls_silent_and_left(sent: bytes, ends: bool, whole: bool) -> None:
    left = anyio.Event()

    async def streaming(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(EVENTS + sent)
        await writer.drain()
        if not ends:
            await reader.read()
            left.set()
        writer.close()

    async with listening(streaming) as listener, Http(listener.url, user_agent="test") as party:
        answer, found = await party.sip("/logs", SIP)
        if not ends:
            with anyio.fail_after(1):
                await left.wait()
    assert (answer.code, answer.body, found) == (200, sent, whole)


@pytest.mark.parametrize(("size", "whole"), [(1000, True), (1001, False)])
async def test_no_more_of_a_stream_is_taken_than_may_be(size: int, whole: bool) -> None:
    async def flooding(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(EVENTS + b"x" * size)
        await writer.drain()
        await reader.read()

    async with listening(flooding) as listener, Http(listener.url, user_agent="test") as party:
        answer, found = await party.sip("/logs", SIP)
    assert (len(answer.body), found) == (1000, whole)


async def test_a_stream_that_never_begins_is_unknown_and_one_of_nobody_was_never_asked_for() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    brief = Sip(whole=timedelta(milliseconds=200), quiet=timedelta(milliseconds=100), body_bytes=1000)
    async with listening(silent) as listener, Http(listener.url, user_agent="test") as party:
        with pytest.raises(OutcomeUnknown):
            await party.sip("/logs", brief)
    with pytest.raises(NotSent):
        await Http("http://127.0.0.1:1", user_agent="test").sip("/logs", brief)


def test_an_error_keeps_what_caused_it() -> None:
    transport = AsgiTransport(hanging)
    transport.refusing = True

    async def call() -> BaseException | None:
        with pytest.raises(NotSent) as raised:
            await Http("http://x", user_agent="test", transport=transport).call("GET", "/")
        return raised.value.__cause__

    assert isinstance(run_virtual(call), httpx.ConnectError)


@pytest.mark.parametrize(
    "text",
    [
        f"the key {KEY} is wrong",
        "Authorization: Bearer SOMEBODYS_KEY",
        "GET /graphql?api_key=SOMEBODYS_KEY&x=1",
        "rpa_SOMEBODYS_KEY",
        "token hf_SOMEBODYS_KEY.",
    ],
)
def test_no_key_gets_into_a_text_for_people(text: str) -> None:
    line = redacted(text, secrets=(KEY,))
    assert HIDDEN in line
    assert KEY not in line
    assert "SOMEBODYS_KEY" not in line


def test_the_name_of_a_config_key_is_no_secret() -> None:
    assert redacted("set hf_token_secret, not hf_token_secret_x") == f"set hf_token_secret, not {HIDDEN}"


def test_a_longer_secret_is_hidden_whole_though_a_shorter_is_part_of_it() -> None:
    assert redacted("x=abcdefgh", secrets=("abcd", "abcdefgh")) == f"x={HIDDEN}"


def test_a_text_for_people_is_one_printable_line_of_at_most_512_characters() -> None:
    assert redacted("a\r\n\x1b[31mb\x00c\ud800") == "a [31mb c"
    assert len(redacted("x" * 513)) == 512
    assert len(redacted("x" * 512)) == 512


def test_a_secret_at_the_cut_is_hidden_before_it_is_cut() -> None:
    assert KEY[:6] not in redacted("x" * 506 + KEY, secrets=(KEY,))


def test_an_answer_never_shows_its_body_when_printed() -> None:
    assert "CANARY" not in repr(Answer(code=200, headers={}, body=b"CANARY"))
