"""When is it enough that a server still serves, and what is then known of it?"""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controller.core.deployment import ProviderState, SeenResource
from controller.core.identity import ResourceKey, Tags
from controller.core.readiness import Verdict
from controller.core.runtime import Scrape
from controller.core.view import Probed
from controller.upstreams.probe import Probe
from controller.upstreams.proof import probed, proof_holds

T0 = datetime(2026, 11, 29, 12, tzinfo=UTC)
BOOTED = datetime(2026, 11, 29, 11, tzinfo=UTC)
COUNTS = Scrape(running=0.0, process_started_at=BOOTED)
LATER = timedelta(minutes=1)


def probe(at: datetime = T0, **changes: Any) -> Probe:
    told: dict[str, Any] = {"verdict": Verdict.READY, "served": ("m",), "version": "0.11.0", "scrape": COUNTS}
    return Probe(detail="serves", observed_at=at, **(told | changes))


def short(at: datetime = T0 + LATER, **changes: Any) -> Probe:
    return probe(at, **({"served": None, "version": None, "whole": False} | changes))


def seen(container_at: datetime | None = BOOTED) -> SeenResource:
    key = ResourceKey(provider="runpod", account="main", name="n", incarnation="i")
    return SeenResource(
        key=key, tags=Tags(), namespaced=True, state=ProviderState.RUNNING, word="RUNNING", started_at=container_at
    )


WHOLE = probed(None, probe())


@pytest.mark.parametrize(
    ("former", "container_at", "holds"),
    [
        (WHOLE, BOOTED, True),
        (WHOLE, None, True),
        (WHOLE, T0 + timedelta(seconds=1), False),
        (None, BOOTED, False),
        (probed(None, probe(scrape=None)), BOOTED, False),
        (probed(WHOLE, short(verdict=Verdict.NOT_READY)), BOOTED, False),
        (probed(WHOLE, short(verdict=Verdict.UNREACHABLE, answered=False, scrape=None)), BOOTED, False),
    ],
    ids=["same", "unknown", "new container", "never probed", "tells nothing", "not ready", "silent"],
)
def test_only_what_served_and_counted_in_this_container_need_not_show_all(
    former: Probed | None, container_at: datetime | None, holds: bool
) -> None:
    assert proof_holds(former, seen(container_at), now=T0 + LATER) is holds


def test_a_short_probe_keeps_what_the_whole_one_told_and_does_not_renew_it() -> None:
    known = probed(WHOLE, short())
    assert (known.served, known.version, known.proven_at, known.at) == (("m",), "0.11.0", T0, T0 + LATER)


def test_another_process_has_to_show_all_of_it_at_the_next_look() -> None:
    known = probed(WHOLE, short(scrape=Scrape(running=0.0, process_started_at=T0)))
    assert (known.verdict, known.proven_at) == (Verdict.READY, None)
    assert not proof_holds(known, seen(), now=T0 + LATER)


def test_ten_minutes_after_the_whole_proof_it_is_asked_for_again() -> None:
    known = WHOLE
    for minute in range(1, 10):
        assert proof_holds(known, seen(), now=T0 + minute * LATER)
        known = probed(known, short(T0 + minute * LATER))
    assert not proof_holds(known, seen(), now=T0 + 10 * LATER)
