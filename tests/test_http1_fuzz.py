"""Is an answer the same however its request is cut, and does nonsense ever raise, or hang?"""

import logging
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.standing import GET, LAST, POST, answers, echo, tapped
from tests.support.virtual_time import run_virtual

UPGRADE = POST + b"connection: upgrade\r\nupgrade: h2c\r\ncontent-length: 3\r\n\r\nabc"
WHOLE = (
    GET,
    POST + b"content-length: 5\r\n\r\nhello",
    POST + b"transfer-encoding: chunked\r\n\r\n3;e=f\r\nabc\r\nA\r\n0123456789\r\n0\r\nt: u\r\n\r\n",
    UPGRADE,
    b"HEAD /length HTTP/1.1\r\nhost: x\r\n\r\n",
    b"GET /%41%20?q=%41 HTTP/1.1\r\nHost: x\r\nX-A: b \r\nx-a: c\r\n\r\n",
)
BROKEN = (
    POST + b"content-length: 1\r\ncontent-length: 2\r\n\r\n",
    POST + b"transfer-encoding: chunked\r\n\r\nzz\r\n",
    b"GET / HTTP/3.0\r\n\r\n",
    b"CONNECT a:1 HTTP/1.1\r\nhost: x\r\n\r\n",
    b"GET / HTTP/1.0\r\n\r\n",
    b"GET /\r\n\r\n",
    b"\x00\r\n\r\n",
    LAST,
)
PARTS = (b"GET ", b"POST ", b"/a", b" HTTP/1.1", b" HTTP/1.0", b"\r\n", b"\n", b"\r", b" ", b":", b"0", b"3", b"f")
WORDS = (b"content-length", b"transfer-encoding", b"chunked", b"connection", b"upgrade", b"close", b"expect", b"h2c")


def outcome(segments: list[bytes], wait_s: float = 1) -> tuple[bytes, bool]:
    return run_virtual(lambda: tapped(echo, segments, wait_s=wait_s))


def cut(data: bytes, at: list[int]) -> list[bytes]:
    edges = [0, *sorted({edge % (len(data) + 1) for edge in at}), len(data)]
    return [data[a:b] for a, b in pairwise(edges) if a < b]


@pytest.fixture(autouse=True)
def _no_errors(caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]) -> Any:
    """Neither a loop's complaint nor one of ours."""
    with caplog.at_level(logging.WARNING):
        yield
    assert (caplog.records, capsys.readouterr().out) == ([], "")


@pytest.mark.parametrize("request_", [*WHOLE, *BROKEN])
def test_a_request_is_answered_the_same_cut_at_every_byte(request_: bytes) -> None:
    data = request_ + LAST
    expected = outcome([data])
    for edge in range(1, len(data)):
        assert outcome([data[:edge], data[edge:]]) == expected, data[:edge]
    assert outcome([bytes([byte]) for byte in data]) == expected


@given(st.lists(st.sampled_from([*WHOLE, *BROKEN]), max_size=6), st.lists(st.integers(0, 2000), max_size=12))
def test_many_are_answered_the_same_however_they_are_cut(several: list[bytes], at: list[int]) -> None:
    data = b"".join(several)
    expected = outcome([data])
    assert outcome(cut(data, at)) == expected
    good = next((number for number, one in enumerate(several) if one in BROKEN), len(several))
    assert expected[0].count(b"HTTP/1.1 ") >= good


@given(
    st.lists(st.one_of(st.sampled_from(PARTS), st.sampled_from(WORDS), st.binary(max_size=8)), max_size=60),
    st.lists(st.integers(0, 400), max_size=6),
)
def test_nonsense_ends_by_itself_and_is_refused_at_most_once(parts: list[bytes], at: list[int]) -> None:
    raw, ended = outcome(cut(b"".join(parts), at), wait_s=200)
    assert ended
    refusals = raw.count(b"HTTP/1.1 4")
    assert refusals <= 1
    if refusals:
        assert b"connection: close\r\n" in raw


@given(st.sampled_from(WHOLE), st.integers(0, 400), st.binary(min_size=1, max_size=3), st.lists(st.integers(0, 400)))
def test_a_request_with_a_few_other_bytes_is_answered_or_refused(
    request_: bytes, place: int, other: bytes, at: list[int]
) -> None:
    place %= len(request_)
    data = request_[:place] + other + request_[place + len(other) :] + LAST
    assert outcome([data], 200) == outcome(cut(data, at), 200)


def test_a_client_that_asks_for_everything_at_once_gets_it() -> None:
    raw, ended = outcome([GET * 3000 + UPGRADE * 500 + LAST])
    assert ended
    assert [status for status, _, _ in answers(raw)] == [200] * 3501
