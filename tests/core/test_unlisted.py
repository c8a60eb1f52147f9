"""Which types of card that a model names does the provider not have at all?"""

import pytest

from controller.core.unlisted import Unlisted, in_words

BEGINS = "models.qwen.gpus: the provider's catalog has no "


@pytest.mark.parametrize(
    ("nearest", "words"),
    [
        ((), '"L40Z", nor anything that is called like it'),
        (("L40",), '"L40Z" (did you mean "L40"?)'),
        (("L40S", "L40"), '"L40Z" (did you mean "L40S" or "L40"?)'),
    ],
)
def test_it_is_told_by_key_and_name_with_what_may_be_meant(nearest: tuple[str, ...], words: str) -> None:
    assert in_words("qwen", [Unlisted(named="L40Z", offers=frozenset(), nearest=nearest)]) == BEGINS + words


def test_each_of_several_is_told() -> None:
    found = (
        Unlisted(named="A", offers=frozenset(), nearest=("B",)),
        Unlisted(named="C", offers=frozenset(), nearest=()),
    )
    assert in_words("qwen", found) == f'{BEGINS}"A" (did you mean "B"?); no "C", nor anything that is called like it'
