"""Are the cards of a machine in one machine, and by what do they reach each other?

As NCCL writes it in the machine's log while its ranks meet (MC-4): how many nodes they lie on, and the way of each
channel between two of them. It writes so only where it is told to (NCCL_DEBUG=INFO), and long logs scroll: what was
not seen is unknown, never one machine. As in a diagnosis the log's own words go no further than this.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

_GROUP: Final = re.compile(r"\bNCCL INFO comm .{1,200}?\bnRanks (\d{1,4}) nNodes (\d{1,4})\b")
_CHANNEL: Final = re.compile(r"\bNCCL INFO Channel .{1,200}? via (P2P|SHM|NET)\b")
_LINE_MOST: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """The largest group of cards that was seen to meet."""

    ranks: int
    nodes: int
    ways: tuple[str, ...] = ()
    """P2P, SHM or NET: by whatever direct link, by the machine's memory, or by a network."""

    @property
    def together(self) -> bool:
        return self.nodes == 1

    @property
    def text(self) -> str:
        machines = "one machine" if self.together else f"{self.nodes} machines"
        ways = f", which reach each other by {' and '.join(self.ways)}" if self.ways else ""
        return f"NCCL counts {self.ranks} cards in {machines}{ways}"


def follow(former: Topology | None, lines: Iterable[str]) -> Topology | None:
    """Carry what is known on by some lines."""
    found, ways = former, set[str]()
    for line in lines:
        text = line[:_LINE_MOST]
        if group := _GROUP.search(text):
            found = _larger(found, Topology(ranks=int(group[1]), nodes=int(group[2])))
        elif channel := _CHANNEL.search(text):
            ways.add(channel[1])
    return None if found is None else replace(found, ways=tuple(sorted(ways.union(found.ways))))


def joined(stored: Topology | None, seen: Topology | None) -> Topology | None:
    """What is on record with what was seen since: a look that shows less takes nothing back."""
    if stored is None or seen is None:
        return stored or seen
    larger = max(stored, seen, key=lambda one: (one.ranks, one.nodes))
    return replace(larger, ways=tuple(sorted({*stored.ways, *seen.ways})))


def _larger(before: Topology | None, after: Topology) -> Topology | None:
    """A server makes smaller groups beside the one of all its cards; one of a single card says nothing."""
    if not 1 <= after.nodes <= after.ranks or after.ranks < 2:
        return before
    if before is not None and (before.ranks, before.nodes) >= (after.ranks, after.nodes):
        return before
    return after
