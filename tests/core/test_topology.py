"""Is it told only by what NCCL wrote whether cards are in one machine?"""

import pytest

from controller.core.topology import Topology, follow, joined

BEGIN = "pod:11:12 [0] NCCL INFO comm 0x55ba65 rank 0 nRanks 2 nNodes {nodes} localRanks 2 localRank 0 MNNVL 0"
CHANNEL = "pod:11:12 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via {way}"
LOAD = "INFO Starting to load model org/m1..."
TOGETHER = Topology(ranks=2, nodes=1)


@pytest.mark.parametrize("nodes", [1, 2])
def test_nccl_says_on_how_many_nodes_its_ranks_lie(nodes: int) -> None:
    found = follow(None, [LOAD, BEGIN.format(nodes=nodes), CHANNEL.format(way="SHM/direct/direct")])
    assert found == Topology(ranks=2, nodes=nodes, ways=("SHM",))
    assert found.together is (nodes == 1)


@pytest.mark.parametrize(
    "line", [LOAD, "user said: nRanks 2 nNodes 1", CHANNEL.format(way="P2P/IPC"), BEGIN.format(nodes=0)]
)
def test_what_nccl_did_not_say_is_unknown(line: str) -> None:
    assert follow(None, [line]) is None


def test_a_smaller_group_beside_the_one_of_all_cards_says_nothing() -> None:
    alone = BEGIN.format(nodes=1).replace("nRanks 2", "nRanks 1")
    assert follow(None, [alone]) is None
    assert follow(None, [BEGIN.format(nodes=2).replace("nRanks 2", "nRanks 8"), BEGIN.format(nodes=1), alone]) == (
        Topology(ranks=8, nodes=2)
    )


def test_ways_add_up_over_looks_and_nothing_is_taken_back() -> None:
    first = follow(None, [BEGIN.format(nodes=1), CHANNEL.format(way="SHM/direct/direct")])
    second = follow(first, [CHANNEL.format(way="P2P/CUMEM/read")])
    assert second == Topology(ranks=2, nodes=1, ways=("P2P", "SHM"))
    assert (
        joined(second, TOGETHER) == joined(TOGETHER, second) == joined(None, second) == joined(second, None) == second
    )
    assert joined(Topology(ranks=2, nodes=2, ways=("NET",)), TOGETHER) == Topology(ranks=2, nodes=2, ways=("NET",))


def test_it_is_told_in_words() -> None:
    assert TOGETHER.text == "NCCL counts 2 cards in one machine"
    apart = Topology(ranks=8, nodes=2, ways=("NET", "SHM"))
    assert apart.text == "NCCL counts 8 cards in 2 machines, which reach each other by NET and SHM"
