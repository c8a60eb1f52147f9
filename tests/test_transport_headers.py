"""Which headers go with a call, and which of an answer's are read? On real sockets: a server counts on the first."""

from tests.test_transport import WHOLE, answering, http, listening


async def test_a_call_says_where_it_goes_and_how_long_it_is() -> None:
    async with listening(answering(WHOLE)) as listener, http(listener.url) as party:
        await party.call("POST", "/pods", body=b'{"name": 1}')
        await party.call("POST", "/pods", headers={"x-once": "yes"})
        await party.call("GET", "/pods")
    host = listener.url.removeprefix("http://").encode()
    posted, empty, read = (head.lower().split(b"\r\n") for head in listener.requests)
    assert {b"host: " + host, b"content-length: 11", b"content-type: application/json"} <= set(posted)
    assert {b"host: " + host, b"content-length: 0", b"x-once: yes"} <= set(empty)
    assert b"host: " + host in read
    assert not any(line.startswith((b"content-", b"x-once")) for line in read)


async def test_a_header_that_came_twice_is_one_list_and_any_byte_is_read() -> None:
    raw = b"HTTP/1.1 200 OK\r\nX-Many: a\r\nx-many: b\r\nx-odd: \xe9\r\ncontent-length: 0\r\n\r\n"
    async with listening(answering(raw)) as listener, http(listener.url) as party:
        answer = await party.call("GET", "/")
    assert (answer.headers["x-many"], answer.headers["x-odd"]) == ("a, b", "\xe9")
