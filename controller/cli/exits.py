"""With which code does a command end?

The table of the design's section 7. A code that a script does not know is a failure; 200 and above belong to systemd.
"""

from enum import IntEnum
from typing import Final

from controller.core.errors import Code


class Exit(IntEnum):
    OK = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    """The daemon does not answer."""
    PROVIDER = 4
    NOT_FOUND = 5
    REFUSED = 6
    """By a limit or a guard."""
    BAD_CONFIG = 78
    INTERRUPTED = 130


class Failure(Exception):
    """A command ends here, with a code and words for stderr."""

    def __init__(self, code: Exit, words: str) -> None:
        super().__init__(words)
        self.code = code
        self.words = words


_OF_CODE: Final = {
    Code.UNKNOWN_MODEL: Exit.NOT_FOUND,
    Code.NOT_FOUND: Exit.NOT_FOUND,
    Code.BAD_REQUEST: Exit.USAGE,
    Code.PROVIDER_UNAVAILABLE: Exit.PROVIDER,
    Code.NO_CAPACITY: Exit.PROVIDER,
    Code.NO_FUNDS: Exit.PROVIDER,
    Code.CONTROLLER_DOWN: Exit.UNREACHABLE,
    Code.REFUSED: Exit.REFUSED,
    Code.MODEL_BLOCKED: Exit.REFUSED,
    Code.MODEL_STOPPING: Exit.REFUSED,
    Code.BUDGET_EXHAUSTED: Exit.REFUSED,
    Code.QUEUE_FULL: Exit.REFUSED,
    Code.WRONG_KEY: Exit.REFUSED,
    Code.MODEL_NOT_ALLOWED: Exit.REFUSED,
    Code.RATE_LIMITED: Exit.REFUSED,
    Code.BODY_TOO_LARGE: Exit.REFUSED,
}


def exit_of(code: str) -> Exit:
    """The exit code for one of the outward codes; what is unknown has failed."""
    return next((found for known, found in _OF_CODE.items() if known.value == code), Exit.FAILED)
