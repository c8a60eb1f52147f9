"""How is a create kept out of a data centre in which a model's starts failed?"""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from controller.core.bad_places import BadPlace
from controller.providers.runpod.catalog import places_in
from controller.providers.runpod.order import NetworkVolume, RunpodModel, kept_out
from controller.providers.writing import CreateAccepted
from tests.core.samples import T0
from tests.providers.emulated import LAUNCHED, World, in_world
from tests.support.runpod_samples import GPU, MODEL, raw

PLACE = "US-KS-2"
BAD = BadPlace(card=GPU, place=PLACE, failures=2, until=T0 + timedelta(days=1))
SHOWN = {GPU: ("US-TX-3", PLACE, "EU-NL-1"), "NVIDIA A40": (PLACE,)}
VOLUME = NetworkVolume(id="vol1", data_center=PLACE)


def places(model: RunpodModel = MODEL, *, offer: str = GPU, avoid: BadPlace = BAD, shown: Any = SHOWN) -> Any:
    return kept_out(model, offer, avoid=[avoid], shown=shown).machine(offer).data_center_ids


def test_a_create_names_every_place_that_the_catalog_shows_but_the_bad_one() -> None:
    assert places() == ("US-TX-3", "EU-NL-1")


def test_of_the_places_that_the_operator_listed_the_others_are_named_and_none_besides() -> None:
    assert places(replace(MODEL, data_center_ids=("EU-RO-1", PLACE))) == ("EU-RO-1",)


def last_body(world: World) -> Any:
    return json.loads(world.emulator.truth()["calls"][-1]["body"])


@pytest.mark.parametrize("shown", [{}, {GPU: ()}, {GPU: (PLACE,)}])
def test_where_no_other_place_is_known_the_order_stays_as_it_was(shown: dict[str, tuple[str, ...]]) -> None:
    assert places(shown=shown) == ()


def test_where_the_operator_listed_only_the_bad_place_it_is_asked_for() -> None:
    assert places(replace(MODEL, data_center_ids=(PLACE,))) == (PLACE,)


def test_a_machine_beside_a_volume_is_asked_for_where_the_volume_is() -> None:
    model = replace(MODEL, volumes=(VOLUME,))
    assert places(model, offer=f"{GPU} @ {PLACE}") == (PLACE,)
    for bad in (BAD, replace(BAD, place="US-TX-3")):
        assert kept_out(model, f"{GPU} @ {PLACE}", avoid=[bad], shown=SHOWN) is model


def test_what_failed_on_another_type_of_card_keeps_this_one_out_of_nowhere() -> None:
    assert places(avoid=replace(BAD, card="NVIDIA A40")) == ()


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'{"gpus": 7}', raw({"gpus": [{"id": GPU}]}), raw({"gpus": [{"id": GPU, "dataCenters": 7}]})]
)
def test_a_catalog_that_shows_no_places_names_none(body: bytes) -> None:
    assert places_in(body, [GPU]) == {}


def test_what_was_asked_of_the_catalog_keeps_the_create_that_is_sent_out_of_the_bad_place() -> None:
    async def look(world: World) -> Any:
        await world.reading.read_stock("qwen")
        outcome = await world.writing.create(replace(LAUNCHED, avoid=(BAD,)))
        assert isinstance(outcome, CreateAccepted), outcome
        sent = last_body(world)
        return sent["dataCenterIds"], outcome.resource.place, outcome.mismatch

    asked, place, mismatch = in_world(look)
    assert PLACE not in asked
    assert place in asked
    assert mismatch is None


def test_before_anything_was_asked_of_the_catalog_the_create_is_sent_as_ever() -> None:
    async def look(world: World) -> Any:
        await world.writing.create(replace(LAUNCHED, avoid=(BAD,)))
        return last_body(world)

    assert "dataCenterIds" not in in_world(look)


def test_what_comes_to_stand_in_the_bad_place_all_the_same_is_not_held_against_the_provider() -> None:
    async def look(world: World) -> Any:
        await world.reading.read_stock("qwen")
        outcome = await world.writing.create(replace(LAUNCHED, avoid=(BAD,)))
        assert isinstance(outcome, CreateAccepted), outcome
        return outcome.resource.place, outcome.mismatch

    assert in_world(look, made_otherwise={"dataCenterIds": [PLACE]}) == (PLACE, None)
