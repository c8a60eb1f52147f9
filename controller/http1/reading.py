"""What does a client ask, by the bytes that came?

Requests are put in line as soon as their heads are whole; bodies go to them as they come. How a request is framed is
left to httptools, which refuses what two readers could read in two ways (two lengths, a length beside chunks, folded
lines, bare line feeds). What is bounded here is what httptools keeps in memory: heads, trailers, lines between chunks.
"""

from collections import deque
from typing import Final

import httptools

from controller.http1.asked import Asked, Line
from controller.http1.heads import Again, Head, known_again

HEAD_BYTES: Final = 65_536
HEADERS_MOST: Final = 256
VERSIONS: Final = frozenset({"1.0", "1.1"})
MARKS: Final = frozenset({b"expect", b"upgrade"})
UNLIKE_MOST: Final = 8
"""A client that says something else each time is no longer learned from."""
UNREADABLE: Final = (400, "the request cannot be read")
TOO_LONG: Final = (431, "the head of the request is too long")


class Misread(Exception):
    """Nothing more can be read from this client. Status and reason are what it is told."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status
        self.why = why


class Reading:
    def __init__(self, line: Line, asked: deque[Asked]) -> None:
        """Requests are put into `asked`."""
        self._line = line
        self._asked = asked
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._marks: dict[bytes, bytes] = {}
        self._bare = 0
        """Bytes that came since anything came of them."""
        self._fault = UNREADABLE
        self._again: Again | None = None
        self._unlike = 0
        """Heads that were not the one before them."""
        self.in_head = False
        self.coming: Asked | None = None
        """Its body is still to come."""
        self.last = False
        """No other request can follow."""

    def feed(self, data: bytes) -> None:
        """Raises Misread."""
        if self.in_head or self.coming is not None:
            return self._read(data)
        again = self._again
        body = None if again is None else again.body(data)
        if again is None or body is None:
            return self._read_first(data)
        self._bare = 0
        self._asked.append(Asked(self._line, again.head, body))

    def _read_first(self, data: bytes) -> None:
        """What begins with a request. Its head is known again, if it is like to come again."""
        before = len(self._asked)
        self._read(data)
        if self._unlike < UNLIKE_MOST and len(self._asked) == before + 1:
            self._unlike += 1
            self._again = known_again(data, self._asked[-1].head)

    def _read(self, data: bytes) -> None:
        self._bare += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._stay(memoryview(data)[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            raise Misread(*self._fault) from error
        if self._bare > HEAD_BYTES:
            raise Misread(*TOO_LONG)

    def close(self) -> None:
        """A parser and its reader know each other, and would be garbage to be sought."""
        self.last, self.coming = True, None
        del self._parser

    def _stay(self, rest: memoryview) -> None:
        """Somebody asks for another protocol as well (Java's own client does, for HTTP/2): it is answered in this one,
        with its body, which the parser leaves out for the other protocol's sake."""
        while True:
            method, version = self._parser.get_method(), self._parser.get_http_version().encode()
            headers = b"".join(b"%b: %b\r\n" % pair for pair in self._headers if pair[0] != b"upgrade")
            self._parser = httptools.HttpRequestParser(self)
            try:
                self._parser.feed_data(b"%b %b HTTP/%b\r\n%b\r\n" % (method, self._url, version, headers))
                return self._parser.feed_data(rest)
            except httptools.HttpParserUpgrade as upgrade:
                rest = rest[upgrade.args[0] :]
            except httptools.HttpParserError as error:
                raise Misread(*self._fault) from error

    # httptools' side. What is raised here comes out of `feed_data` as an error of the parser.

    def on_message_begin(self) -> None:
        self.in_head = True
        self._url, self._headers = b"", []
        if self._marks:
            self._marks = {}

    def on_url(self, part: bytes) -> None:
        self._url += part

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.in_head:  # else it is a trailer
            name = name.lower()
            if name in MARKS:
                self._marks[name] = value
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        self.in_head = False
        if self.last:
            return
        parser, headers = self._parser, self._headers
        if len(headers) > HEADERS_MOST or (self._bare > HEAD_BYTES and self._head_bytes() > HEAD_BYTES):
            self._fault = TOO_LONG
            raise ValueError
        method, version = parser.get_method().decode(), parser.get_http_version()
        if version not in VERSIONS:
            raise ValueError
        if self._marks and parser.should_upgrade():
            return
        self._bare = 0
        path, query = _split(self._url)
        head = Head(method, version, path, query, headers)
        head.keep = parser.should_keep_alive() and version == "1.1"
        head.expects = head.version == "1.1" and self._marks.get(b"expect", b"").lower() == b"100-continue"
        self.coming = Asked(self._line, head)
        self._asked.append(self.coming)

    def on_body(self, body: bytes) -> None:
        self._bare = 0
        if self.coming is not None:
            self.coming.take(body)

    def on_message_complete(self) -> None:
        coming, self.coming = self.coming, None
        if coming is not None:
            self._bare = 0
            self.last = not coming.keep
            coming.end_of_body()

    def _head_bytes(self) -> int:
        return len(self._url) + sum(len(name) + len(value) + 4 for name, value in self._headers)


def _split(url: bytes) -> tuple[bytes, bytes]:
    """Path and query of a request's target, which may be a whole address, or `*`."""
    if url.startswith(b"/") or url == b"*":
        path, _, query = url.partition(b"?")
        return path, query
    parsed = httptools.parse_url(url)
    return parsed.path or b"/", parsed.query or b""
