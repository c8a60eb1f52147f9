"""Is a head that is known again read as httptools would read it, whatever comes with it?"""

import asyncio
from collections import deque
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.http1 import reading
from controller.http1.asked import Asked
from controller.http1.heads import KNOWN_BYTES, Again, Head, known_again
from controller.http1.reading import Misread, Reading

HEAD = b"POST /v1/a HTTP/1.1\r\nhost: x\r\nContent-Length: %s\r\nauthorization: Bearer k\r\n\r\n"


class Line:
    """A connection on which nothing is answered."""

    def __init__(self) -> None:
        self.transport: Any = None
        self.scope: dict[str, Any] = {}
        self.may_write: asyncio.Event | None = None

    def taken(self) -> None: ...

    def cut(self, *, reset: bool) -> None: ...

    def end(self, asked: Asked) -> None: ...

    def failed(self) -> tuple[list[tuple[bytes, bytes]], bytes]:
        raise AssertionError


Seen = list[tuple[str, str, list[tuple[bytes, bytes]], bytes, bool]]


def seen(pieces: list[bytes]) -> tuple[Seen, int | None]:
    """What was asked, as an app sees it, and the status of the refusal that ended it."""
    asked: deque[Asked] = deque()
    found = Reading(Line(), asked)
    status = None
    try:
        for piece in pieces:
            if not found.last:
                found.feed(piece)
    except Misread as fault:
        status = fault.status
    told = []
    for each in asked:
        if each.whole:
            scope = each.head.scope({}, sum(map(len, each._pieces)))
            told.append((scope["method"], scope["path"], scope["headers"], each.body(), each.keep))
    return told, status


def unaided(pieces: list[bytes]) -> tuple[Seen, int | None]:
    """The same where no head is ever known again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "UNLIKE_MOST", 0)
        return seen(pieces)


def asked_with(head: bytes, body: bytes, digits: bytes | None = None) -> bytes:
    return head.replace(b"%s", b"%d" % len(body) if digits is None else digits) + body


def first(data: bytes) -> Again | None:
    asked: deque[Asked] = deque()
    Reading(Line(), asked).feed(data)
    return known_again(data, asked[0].head)


def test_the_same_head_with_another_length_is_known_and_its_body_is_the_new_one() -> None:
    again = first(asked_with(HEAD, b"{}"))
    assert again is not None
    assert again.body(asked_with(HEAD, b'{"model":"m"}')) == b'{"model":"m"}'
    assert seen([asked_with(HEAD, b"{}"), asked_with(HEAD, b"x" * 12345)])[0][1][2:4] == (
        [(b"host", b"x"), (b"content-length", b"12345"), (b"authorization", b"Bearer k")],
        b"x" * 12345,
    )


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(asked_with(HEAD, b"{}")[:-1], id="short of its body"),
        pytest.param(asked_with(HEAD, b"{}") + b"P", id="more than its body"),
        pytest.param(asked_with(HEAD, b"{}", b"02"), id="a zero in front"),
        pytest.param(asked_with(HEAD, b"{}", b"+2"), id="a sign"),
        pytest.param(asked_with(HEAD, b"{}", b" 2"), id="a space in front"),
        pytest.param(asked_with(HEAD, b"{}", b"2 "), id="a space behind"),
        pytest.param(asked_with(HEAD, b"{}", "٢".encode()), id="a digit of another script"),
        pytest.param(asked_with(HEAD, b"", b""), id="no digit"),
        pytest.param(asked_with(HEAD, b"{}", b"2\r\ncontent-length: 2"), id="twice"),
        pytest.param(asked_with(HEAD, b"{}", b"2\r\ntransfer-encoding: chunked"), id="chunks beside"),
        pytest.param(asked_with(HEAD.replace(b"Bearer k", b"Bearer l"), b"{}"), id="another key"),
        pytest.param(asked_with(HEAD.replace(b"/v1/a", b"/v1/b"), b"{}"), id="another path"),
        pytest.param(asked_with(HEAD.replace(b"Content", b"content"), b"{}"), id="another case"),
    ],
)
def test_what_differs_in_anything_else_is_not(data: bytes) -> None:
    again = first(asked_with(HEAD, b"{}"))
    assert again is not None
    assert again.body(data) is None
    assert seen([asked_with(HEAD, b"{}"), data]) == unaided([asked_with(HEAD, b"{}"), data])


@pytest.mark.parametrize("size", [1, 9, 10])
def test_a_length_of_nine_digits_is_read_and_one_of_ten_is_left_to_httptools(size: int) -> None:
    again = first(asked_with(HEAD, b"{}"))
    assert again is not None
    assert again.body(asked_with(HEAD, b"x", b"1".ljust(size, b"0"))) == (b"x" if size == 1 else None)


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(HEAD.replace(b"1.1", b"1.0"), id="HTTP/1.0"),
        pytest.param(HEAD.replace(b"host: x", b"connection: close"), id="the last"),
        pytest.param(HEAD.replace(b"host: x", b"expect: 100-continue"), id="expects"),
        pytest.param(HEAD.replace(b"Content-Length: %s", b"transfer-encoding: chunked"), id="chunks"),
        pytest.param(HEAD.replace(b"Length: ", b"Length:  "), id="two spaces"),
        pytest.param(HEAD.replace(b"x", b"x" * KNOWN_BYTES), id="long"),
    ],
)
def test_a_head_that_is_not_plain_is_not_known_again(head: bytes) -> None:
    chunks = b"2\r\n{}\r\n0\r\n\r\n"
    assert first(asked_with(head, b"{}") if b"chunked" not in head else head + chunks) is None


def test_a_head_is_known_up_to_its_bound() -> None:
    plain = asked_with(HEAD, b"{}")
    room = KNOWN_BYTES - len(plain) + 2
    assert first(plain.replace(b"host: x", b"host: " + b"x" * (room + 1))) is not None
    assert first(plain.replace(b"host: x", b"host: " + b"x" * (room + 2))) is None


def test_what_an_app_knows_of_a_head_is_there_when_it_comes_again() -> None:
    asked: deque[Asked] = deque()
    found = Reading(Line(), asked)
    found.feed(asked_with(HEAD, b"{}"))
    asked[0].head.known = "seen"
    found.feed(asked_with(HEAD, b"[]"))
    other = HEAD.replace(b"Bearer k", b"Bearer l")
    found.feed(asked_with(other, b"[]"))
    asked[2].head.known = "seen too"
    found.feed(asked_with(other, b"{}"))
    assert [each.head.known for each in asked] == ["seen", "seen", "seen too", "seen too"]


OTHER = HEAD.replace(b"/v1/a", b"/v1/b")
A, B = asked_with(HEAD, b"{}"), asked_with(OTHER, b"{}")


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([A, b"POST /v1/b HTTP/1.1\r\nx: ", A, A], id="within a head"),
        pytest.param([A, asked_with(OTHER, b"", b"%d" % len(A)), A, A], id="within a body"),
        pytest.param([A + B, A, B], id="two in one piece"),
        pytest.param([A, B, A + B, A, B], id="behind others"),
        pytest.param([A, b"\r\n", A, b"\r", A], id="behind an empty line"),
    ],
)
def test_where_it_comes_decides_what_it_is(pieces: list[bytes]) -> None:
    assert seen(pieces) == unaided(pieces)


def test_empty_lines_between_requests_are_not_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "HEAD_BYTES", len(A))
    assert len(seen([A, *[b"\r\n", A] * len(A)])[0]) == len(A) + 1


def test_who_says_something_else_each_time_is_no_longer_learned_from(monkeypatch: pytest.MonkeyPatch) -> None:
    learned: list[Head] = []

    def known(data: bytes, head: Head) -> Again | None:
        learned.append(head)
        return known_again(data, head)

    monkeypatch.setattr(reading, "known_again", known)
    found = Reading(Line(), deque())
    for number in range(20):
        found.feed(asked_with(HEAD.replace(b"host: x", b"host: %d" % number), b"{}"))
    assert len(learned) == reading.UNLIKE_MOST == 8


HEADS = st.sampled_from(
    [
        HEAD,
        HEAD.replace(b"Bearer k", b"Bearer l"),
        HEAD.replace(b"/v1/a", b"http://h/v1/%61?q"),
        HEAD.replace(b"host: x", b"expect: 100-continue"),
        HEAD.replace(b"host: x", b"connection: close"),
        HEAD.replace(b"host: x", b"connection: upgrade\r\nupgrade: h2c"),
        HEAD.replace(b"Content-Length: %s\r\n", b""),
        b"\r\n" + HEAD,
        b"GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n",
    ]
)
DIGITS = st.one_of(st.none(), st.none(), st.none(), st.sampled_from([b"0", b"1", b"02", b"2 ", b"-1", b"1\n", b"999"]))
REQUESTS = st.builds(asked_with, HEADS, st.binary(max_size=40), DIGITS)
BROKEN_OFF = st.builds(lambda data, end: data[:end], REQUESTS, st.integers(1, 150))


@given(
    st.lists(st.one_of(REQUESTS, REQUESTS, BROKEN_OFF), max_size=6),
    st.lists(st.integers(1, 200), max_size=8),
    st.booleans(),
)
def test_any_requests_in_any_pieces_are_read_as_without_it(requests: list[bytes], cuts: list[int], whole: bool) -> None:
    if whole:  # as they mostly come: each in a piece of its own
        pieces = requests
    else:
        data, pieces = b"".join(requests), []
        for cut in cuts:
            piece, data = data[:cut], data[cut:]
            pieces.append(piece)
        pieces.append(data)
    assert seen([piece for piece in pieces if piece]) == unaided([piece for piece in pieces if piece])
