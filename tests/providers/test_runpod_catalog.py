"""Which price a GPU type has, and when it has none; and of which offers none is left."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from controller.providers.runpod.catalog import clouds_wanted, none_left_in, prices_in
from controller.providers.runpod.document import Unreadable
from controller.providers.runpod.order import Cloud, NetworkVolume
from tests.support.runpod_samples import GPU, MODEL, raw

COMMUNITY = replace(MODEL, cloud=Cloud.COMMUNITY)


def price(of: Any, *, models: list[Any]) -> Decimal | None:
    found = prices_in(raw({"gpus": [None, {"id": 7}, {"id": GPU, "price": of}]}), wanted=clouds_wanted(models))
    assert not isinstance(found, Unreadable)
    return found.get(GPU)


@pytest.mark.parametrize(
    ("models", "expected"),
    [([MODEL], "0.86"), ([COMMUNITY], "0.69"), ([MODEL, COMMUNITY], "0.86"), ([], "0.86")],
)
def test_a_type_costs_what_it_costs_in_the_cloud_that_models_want(models: list[Any], expected: str) -> None:
    assert price({"secure": 0.86, "community": 0.69}, models=models) == Decimal(expected)


@pytest.mark.parametrize("of", [None, {}, [], {"secure": None}, {"secure": 0}, {"secure": "0.86"}, {"community": 0.69}])
def test_a_price_that_is_missing_or_odd_is_unknown(of: Any) -> None:
    assert price(of, models=[MODEL]) is None


def test_a_price_known_in_one_of_two_wanted_clouds_is_unknown() -> None:
    assert price({"community": 0.69}, models=[MODEL, COMMUNITY]) is None


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"gpus": null}'])
def test_a_catalog_that_makes_no_sense_is_unreadable_and_not_empty(body: bytes) -> None:
    assert isinstance(prices_in(body, wanted={}), Unreadable)


BESIDE = replace(MODEL, gpus=(GPU,), volumes=(NetworkVolume(id="v1", data_center="EU-RO-1"),))
AT = f"{GPU} @ EU-RO-1"


@pytest.mark.parametrize(
    ("entry", "gone"),
    [
        ({"availability": "NONE", "dataCenters": [{"id": "EU-RO-1", "availability": "NONE"}]}, {AT, GPU}),
        ({"availability": "LOW", "dataCenters": [{"id": "EU-RO-1", "availability": "NONE"}]}, {AT}),
        ({"availability": "NONE", "dataCenters": [{"id": "EU-RO-1", "availability": "LOW"}]}, {GPU}),
        ({"availability": "LOW", "dataCenters": [{"id": "US-TX-3", "availability": "HIGH"}]}, {AT}),
        ({"availability": "HIGH", "dataCenters": [{"id": "EU-RO-1", "availability": "HIGH"}]}, set()),
        ({"availability": "none", "dataCenters": [{"id": "EU-RO-1"}]}, set()),
        ({"dataCenters": None}, set()),
        (
            {"availability": ["NONE"], "dataCenters": [{"id": []}, {"id": "EU-RO-1", "availability": {}}]},
            set(),
        ),
    ],
)
def test_none_is_left_only_where_the_catalog_says_so(entry: dict[str, Any], gone: set[str]) -> None:
    body = raw({"gpus": [None, {"id": 7}, {"id": GPU} | entry]})
    assert none_left_in(body, BESIDE.machines()) == frozenset(gone)


def test_a_type_that_the_catalog_does_not_show_is_not_said_to_be_gone() -> None:
    assert none_left_in(raw({"gpus": []}), BESIDE.machines()) == frozenset()


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"gpus": null}'])
def test_stock_in_a_catalog_that_makes_no_sense_is_unreadable(body: bytes) -> None:
    assert isinstance(none_left_in(body, BESIDE.machines()), Unreadable)
