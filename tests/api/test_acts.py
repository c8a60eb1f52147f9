"""What an operator's act writes, and when it is refused."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from controller.api.client import Problem
from controller.core.book import AccountTrust
from controller.core.deployment import CreateAnswer, ProviderState
from controller.core.identity import Tags
from controller.core.inventory import NotFound, Present
from controller.core.lifecycle import Phase
from controller.store import deployments
from controller.store.errors import Stale
from tests.api.world import World
from tests.core.samples import key, resource


async def refusal_of(house: World, path: str, body: dict[str, Any] | None = None) -> tuple[int, str]:
    with pytest.raises(Problem) as caught:
        await house.operator.post(path, body)
    return caught.value.status, caught.value.code


async def test_a_start_answers_as_the_gateways_do(house: World) -> None:
    answer = await house.operator.post("/v1/models/qwen/start")
    assert answer["model"]["alias"] == "qwen"
    assert house.panel.wants.wanted("qwen", now=house.clock.now())


async def test_a_stop_owes_and_drains_for_as_long_as_the_model_allows(house: World) -> None:
    await house.serve()
    answer = await house.operator.post("/v1/models/qwen/stop")
    record = house.record()
    assert (record.phase, record.drain_until) == (Phase.STOP_REQUIRED, house.clock.now() + timedelta(minutes=10))
    assert answer["obligations"] == [duty.id for duty in house.store.book.owed()]
    assert house.rung


async def test_a_stop_now_does_not_drain_and_shortens_a_drain_that_runs(house: World) -> None:
    await house.serve()
    await house.operator.post("/v1/models/qwen/stop")
    answer = await house.operator.post("/v1/deployments/qwen-1/stop", {"now": True})
    assert house.record().drain_until is None
    assert len(answer["obligations"]) == 1


async def test_a_second_stop_puts_nothing_off(house: World) -> None:
    await house.serve()
    await house.operator.post("/v1/stop", {"now": True})
    await house.operator.post("/v1/stop")
    assert house.record().drain_until is None


async def test_a_stop_forgets_that_the_model_was_wanted(house: World) -> None:
    await house.operator.post("/v1/models/qwen/start")
    assert (await house.operator.post("/v1/models/qwen/stop"))["obligations"] == []
    assert not house.panel.wants.all(now=house.clock.now())


async def test_what_was_never_sent_is_cancelled_and_its_obligation_is_over(house: World) -> None:
    await house.declare()
    answer = await house.operator.post("/v1/models/qwen/stop")
    assert house.record().phase is Phase.CANCELLED
    assert len(answer["obligations"]) == 1
    assert not house.store.book.owed()


async def test_what_a_create_in_flight_makes_is_owed_a_stop_when_its_answer_comes(house: World) -> None:
    planned = await house.submit()
    await house.operator.post("/v1/models/qwen/stop")
    assert house.record().phase is Phase.DECLARED
    await house.store.write(lambda tx: deployments.record_accepted(tx, planned.create, house.made(planned)))
    assert house.record().phase is Phase.STOP_REQUIRED
    assert [duty.key for duty in house.store.book.owed()] == [key("p1")]


async def test_a_lost_create_that_was_to_be_stopped_is_stopped_once_it_is_found(house: World) -> None:
    planned = await house.submit()
    await house.operator.post("/v1/models/qwen/stop")
    await house.store.write(lambda tx: deployments.record_unknown(tx, planned.create, detail="timed out"))
    record = house.record()
    await house.store.write(lambda tx: deployments.adopt(tx, record, house.made(planned), wanted=True))
    assert house.record().phase is Phase.STOP_REQUIRED
    assert [duty.key for duty in house.store.book.owed()] == [key("p1")]


async def test_no_further_offer_is_asked_for_after_a_stop(house: World) -> None:
    planned = await house.submit()
    await house.operator.post("/v1/models/qwen/stop")
    await house.store.write(
        lambda tx: deployments.record_refused(tx, planned.create, CreateAnswer.REJECTED, detail="none left")
    )
    with pytest.raises(Stale):
        await house.store.write(lambda tx: deployments.plan(tx, house.record(), offer="A40"))


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/v1/models/llama/stop", "unknown_model"),
        ("/v1/models/llama/start", "unknown_model"),
        ("/v1/models/llama/unblock", "unknown_model"),
        ("/v1/deployments/qwen-9/stop", "not_found"),
        ("/v1/installations/i9/claim", "provider_unavailable"),
        ("/v1/nothing", "not_found"),
    ],
)
async def test_what_is_not_there_is_told_by_code(house: World, path: str, code: str) -> None:
    assert (await refusal_of(house, path))[1] == code


async def test_a_body_that_is_no_json_and_a_wrong_flag_are_refused(house: World) -> None:
    assert await refusal_of(house, "/v1/stop", {"now": "yes"}) == (400, "bad_request")


async def test_all_stops_what_no_deployment_holds_too(house: World) -> None:
    await house.serve()
    await house.request("other-1", model="other", incarnation="p2")
    answer = await house.operator.post("/v1/stop")
    assert len(answer["obligations"]) == 2
    assert {record.phase for record in house.store.book.live()} == {Phase.STOP_REQUIRED}


# Confirming


async def owed(house: World) -> str:
    await house.serve()
    await house.operator.post("/v1/stop", {"now": True})
    return str(house.store.book.owed()[0].id)


async def test_a_confirmation_ends_the_obligation_with_its_reference(house: World) -> None:
    obligation = await owed(house)
    await house.operator.post(f"/v1/obligations/{obligation}/confirm", {"reference": "ticket 7"})
    record = house.record()
    assert record.phase is Phase.STOPPED
    assert record.evidence is not None
    assert (record.evidence.kind.value, record.evidence.reference) == ("external-confirmation", "ticket 7")


async def test_a_confirmation_of_what_is_seen_alive_is_refused_and_can_be_forced(house: World) -> None:
    obligation = await owed(house)
    house.show(resource())
    path = f"/v1/obligations/{obligation}/confirm"
    assert await refusal_of(house, path, {"reference": "ticket 7"}) == (409, "refused")
    await house.operator.post(path, {"reference": "ticket 7", "force": True})
    evidence = house.record().evidence
    assert evidence is not None
    assert evidence.reference == "ticket 7 (forced against a sighting)"


@pytest.mark.parametrize("last", ["terminated", "absent", "gone"])
async def test_an_older_sighting_refuses_nothing(house: World, last: str) -> None:
    obligation = await owed(house)
    house.show(resource())
    house.clock.advance(timedelta(seconds=15))
    now, view = house.clock.now(), house.panel.view.value
    if last == "absent":
        house.show()
    elif last == "terminated":
        ended = Present(resource=resource(state=ProviderState.TERMINATED), observed_at=now)
        house.panel.view.publish(replace(view, reads={key(): ended}, sighted={key(): now}))
    else:
        house.panel.view.publish(replace(view, reads={key(): NotFound(reference="404", began_at=now)}))
    await house.operator.post(f"/v1/obligations/{obligation}/confirm", {"reference": "ticket 7"})
    assert house.record().phase is Phase.STOPPED


async def test_a_partial_listing_does_not_hide_an_earlier_sighting(house: World) -> None:
    obligation = await owed(house)
    house.panel.view.publish(replace(house.panel.view.value, sighted={key(): house.clock.now()}))
    house.clock.advance(timedelta(seconds=15))
    house.show(complete=False)
    refused = await refusal_of(house, f"/v1/obligations/{obligation}/confirm", {"reference": "ticket 7"})
    assert refused == (409, "refused")


async def test_a_confirmation_needs_a_reference_and_something_open(house: World) -> None:
    obligation = await owed(house)
    path = f"/v1/obligations/{obligation}/confirm"
    assert await refusal_of(house, path, {"reference": ""}) == (400, "bad_request")
    await house.operator.post(path, {"reference": "ticket 7"})
    assert await refusal_of(house, path, {"reference": "ticket 7"}) == (409, "refused")
    assert await refusal_of(house, "/v1/obligations/o9/confirm", {"reference": "x"}) == (404, "not_found")


async def test_a_create_in_flight_cannot_be_confirmed_away(house: World) -> None:
    await house.submit()
    obligation = next(iter(house.store.book.obligations))
    path = f"/v1/obligations/{obligation}/confirm"
    assert await refusal_of(house, path, {"reference": "ticket 7"}) == (409, "refused")
    assert house.record().phase is Phase.DECLARED


# Claims and holds


async def test_a_claimed_installations_resource_is_adopted(house: World) -> None:
    theirs = resource(key=key("p7"), tags=Tags(owner="acme", installation="i7", epoch=4), alias="qwen")
    house.show(theirs)
    answer = await house.operator.post("/v1/installations/i7/claim")
    record = house.store.book.occupant("qwen", 0)
    assert record is not None
    assert (record.key, record.phase, record.epoch > 4) == (key("p7"), Phase.REQUESTED, True)
    assert len(answer["claimed"]) == 1
    assert house.store.book.leases[record.id].holder == "c-1"


async def test_an_installation_that_left_nothing_is_not_claimed(house: World) -> None:
    house.show()
    assert await refusal_of(house, "/v1/installations/i7/claim") == (404, "not_found")


async def test_an_account_is_trusted_again_by_command_and_on_record(house: World) -> None:
    await house.store.write(lambda tx: tx.put_account(AccountTrust(trusted=False, why="key changed")))
    await house.operator.post("/v1/account/claim")
    assert house.store.book.account.trusted
    assert (await house.events())["account.confirmed"] == 1
    await house.operator.post("/v1/account/claim")
    assert (await house.events())["account.confirmed"] == 1


@pytest.mark.parametrize("path", ["/v1/models/qwen/unblock", "/v1/unblock"])
async def test_an_unblocked_model_is_off_and_not_blocked(house: World, path: str) -> None:
    def hold(tx: Any) -> None:
        tx.put_memory(replace(tx.book.memory("qwen"), hold_reason="key-refused", hold_fingerprint="f1", failures=2))

    await house.store.write(hold)
    assert (await house.view())["phase"] == "blocked"
    assert (await house.operator.post(path))["unblocked"] == ["qwen"]
    assert (await house.view())["phase"] == "off"
