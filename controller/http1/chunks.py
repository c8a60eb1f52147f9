"""Is what was read exactly one chunk?

A model server writes each event of a stream as one chunk, and mostly it is read as it was written. That can be seen
without the parser: among those of one length, all begin alike. What is framed in another way (with leading zeros,
capitals or an extension, two at once, the last one) is not known here, and the parser's.
"""

from functools import lru_cache
from typing import Final

END: Final = b"\r\n"
DIGITS_MOST: Final = 5


def size_of_chunk(data: bytes) -> int:
    """Of what is in it; 0 if it may be anything else. Only where one may begin does it mean anything."""
    begins, size = _begins(len(data))
    return size if data.startswith(begins) and data.endswith(END) else 0


@lru_cache(maxsize=4096)
def _begins(length: int) -> tuple[bytes, int]:
    """How a chunk begins that is so long as a whole, and the size that it tells so."""
    for digits in range(1, DIGITS_MOST + 1):
        size = length - digits - 2 * len(END)
        if size > 0 and len(b"%x" % size) == digits:
            return b"%x\r\n" % size, size
    return b"", 0
