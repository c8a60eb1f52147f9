"""What do the volumes that models name bill, whether or not anything runs?"""

from decimal import Decimal

import pytest

from controller.core.storage import Storage, Stored, fast_usd_per_month, in_words, standard_usd_per_month


def stored(name: str = "v1", usd: str | None = "7.20", found: bool | None = True) -> Stored:
    amount = None if usd is None else Decimal(usd)
    return Stored(id=name, place="EU-RO-1", models=("qwen",), found=found, usd_per_month=amount)


@pytest.mark.parametrize(("size_gb", "usd"), [(10, "0.70"), (1000, "70"), (1001, "70.05"), (4000, "220")])
def test_a_volume_of_the_standard_kind_is_cheaper_beyond_a_terabyte(size_gb: int, usd: str) -> None:
    assert standard_usd_per_month(size_gb) == Decimal(usd)


def test_one_of_the_fast_kind_is_not() -> None:
    assert fast_usd_per_month(4000) == Decimal(560)


def test_a_sum_is_unknown_where_one_of_it_is_and_never_zero_for_that() -> None:
    assert Storage(volumes=(stored(), stored("v2", "0.80"))).usd_per_month == 8
    unknown = Storage(volumes=(stored(), stored("v2", None)))
    assert (unknown.usd_per_month, unknown.usd_per_hour) == (None, None)
    assert Storage(volumes=()).usd_per_month == 0


def test_an_hour_is_a_part_of_a_month_of_thirty_days() -> None:
    assert Storage(volumes=(stored(usd="7.20"),)).usd_per_hour == Decimal("0.01")
    assert stored(usd="7.20").usd_per_hour == Decimal("0.01")
    assert stored(usd=None).usd_per_hour is None


def test_those_of_a_model_are_those_that_it_names() -> None:
    assert Storage(volumes=(stored(),)).of("qwen") == (stored(),)
    assert Storage(volumes=(stored(),)).of("other") == ()


@pytest.mark.parametrize(
    ("volumes", "words"),
    [
        ((stored(),), "its volume bills about $7.20 a month ($0.0100 an hour) day and night, beside usd_per_day"),
        ((stored(), stored("v2")), "its 2 volumes bill about $14.40 a month ($0.0200 an hour)"),
        ((stored(usd=None),), "its volume bills day and night, and how much is not known"),
        ((stored(), stored("v2", None, False)), "the account has no volume v2"),
    ],
)
def test_it_is_told_with_what_is_known(volumes: tuple[Stored, ...], words: str) -> None:
    assert in_words(volumes).startswith(words)
