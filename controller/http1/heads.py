"""What did the head of a request say, and is this the same one again?

A client says the same with each request on its connection but for the length of its body. Such a head is known by its
bytes, so that it need not be read again: what comes before the digits of its length, and what comes after them. It is
read by httptools once, as every other, which refuses a second length and chunks beside one; and only what is plain is
known again: kept open, a length in digits, nothing expected.
"""

import re
from typing import Any, Final
from urllib.parse import unquote

Pairs = list[tuple[bytes, bytes]]

LENGTH: Final = re.compile(rb"\r\ncontent-length: ([1-9][0-9]{0,8})(?=\r\n)", re.IGNORECASE)
LENGTH_NAME: Final = b"content-length"
DIGITS_MOST: Final = 9
KNOWN_BYTES: Final = 4096
"""Kept for each connection that asks on; a longer head is read each time."""


class Head:
    """Names of headers in lower case. `known` is for whoever answers: what that head means there."""

    __slots__ = ("expects", "headers", "keep", "known", "method", "path", "query", "raw_path", "version")

    def __init__(self, method: str, version: str, raw_path: bytes, query: bytes, headers: Pairs) -> None:
        text = raw_path.decode("ascii")
        self.method = method
        self.version = version
        self.raw_path = raw_path
        self.path = unquote(text) if "%" in text else text
        self.query = query
        self.headers = headers
        self.keep = False
        """Another request may follow."""
        self.expects = False
        """Its body comes when it is told to go on."""
        self.known: Any = None

    def scope(self, of_all: dict[str, Any], length: int | None) -> dict[str, Any]:
        """As an app sees it, `of_all` being the same for all of a connection; with the body's own length, where that is
        known, as one head may have several."""
        headers = self.headers
        if length is not None:
            headers = [(name, b"%d" % length if name == LENGTH_NAME else value) for name, value in headers]
        return {
            **of_all,
            "http_version": self.version,
            "method": self.method,
            "path": self.path,
            "raw_path": self.raw_path,
            "query_string": self.query,
            "headers": headers,
        }


class Again:
    """The last head of one connection, to be found at the beginning of what comes next."""

    __slots__ = ("_after", "_before", "head")

    def __init__(self, head: Head, before: bytes, after: bytes) -> None:
        self.head = head
        self._before = before
        self._after = after

    def body(self, data: bytes) -> bytes | None:
        """If `data` is one request with that head, whole and nothing more: its body."""
        before, after = self._before, self._after
        if not data.startswith(before):
            return None
        begins = len(before)
        ends = data.find(b"\r", begins, begins + DIGITS_MOST + 1)
        digits = data[begins:ends]
        if ends < 0 or not digits.isdigit() or digits[0] == 48 or not data.startswith(after, ends):
            return None
        body = data[ends + len(after) :]
        return body if len(body) == int(digits) else None


def known_again(data: bytes, head: Head) -> Again | None:
    """From the bytes with which `head` began; None for one that is not so plain, or did not come as a whole."""
    ends = data.find(b"\r\n\r\n", 0, KNOWN_BYTES)
    found = None if ends < 0 else LENGTH.search(data, 0, ends + 2)
    if found is None or not head.keep or head.expects:
        return None
    return Again(head, data[: found.start(1)], data[found.end(1) : ends + 4])
