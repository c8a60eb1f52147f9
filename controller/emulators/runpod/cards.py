"""What does a pod's log say of its cards?

NCCL writes where the ranks of a model server lie and by what they reach each other, once they meet, if it is told to
(`NCCL_DEBUG`): here as its release 2.27 does, for cards that are all in one machine. What the server says next is that
it goes on; a log that ended where the cards met would be one of cards that wait for each other for ever. Only the pod's
first start writes it.
"""

from __future__ import annotations

from collections.abc import Iterator

from controller.emulators.runpod.pods import Pod


def meeting(pod: Pod) -> list[str]:
    """Empty for a single card, and where nobody asked for it."""
    if pod.gpu_count < 2 or pod.env.get("NCCL_DEBUG") != "INFO":
        return []
    return [*_ranks(pod), "INFO gpu_model_runner.py:2602] Starting to load model"]


def _ranks(pod: Pod) -> Iterator[str]:
    way = "SHM/direct/direct" if pod.env.get("NCCL_P2P_DISABLE") == "1" else "P2P/CUMEM"
    count = pod.gpu_count
    for rank in range(count):
        begin = f"{pod.id}:{100 + rank}:{200 + rank} [{rank}] NCCL INFO"
        following = (rank + 1) % count
        yield f"{begin} Channel 00/0 : {rank}[{rank}] -> {following}[{following}] via {way}"
        group = f"rank {rank} nRanks {count} nNodes 1 localRanks {count} localRank {rank} MNNVL 0"
        yield f"{begin} comm 0x{0x55BA65 + rank:x} {group}"
