"""Which price a GPU type has, and when it has none; of which offers none is left, and which types there are at all."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from controller.core.unlisted import Unlisted
from controller.providers.runpod.catalog import clouds_wanted, none_left_in, prices_in, types_in, unlisted_in
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


def test_a_type_without_a_price_is_in_the_catalog_and_what_is_odd_is_not() -> None:
    entries: list[Any] = [
        None,
        {"id": 7},
        {"id": "A"},
        {"id": "B" * 64},
        {"id": "C" * 65},
        {"id": "D\n"},
        {"price": {}},
    ]
    assert types_in(raw({"gpus": entries})) == {"A", "B" * 64}


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"gpus": null}', b'{"gpus": []}'])
def test_a_catalog_that_makes_no_sense_has_no_types(body: bytes) -> None:
    assert types_in(body) == frozenset()


TYPES = frozenset({"NVIDIA L40", "NVIDIA L40S", "NVIDIA A40", "NVIDIA A100-SXM4-80GB", "NVIDIA H100 NVL"})


@pytest.mark.parametrize(
    ("named", "nearest"),
    [
        ("nvidia l40s", ("NVIDIA L40S", "NVIDIA L40", "NVIDIA A40")),
        ("L40S", ("NVIDIA L40S",)),
        ("l40", ("NVIDIA L40", "NVIDIA L40S")),
        ("0", ("NVIDIA A40", "NVIDIA L40", "NVIDIA L40S")),
        ("Quite Another Card", ()),
    ],
)
def test_what_a_model_names_and_the_catalog_lacks_is_found_with_what_is_called_like_it(
    named: str, nearest: tuple[str, ...]
) -> None:
    model = replace(BESIDE, gpus=("NVIDIA A40", named))
    found = unlisted_in(TYPES, [model, replace(MODEL, alias="other", gpus=("NVIDIA L40",))])
    offers = frozenset({named, f"{named} @ EU-RO-1"})
    assert found == {MODEL.alias: (Unlisted(named=named, offers=offers, nearest=nearest),)}
