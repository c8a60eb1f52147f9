"""What is a time zone to the tests, on a machine that may have no data of any?

Zones are made from the rule that a zone's file ends with, so that each test says what the clocks there do.
"""

import struct
from io import BytesIO
from typing import Final
from zoneinfo import ZoneInfo

CENTRAL_EUROPE: Final = "CET-1CEST,M3.5.0,M10.5.0/3"
"""One hour ahead of UTC, two in summer: from 02:00 on the last Sunday of March to 03:00 on that of October."""


def zone_file(rule: str) -> bytes:
    """A file of the time-zone database (RFC 9636) that holds only the rule, as POSIX writes it."""
    counts = struct.pack(">4sc15x6l", b"TZif", b"2", 0, 0, 0, 0, 1, 4)
    kind = struct.pack(">lBB", 0, 0, 0) + b"UTC\x00"
    return (counts + kind) * 2 + f"\n{rule}\n".encode()


def zone(rule: str = CENTRAL_EUROPE) -> ZoneInfo:
    return ZoneInfo.from_file(BytesIO(zone_file(rule)), key="Test/Zone")
