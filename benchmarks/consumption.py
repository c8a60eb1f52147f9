"""How much processor and memory has a process used?

Read from /proc by its number: processor time of all its threads in nanoseconds where the kernel tells it, resident
memory as it is now.
"""

import os
from pathlib import Path


def cpu_seconds(process_id: int) -> float:
    """Processor time since its start. Threads that ended count only in the coarse figure, so the larger one is it."""
    fine = 0
    for task in Path(f"/proc/{process_id}/task").iterdir():
        try:
            fine += int((task / "schedstat").read_text().split()[0])
        except (OSError, ValueError, IndexError):
            continue
    return max(fine / 1e9, _ticks(process_id) / os.sysconf("SC_CLK_TCK"))


def family(process_id: int) -> list[int]:
    """The process and all that it started, and those that they did."""
    found = [process_id]
    for task in Path(f"/proc/{process_id}/task").iterdir():
        try:
            children = (task / "children").read_text().split()
        except OSError:  # that thread ended
            continue
        for child in children:
            found += family(int(child))
    return found


def _ticks(process_id: int) -> int:
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def resident_mib(process_id: int) -> float:
    for line in Path(f"/proc/{process_id}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"process {process_id} has no memory")
