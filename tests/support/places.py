"""Where do a test's files lie while it runs?

Where a commit waits for no disk, if there is such a place: nothing of a test outlives a power cut anyway.
"""

import os
from typing import Final

SHARED_MEMORY: Final = "/dev/shm"


def in_memory() -> str | None:
    """A folder for temporary folders; `None`: wherever they are by default."""
    return SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else None
