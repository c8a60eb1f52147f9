"""Are clients sent only to a server that our own probe found fit?"""

from datetime import UTC, datetime, timedelta

import pytest

from controller.core.evidence import StopReason
from controller.core.readiness import WATCHED, Assessment, Verdict, assess, cold_start, proof_stands

NAME = "Qwen/Qwen3-8B"

TABLE = {
    Verdict.READY: Assessment(ready=True),
    Verdict.NOT_READY: Assessment(ready=False),
    Verdict.REFUSED: Assessment(ready=False, stop=StopReason.KEY_REFUSED),
    Verdict.UNPROTECTED: Assessment(ready=False, stop=StopReason.UNPROTECTED),
    Verdict.SECRET_UNSUBSTITUTED: Assessment(ready=False, stop=StopReason.SECRET_UNSUBSTITUTED),
    Verdict.PROXY_REFUSED: Assessment(ready=None),
    Verdict.UNREACHABLE: Assessment(ready=None),
}


@pytest.mark.parametrize("verdict", Verdict)
def test_each_verdict_means_one_thing(verdict: Verdict) -> None:
    assert assess(verdict, None, expected=NAME) == TABLE[verdict]


@pytest.mark.parametrize(("served", "ready"), [(None, True), ((NAME,), True), ((NAME, "lora-a"), True)])
def test_an_unknown_name_and_a_list_with_ours_do_not_block(served: tuple[str, ...] | None, ready: bool) -> None:
    assert assess(Verdict.READY, served, expected=NAME) == Assessment(ready=ready)


@pytest.mark.parametrize("served", [(), ("other",), ("qwen/qwen3-8b",)])
def test_a_list_without_our_name_must_not_serve(served: tuple[str, ...]) -> None:
    expected = Assessment(ready=False, stop=StopReason.SERVED_MODEL_MISMATCH)
    assert assess(Verdict.READY, served, expected=NAME) == expected


@pytest.mark.parametrize("verdict", [Verdict.NOT_READY, Verdict.UNREACHABLE, Verdict.PROXY_REFUSED])
def test_names_of_a_server_that_is_not_ready_mean_nothing(verdict: Verdict) -> None:
    assert assess(verdict, ("other",), expected=NAME) == TABLE[verdict]


PROVEN_AT = datetime(2026, 11, 29, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("proven_s", "container_s", "now_s", "stands"),
    [
        (None, None, 0, False),
        (0, None, 0, True),
        (0, None, 599.999, True),
        (0, None, 600, False),
        (0, None, -1, False),
        (0, 0, 1, True),
        (0, 0.001, 1, False),
    ],
)
def test_a_proof_stands_for_ten_minutes_and_for_the_container_that_gave_it(
    proven_s: float | None, container_s: float | None, now_s: float, stands: bool
) -> None:
    proven, container = (None if s is None else PROVEN_AT + timedelta(seconds=s) for s in (proven_s, container_s))
    assert proof_stands(proven, container_at=container, now=PROVEN_AT + timedelta(seconds=now_s)) is stands


@pytest.mark.parametrize(("unseen", "took"), [(WATCHED, 600), (WATCHED + timedelta(milliseconds=1), None)])
def test_a_cold_start_is_measured_only_where_somebody_watched_it_become_ready(
    unseen: timedelta, took: int | None
) -> None:
    ready_at = PROVEN_AT + timedelta(seconds=600)
    measured = cold_start(started_at=PROVEN_AT, awaited_at=ready_at - unseen, ready_at=ready_at)
    assert measured == (None if took is None else timedelta(seconds=took))


@pytest.mark.parametrize("awaited_at", [None, PROVEN_AT - timedelta(seconds=1)])
def test_a_cold_start_that_nobody_saw_awaited_was_watched_from_its_begin_at_most(awaited_at: datetime | None) -> None:
    for span, took in ((WATCHED, WATCHED), (WATCHED + timedelta(milliseconds=1), None)):
        assert cold_start(started_at=PROVEN_AT, awaited_at=awaited_at, ready_at=PROVEN_AT + span) == took
