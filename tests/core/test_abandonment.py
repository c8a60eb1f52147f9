"""Is a start given up only when nobody has waited for it for so long, and nobody is expected?"""

from datetime import UTC, datetime, timedelta

import pytest

from controller.core.abandonment import Abandon, KeepAwaited, KeepUntil, Waiting, decide

STARTED = datetime(2026, 11, 30, tzinfo=UTC)
AFTER = timedelta(minutes=10)
M = timedelta(minutes=1)


@pytest.mark.parametrize(
    ("known", "due_at"),
    [
        ({}, STARTED + AFTER),
        ({"awaited_at": STARTED + 3 * M}, STARTED + 3 * M + AFTER),
        ({"awaited_at": STARTED - 3 * M}, STARTED + AFTER),
        ({"expected_until": STARTED + 7 * M, "awaited_at": STARTED + M}, STARTED + 7 * M + AFTER),
        ({"not_before": STARTED + 20 * M, "expected_until": STARTED + 7 * M}, STARTED + 20 * M + AFTER),
    ],
)
def test_it_is_given_up_so_long_after_the_last_that_is_known_of_anybody(
    known: dict[str, datetime], due_at: datetime
) -> None:
    waiting = Waiting(started_at=STARTED, awaited=False, **known)
    assert decide(waiting, abandon_after=AFTER, now=due_at - timedelta(milliseconds=1)) == KeepUntil(until=due_at)
    assert decide(waiting, abandon_after=AFTER, now=due_at) == Abandon(since=due_at)


def test_while_somebody_waits_it_is_kept_however_long() -> None:
    waiting = Waiting(started_at=STARTED, awaited=True, awaited_at=STARTED)
    assert decide(waiting, abandon_after=AFTER, now=STARTED + timedelta(days=1)) == KeepAwaited()
