"""What did a model server die of, by its own log?

A closed set of causes, each known by words that the servers were seen or are documented to write (MS-14). The words of
a log go no further than this: what is kept and told is the cause's name and a text of ours. A cause says whose fault
it is: what only a changed config can mend is not tried again and again, while another machine may be a better one.
"""

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Final


class Cause(StrEnum):
    OUT_OF_MEMORY = "out-of-memory"
    CACHE_TOO_SMALL = "kv-cache-too-small"
    BAD_FLAG = "bad-flag"
    GATED = "gated-repository"
    UNKNOWN_ARCHITECTURE = "unknown-architecture"
    DISK_FULL = "disk-full"
    WRONG_CUDA = "wrong-cuda"
    CARD_IN_USE = "card-in-use"
    NO_DOWNLOAD = "no-download"


SAYS: Final = {
    Cause.OUT_OF_MEMORY: "the model does not fit the card's memory",
    Cause.CACHE_TOO_SMALL: "no room is left for the key-value cache of the asked context",
    Cause.BAD_FLAG: "the model server does not know one of its arguments",
    Cause.GATED: "Hugging Face refuses the model's files (401 or 403): a gated or private repository, or no token",
    Cause.UNKNOWN_ARCHITECTURE: "this version of the model server does not know the model's architecture",
    Cause.DISK_FULL: "the machine's disk is full",
    Cause.WRONG_CUDA: "the machine's driver is too old for the image's CUDA",
    Cause.CARD_IN_USE: "somebody else uses the machine's card",
    Cause.NO_DOWNLOAD: "the machine could not download the model",
}
OF_CONFIG: Final = frozenset(
    {
        Cause.OUT_OF_MEMORY,
        Cause.CACHE_TOO_SMALL,
        Cause.BAD_FLAG,
        Cause.GATED,
        Cause.UNKNOWN_ARCHITECTURE,
        Cause.DISK_FULL,
    }
)
"""Met again on every machine until the config changes; the others are the machine's own."""

WORDS: Final = {
    Cause.OUT_OF_MEMORY: r"CUDA out of memory|OutOfMemoryError|cudaMalloc failed: out of memory"
    r"|unable to allocate CUDA\d* buffer",
    Cause.CACHE_TOO_SMALL: r"No available memory for the cache blocks|larger than the available KV cache memory"
    r"|failed to allocate buffer for kv cache",
    Cause.BAD_FLAG: r"error: unrecognized arguments|error: argument -|error: invalid argument: -"
    r"|error while handling argument",
    Cause.GATED: r"access a gated repo|GatedRepoError|Access to model \S+ is restricted|40[13] Client Error",
    Cause.UNKNOWN_ARCHITECTURE: r"does not recognize this architecture|are not supported for now"
    r"|unknown model architecture",
    Cause.DISK_FULL: r"No space left on device",
    Cause.WRONG_CUDA: r"CUDA driver version is insufficient|driver on your system is too old"
    r"|no kernel image is available|forward compatibility was attempted|unsatisfied condition: cuda",
    Cause.CARD_IN_USE: r"Free memory on device .{0,200} is less than desired GPU memory utilization",
    Cause.NO_DOWNLOAD: r"LocalEntryNotFoundError|Temporary failure in name resolution|Max retries exceeded with url",
}
_KNOWN: Final = {cause: re.compile(words) for cause, words in WORDS.items()}
LINE_MOST: Final = 2000
_SAID: Final = {cause.value: said for cause, said in SAYS.items()}
_WORDS_OF_CONFIG: Final = frozenset(cause.value for cause in OF_CONFIG)


def cause_in(lines: Iterable[str]) -> Cause | None:
    """The latest cause that these lines, oldest first, tell; a server that died twice died last of the latter."""
    found: Cause | None = None
    for line in lines:
        found = _cause_of(line[:LINE_MOST]) or found
    return found


def _cause_of(line: str) -> Cause | None:
    return next((cause for cause, words in _KNOWN.items() if words.search(line)), None)


def told(reason: str, cause: str | None) -> str:
    """A reason as those who wait are told it, with its cause where one is known."""
    said = _SAID.get(cause or "")
    return reason if said is None else f"{reason}: {said} ({cause})"


def of_config(cause: str | None) -> bool:
    return cause in _WORDS_OF_CONFIG
