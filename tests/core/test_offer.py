"""What is one offer called?"""

from controller.core.offer import offer_of


def test_an_offer_is_called_by_its_card_and_by_the_place_that_matters() -> None:
    assert offer_of("NVIDIA L40S") == "NVIDIA L40S"
    assert offer_of("NVIDIA L40S", "EU-RO-1") == "NVIDIA L40S @ EU-RO-1"
