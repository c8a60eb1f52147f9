"""Is a stall of several cards told at its time and not before, and never by a look that showed nothing?"""

from datetime import datetime, timedelta
from typing import Any

import pytest

from controller.core.diagnosis import Cause
from controller.core.evidence import StopReason
from controller.core.lifecycle import Phase
from controller.core.machine_log import Log, Logged, LogLine, due, failed, follow, progress_at, stalled
from controller.core.topology import Topology
from tests.core.samples import MS, T0, S

AFTER = timedelta(minutes=10)
BLOCK = "INFO shm_broadcast.py:501] No available shared memory broadcast block found in 60 seconds."
NCCL = "vllm-0:123:456 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 2 - Init COMPLETE"
LOAD = "INFO Starting to load model org/m1..."


def log(*texts: str, at: datetime = T0, whole: bool = True) -> Log:
    return Log(lines=tuple(LogLine(said=f"t{n}", text=text) for n, text in enumerate(texts)), read_at=at, whole=whole)


def looked(*looks: Log) -> Logged:
    logged: Logged | None = None
    for look in looks:
        logged = follow(logged, look, container_at=T0)
    assert logged is not None
    return logged


def reason(logged: Logged, phase: Phase = Phase.REQUESTED) -> StopReason | None:
    return stalled(logged, phase=phase, stall_after=AFTER)


@pytest.mark.parametrize(("later", "stall"), [(600 * S - MS, None), (600 * S, StopReason.MULTI_CARD_STALL)])
@pytest.mark.parametrize("phase", [Phase.REQUESTED, Phase.ACTIVE])
def test_ten_minutes_of_nothing_but_no_block_are_a_stall(
    later: timedelta, stall: StopReason | None, phase: Phase
) -> None:
    logged = looked(log(LOAD), log(LOAD, BLOCK, at=T0 + 60 * S), log(LOAD, BLOCK, BLOCK, at=T0 + later))
    assert reason(logged, phase) is stall


def test_any_other_line_begins_the_time_anew() -> None:
    other = log(LOAD, BLOCK, "INFO compiled", BLOCK, at=T0 + 500 * S)
    for later, stall in ((1100 * S - MS, None), (1100 * S, StopReason.MULTI_CARD_STALL)):
        logged = looked(log(LOAD, BLOCK), other, log(LOAD, BLOCK, "INFO compiled", BLOCK, BLOCK, at=T0 + later))
        assert reason(logged) is stall


def test_another_line_at_the_end_is_no_stall_however_late() -> None:
    assert reason(looked(log(LOAD, BLOCK), log(LOAD, BLOCK, LOAD, at=T0 + 3600 * S))) is None


def test_the_last_other_line_may_scroll_out_of_what_is_shown() -> None:
    assert reason(looked(log(LOAD, BLOCK), log(BLOCK, BLOCK, at=T0 + 600 * S))) is StopReason.MULTI_CARD_STALL


def test_a_look_that_failed_or_was_cut_off_decides_nothing_and_moves_nothing() -> None:
    begun, later = looked(log(LOAD, BLOCK)), T0 + 900 * S
    missed = failed(begun, problem="HTTP 403", at=later, container_at=T0)
    torn = follow(begun, log(LOAD, BLOCK, at=later, whole=False), container_at=T0)
    assert (reason(missed), reason(torn)) == (None, None)
    assert missed.quiet == torn.quiet == begun.quiet
    again = follow(missed, log(LOAD, BLOCK, BLOCK, at=later + 60 * S), container_at=T0)
    assert reason(again) is StopReason.MULTI_CARD_STALL


def test_a_first_look_that_failed_is_a_look_that_showed_nothing() -> None:
    missed = failed(None, problem="HTTP 403", at=T0, container_at=None)
    assert missed == Logged(at=T0, container_at=None, problem="HTTP 403")
    assert (progress_at(None), progress_at(missed), reason(missed)) == (None, None, None)


def test_progress_is_a_look_that_showed_something_new_and_no_later_one() -> None:
    assert progress_at(looked(log(LOAD), log(LOAD, BLOCK, at=T0 + 60 * S))) == T0
    assert progress_at(looked(log(LOAD), log(LOAD, NCCL, at=T0 + 60 * S))) == T0 + 60 * S


def test_older_lines_of_a_log_that_was_cut_off_do_not_begin_the_time_anew() -> None:
    torn = log("INFO long ago", at=T0 + 300 * S, whole=False)
    logged = looked(log(LOAD, BLOCK), torn, log(LOAD, BLOCK, BLOCK, at=T0 + 600 * S))
    assert reason(logged) is StopReason.MULTI_CARD_STALL


def test_an_empty_log_is_no_stall() -> None:
    assert reason(looked(log(), log(at=T0 + 3600 * S))) is None


@pytest.mark.parametrize("last", [BLOCK, NCCL])
def test_a_log_that_shows_none_of_its_lines_any_more_decides_nothing_and_moves_nothing(last: str) -> None:
    begun = looked(log(LOAD, last))
    empty = follow(begun, log(at=T0 + 900 * S), container_at=T0)
    assert reason(empty) is None
    assert empty.quiet == begun.quiet
    assert empty.problem is not None
    assert reason(follow(empty, log(LOAD, last, at=T0 + 960 * S), container_at=T0)) is not None


@pytest.mark.parametrize(("later", "stall"), [(600 * S - MS, None), (600 * S, StopReason.NCCL_STALL)])
def test_silence_after_nccl_began_is_a_stall_while_it_starts(later: timedelta, stall: StopReason | None) -> None:
    logged = looked(log(LOAD, NCCL), log(LOAD, NCCL, at=T0 + later))
    assert reason(logged) is stall
    assert reason(logged, Phase.ACTIVE) is None


def test_silence_after_any_other_line_is_none() -> None:
    assert reason(looked(log(NCCL, LOAD), log(NCCL, LOAD, at=T0 + 3600 * S))) is None


def test_a_cause_once_told_is_kept_when_its_line_has_scrolled_out() -> None:
    logged = looked(log("CUDA out of memory"), log(LOAD, at=T0 + 60 * S))
    assert logged.cause is Cause.OUT_OF_MEMORY
    assert failed(logged, problem="x", at=T0, container_at=T0).cause is Cause.OUT_OF_MEMORY


def test_how_cards_met_is_kept_when_its_line_has_scrolled_out() -> None:
    met = "pod:1:1 [0] NCCL INFO comm 0x1 rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0"
    logged = looked(log(met), log(LOAD, at=T0 + 60 * S))
    assert logged.topology == Topology(ranks=2, nodes=1)
    assert failed(logged, problem="x", at=T0, container_at=T0).topology == logged.topology


def next_look(logged: Logged | None, phase: Phase = Phase.REQUESTED, **changes: Any) -> datetime | None:
    asked: dict[str, Any] = {"cards": 1, "unready": False, "container_at": T0, "seen_at": T0, **changes}
    return due(logged, phase=phase, **asked)


def test_a_machine_that_starts_is_looked_at_every_minute_and_at_once_after_a_restart() -> None:
    logged = looked(log(LOAD, at=T0 + 60 * S))
    assert next_look(None) == T0 + 60 * S
    assert next_look(logged) == T0 + 120 * S
    assert next_look(logged, container_at=T0 + 70 * S) == T0 + 60 * S


def test_one_that_serves_is_looked_at_only_with_several_cards_or_where_it_does_not_answer() -> None:
    logged, stuck = looked(log(LOAD)), looked(log(LOAD, BLOCK))
    assert next_look(logged, Phase.ACTIVE) is None
    assert next_look(logged, Phase.ACTIVE, cards=2) == T0 + 300 * S
    assert next_look(logged, Phase.ACTIVE, unready=True) == T0 + 60 * S
    assert next_look(stuck, Phase.ACTIVE, cards=2) == T0 + 60 * S


@pytest.mark.parametrize(
    ("phase", "unready", "after_s"),
    [(Phase.REQUESTED, False, 60), (Phase.ACTIVE, True, 60), (Phase.ACTIVE, False, 300)],
)
def test_a_log_that_cannot_be_read_is_asked_for_slowly_unless_its_machine_starts_or_is_in_doubt(
    phase: Phase, unready: bool, after_s: float
) -> None:
    missed = failed(looked(log(LOAD, BLOCK)), problem="HTTP 404", at=T0, container_at=T0)
    assert next_look(missed, phase, cards=2, unready=unready) == T0 + after_s * S
