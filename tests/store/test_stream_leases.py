"""Does a gateway's statement count until its time is over, and for the deployment it names?"""

from datetime import timedelta

from controller.core.identity import DeploymentId
from controller.store.stream_leases import StreamLease, StreamLeases
from tests.core.samples import MS, T0, S

ONE, TWO = DeploymentId("d1"), DeploymentId("d2")
LIFE = timedelta(seconds=30)


def stated(deployment: DeploymentId = ONE, *, open_requests: int = 1, byte_after: int = 0) -> StreamLease:
    return StreamLease(deployment=deployment, epoch=1, open_requests=open_requests, last_byte_at=T0 + byte_after * S)


def after(*statements: tuple[str, list[StreamLease]]) -> StreamLeases:
    leases = StreamLeases(lifetime=LIFE)
    for gateway, held in statements:
        leases.put(gateway, held, now=T0)
    return leases


def test_a_statement_counts_to_the_end_of_its_lifetime_and_no_longer() -> None:
    leases = after(("g1", [stated()]))
    assert (leases.live(ONE, now=T0 + LIFE), leases.live(ONE, now=T0 + LIFE + MS)) == (1, 0)
    assert leases.lapses_at(ONE, now=T0) == T0 + LIFE
    assert leases.lapses_at(ONE, now=T0 + LIFE + MS) is None


def test_a_gateway_s_next_statement_replaces_its_former_one_whole() -> None:
    leases = after(("g1", [stated(ONE), stated(TWO)]), ("g1", [stated(TWO, open_requests=3)]))
    assert (leases.live(ONE, now=T0), leases.open_requests(TWO, now=T0)) == (0, 3)


def test_another_gateway_s_statement_stands_beside_it() -> None:
    leases = after(("g1", [stated(open_requests=1)]), ("g2", [stated(open_requests=2)]))
    assert (leases.live(ONE, now=T0), leases.open_requests(ONE, now=T0)) == (2, 3)


def test_a_lease_without_open_requests_still_lives_until_it_is_renewed_without_it() -> None:
    leases = after(("g1", [stated(open_requests=0)]))
    assert (leases.live(ONE, now=T0), leases.open_requests(ONE, now=T0)) == (1, 0)
    leases.put("g1", [], now=T0)
    assert leases.live(ONE, now=T0) == 0


def test_others_stream_only_with_open_requests_of_another_gateway_that_still_speaks() -> None:
    assert after(("g2", [stated()])).others_streaming("g1", ONE, now=T0)
    assert not after(("g1", [stated()])).others_streaming("g1", ONE, now=T0)
    assert not after(("g2", [stated(open_requests=0)])).others_streaming("g1", ONE, now=T0)
    assert not after(("g2", [stated()])).others_streaming("g1", ONE, now=T0 + LIFE + MS)
    assert not after(("g2", [stated(TWO)])).others_streaming("g1", ONE, now=T0)


def test_the_last_byte_is_the_latest_that_any_gateway_told_even_after_its_lease() -> None:
    leases = after(("g1", [stated(byte_after=5)]), ("g2", [stated(byte_after=3)]))
    assert leases.last_byte_at(ONE) == T0 + 5 * S
    assert leases.last_byte_at(TWO) is None


def test_what_one_gateway_stated_can_be_read_back_while_it_counts() -> None:
    leases = after(("g1", [stated()]), ("g2", [stated(TWO)]))
    assert leases.of("g1", now=T0 + LIFE) == {ONE: stated()}
    assert leases.of("g1", now=T0 + LIFE + MS) == {}


def test_what_a_gateway_that_is_gone_said_is_dropped_after_an_hour() -> None:
    leases = after(("gone", [stated()]))
    hour = T0 + LIFE + timedelta(hours=1)
    leases.put("g2", [], now=hour)
    assert leases.last_byte_at(ONE) == T0
    leases.put("g2", [], now=hour + MS)
    assert leases.last_byte_at(ONE) is None
