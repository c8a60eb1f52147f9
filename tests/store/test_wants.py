"""Is a model wanted for as long as somebody asked lately?"""

from controller.store.wants import Wants
from tests.core.samples import MS, T0, S


def asked() -> Wants:
    wants = Wants()
    wants.ask("qwen", now=T0)
    return wants


def test_a_wish_lasts_a_minute_and_not_a_millisecond_longer() -> None:
    assert asked().wanted("qwen", now=T0 + 60 * S)
    assert not asked().wanted("qwen", now=T0 + 60 * S + MS)


def test_asking_again_renews_it() -> None:
    wants = asked()
    wants.ask("qwen", now=T0 + 50 * S)
    assert wants.wanted("qwen", now=T0 + 110 * S)


def test_nobody_asked_for_another_model() -> None:
    assert not asked().wanted("other", now=T0)
    assert (asked().all(now=T0), Wants().all(now=T0)) == (frozenset({"qwen"}), frozenset[str]())


def test_a_satisfied_wish_is_forgotten_and_a_younger_one_is_not() -> None:
    wants = asked()
    wants.satisfied("qwen", before=T0 - MS)
    assert wants.wanted("qwen", now=T0)
    wants.satisfied("qwen", before=T0)
    assert not wants.wanted("qwen", now=T0)
    wants.satisfied("never asked")
