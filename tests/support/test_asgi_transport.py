"""Whether the in-process transport behaves as a socket would, as far as tests rely on it."""

import asyncio

import anyio
import httpx
import pytest

from tests.support.asgi_transport import ABORT, App, AsgiTransport, Receive, Scope, Send
from tests.support.virtual_time import run_virtual


async def call(app: App, method: str = "GET", url: str = "http://x/a%20b?c=d", body: bytes = b"") -> httpx.Response:
    async with httpx.AsyncClient(transport=AsgiTransport(app)) as client:
        return await client.request(method, url, content=body)


async def echoing(scope: Scope, receive: Receive, send: Send) -> None:
    message = await receive()
    text = f"{scope['method']} {scope['path']} {scope['query_string'].decode()} ".encode() + message["body"]
    await send({"type": "http.response.start", "status": 201, "headers": [(b"x-a", b"b")]})
    await send({"type": "http.response.body", "body": text[:3], "more_body": True})
    await send({"type": "http.response.body", "body": text[3:]})


async def test_an_app_gets_the_request_and_the_caller_its_answer() -> None:
    response = await call(echoing, "POST", body=b"hello")
    assert (response.status_code, response.headers["x-a"]) == (201, "b")
    assert response.text == "POST /a b c=d hello"


async def test_an_app_may_go_on_after_its_answer() -> None:
    done = asyncio.Event()

    async def lingering(scope: Scope, receive: Receive, send: Send) -> None:
        await echoing(scope, receive, send)
        await asyncio.sleep(0)
        done.set()

    transport = AsgiTransport(lingering)
    await transport.handle_async_request(httpx.Request("GET", "http://x"))
    with anyio.fail_after(1):
        await done.wait()


@pytest.mark.parametrize(("begun", "error"), [(False, "without a response"), (True, "ended early")])
async def test_a_cut_connection_is_a_protocol_error_and_the_app_runs_on(begun: bool, error: str) -> None:
    effect = asyncio.Event()

    async def cutting(scope: Scope, receive: Receive, send: Send) -> None:
        if begun:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        scope["extensions"][ABORT]()
        await asyncio.sleep(0)
        effect.set()

    with pytest.raises(httpx.RemoteProtocolError, match=error):
        response = await AsgiTransport(cutting).handle_async_request(httpx.Request("GET", "http://x"))
        await response.aread()
    with anyio.fail_after(1):
        await effect.wait()


async def test_an_app_that_says_nothing_is_a_cut_connection() -> None:
    async def mute(scope: Scope, receive: Receive, send: Send) -> None:
        pass

    with pytest.raises(httpx.RemoteProtocolError):
        await call(mute)


async def test_an_app_that_breaks_is_not_hidden() -> None:
    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        await call(broken)


async def test_a_port_that_refuses_is_a_connect_error_and_reaches_no_app() -> None:
    transport = AsgiTransport(echoing)
    transport.refusing = True
    with pytest.raises(httpx.ConnectError):
        await transport.handle_async_request(httpx.Request("GET", "http://x"))


def test_a_caller_that_gives_up_cancels_the_app_and_is_seen_to_be_gone() -> None:
    seen: list[str] = []

    async def waiting(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            seen.append((await receive())["type"])
            raise

    async def main() -> float:
        with anyio.move_on_after(5):
            await call(waiting)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return asyncio.get_running_loop().time()

    assert run_virtual(main) == pytest.approx(5)
    assert seen == ["http.disconnect"]


async def test_an_event_stream_is_handed_over_as_it_begins_and_its_app_ends_when_it_is_closed() -> None:
    left = asyncio.Event()

    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        try:
            await asyncio.Event().wait()
        finally:
            left.set()

    response = await AsgiTransport(endless).handle_async_request(httpx.Request("GET", "http://x/"))
    assert (response.status_code, left.is_set()) == (200, False)
    await response.aclose()
    with anyio.fail_after(1):
        await left.wait()


@pytest.mark.parametrize("every_s", [1.0, 1000.0], ids=["it goes on", "it stands still"])
def test_a_stream_that_nobody_leaves_fails_at_its_limit_and_never_hangs(every_s: float) -> None:
    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        while True:
            await send({"type": "http.response.body", "body": b"data: x\n\n", "more_body": True})
            await asyncio.sleep(every_s)

    async def main() -> float:
        async with httpx.AsyncClient(transport=AsgiTransport(endless, stream_limit_s=2.5)) as client:
            with pytest.raises(httpx.ReadTimeout):
                await client.get("http://x/")
        return asyncio.get_running_loop().time()

    assert run_virtual(main) == pytest.approx(2.5)
