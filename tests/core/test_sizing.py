"""How much does a request keep on the cards, in numbers worked out by hand, and is there room for it?"""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.architecture import Architecture, Attention, Recurrent, read_architecture
from controller.core.sizing import Room, cache_bytes, room, split_faults
from tests.core import model_samples as samples

TWO, ONE = Fraction(2), Fraction(1)


def kept(sample: samples.Json, context: int, element: Fraction = TWO, *, cards: int = 1, step_tokens: int = 0) -> int:
    return cache_bytes(
        read_architecture(sample), context=context, element=element, cards=cards, step_tokens=step_tokens
    )


def test_grouped_heads_keep_key_and_value_of_each_group_in_every_layer() -> None:
    # 28 layers × 4 heads × (128 + 128) × 2 bytes = 57,344 a token.
    assert kept(samples.QWEN25_7B, 1) == 57_344
    assert kept(samples.QWEN25_7B, 32_768) == 1_879_048_192
    # 36 × 8 × 256 × 2 = 147,456 a token.
    assert kept(samples.QWEN3_8B, 32_768) == 4_831_838_208


def test_it_is_what_a_real_server_reports() -> None:
    # vLLM 0.32 with 1 GiB for the cache of this model at four bytes said: 2,097,152 tokens.
    tiny = {"model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 64}
    assert 2**30 // kept(tiny | {"num_key_value_heads": 1, "head_dim": 32}, 1, Fraction(4)) == 2_097_152


def test_a_cache_of_one_byte_is_half_of_one_of_two() -> None:
    assert kept(samples.QWEN25_7B, 32_768, ONE) == 939_524_096


def test_a_cache_of_blocks_with_a_scale_keeps_a_fraction_of_a_byte_more() -> None:
    # 34 bytes for 32 numbers: 28 × 4 × 256 × 34 / 32 = 30,464 a token.
    assert kept(samples.QWEN25_7B, 1, Fraction(34, 32)) == 30_464


def test_layers_with_a_window_keep_no_more_than_the_window() -> None:
    # A layer: 16 × 256 × 2 = 8,192 a token. Of 62 layers every sixth is full, which makes 10; 52 keep 1,024 tokens.
    assert kept(samples.GEMMA3_27B, 131_072) == 10 * 131_072 * 8_192 + 52 * 1_024 * 8_192 == 11_173_625_856
    assert kept(samples.GEMMA3_27B, 1_024) == 62 * 1_024 * 8_192 == 520_093_696
    assert kept(samples.GEMMA3_27B, 1_025) == 520_093_696 + 10 * 8_192


def test_four_long_requests_of_a_mixed_model_take_tens_of_gib() -> None:
    assert 41 * 2**30 < 4 * kept(samples.GEMMA3_27B, 131_072) < 42 * 2**30


def test_while_a_prompt_is_read_a_layer_with_a_window_keeps_a_step_beside_it() -> None:
    assert kept(samples.GEMMA3_27B, 131_072, step_tokens=2_048) == 11_173_625_856 + 52 * 2_048 * 8_192
    assert kept(samples.GEMMA3_27B, 2_000, step_tokens=2_048) == 62 * 2_000 * 8_192
    at_rest = cache_bytes(read_architecture(samples.GEMMA3_27B), context=131_072, element=TWO)
    assert at_rest == 11_173_625_856


def test_a_listed_window_in_every_other_layer_is_counted_so() -> None:
    # A layer: 8 × 128 × 2 = 2,048 a token; 12 layers keep all, 12 keep 128 tokens.
    assert kept(samples.GPT_OSS_20B, 131_072) == 12 * 131_072 * 2_048 + 12 * 128 * 2_048 == 3_224_371_200


def test_a_latent_cache_keeps_one_vector_for_all_heads_and_every_card_keeps_it_whole() -> None:
    # 61 × (512 + 64) × 2 = 70,272 a token, instead of 61 × 128 × 256 × 2 = 3,997,696.
    assert kept(samples.DEEPSEEK_V3, 1) == 70_272
    assert kept(samples.DEEPSEEK_V3, 163_840) == 11_513_364_480
    assert kept(samples.DEEPSEEK_V3, 163_840, cards=8) == 11_513_364_480


def test_layers_with_a_state_keep_the_same_for_a_short_and_a_long_request() -> None:
    # A state: 3 × 8,192 inputs × 2 bytes + 32 × 128 × 128 × 4 bytes = 2,146,304; 36 layers have one.
    # The other 12: 2 × 512 × 2 = 2,048 a token each.
    assert kept(samples.QWEN3_NEXT_80B, 1) == 36 * 2_146_304 + 12 * 2_048 == 77_291_520
    assert kept(samples.QWEN3_NEXT_80B, 262_144) == 77_266_944 + 6_442_450_944


def test_a_state_space_model_keeps_its_inputs_and_its_state() -> None:
    # Inner 128 × 80 = 10,240; a state: 3 × (10,240 + 2 × 8 × 128) × 2 + 10,240 × 128 × 4 = 5,316,608; 27 layers.
    # 4 layers attend: 8 × 256 × 2 = 4,096 a token each; 25 keep nothing.
    assert kept(samples.NEMOTRON_NANO_9B, 1_000) == 27 * 5_316_608 + 4 * 4_096 * 1_000 == 159_932_416


def test_a_model_that_only_encodes_keeps_nothing() -> None:
    assert kept(samples.BGE_M3, 8_192) == 0


def test_a_model_that_sees_is_counted_by_its_language_part() -> None:
    # 34 layers, 5 of them full; 4 × 512 × 2 = 4,096 a token and layer, by the architecture's own numbers.
    assert kept(samples.GEMMA3_4B, 8_192) == 5 * 8_192 * 4_096 + 29 * 1_024 * 4_096 == 289_406_976


@pytest.mark.parametrize(("cards", "share"), [(1, 1_879_048_192), (2, 939_524_096), (4, 469_762_048), (8, 469_762_048)])
def test_cards_share_the_heads_and_keep_one_each_where_there_are_more_cards_than_heads(cards: int, share: int) -> None:
    assert kept(samples.QWEN25_7B, 32_768, cards=cards) == share


@pytest.mark.parametrize(("cards", "heads"), [(1, []), (2, []), (4, []), (3, ["28", "4"]), (7, ["4"]), (8, ["28"])])
def test_cards_that_cannot_share_the_heads_are_told_which(cards: int, heads: list[str]) -> None:
    faults = list(split_faults(read_architecture(samples.QWEN25_7B), cards))
    assert [fault.split("the model's ")[1].split()[0] for fault in faults] == heads


def test_heads_of_all_layers_are_told_once() -> None:
    faults = list(split_faults(read_architecture(samples.GEMMA3_27B), 3))
    assert [fault.split("the model's ")[1].split()[0] for fault in faults] == ["32", "16"]


def test_a_single_latent_is_no_hindrance_to_any_number_of_cards() -> None:
    assert list(split_faults(read_architecture(samples.DEEPSEEK_V3), 8)) == []
    assert len(list(split_faults(read_architecture(samples.DEEPSEEK_V3), 3))) == 1


def test_room_is_the_share_of_the_card_less_weights_overhead_and_cache() -> None:
    # 48 × 10^9 × 0.90 - 16,400,000,000 - 2,147,483,648 = 24,652,516,352; five caches fit, and one leaves the rest.
    found = room(card_gb=48, share=Decimal("0.90"), weights_bytes=16_400_000_000, cards=1, cache=4_831_838_208)
    assert found == Room(left_bytes=19_820_678_144, contexts=5)
    assert found.fits


def test_weights_are_shared_by_the_cards() -> None:
    found = room(card_gb=48, share=Decimal("0.90"), weights_bytes=70_000_000_001, cards=2, cache=1_000_000_000)
    assert found.left_bytes == 43_200_000_000 - 35_000_000_001 - 2_147_483_648 - 1_000_000_000


def test_what_fits_to_the_byte_fits_and_one_byte_more_does_not() -> None:
    budget = 21_600_000_000 - 2_147_483_648
    exact = room(card_gb=24, share=Decimal("0.90"), weights_bytes=budget - 1_000, cards=1, cache=1_000)
    assert (exact.left_bytes, exact.contexts, exact.fits) == (0, 1, True)
    over = room(card_gb=24, share=Decimal("0.90"), weights_bytes=budget - 999, cards=1, cache=1_000)
    assert (over.left_bytes, over.contexts, over.fits) == (-1, 0, False)


def test_too_heavy_weights_leave_no_context_and_not_a_negative_number_of_them() -> None:
    found = room(card_gb=24, share=Decimal(1), weights_bytes=80_000_000_000, cards=1, cache=1_000)
    assert (found.contexts, found.fits) == (0, False)


def test_weights_that_keep_nothing_need_room_for_themselves_only() -> None:
    found = room(card_gb=24, share=Decimal(1), weights_bytes=2_000_000_000, cards=1, cache=0)
    assert (found.left_bytes, found.contexts) == (24_000_000_000 - 2_000_000_000 - 2_147_483_648, 0)


SHAPES = st.builds(
    Architecture,
    model_type=st.just("any"),
    attention_heads=st.just(64),
    attention=st.lists(
        st.builds(
            Attention,
            layers=st.integers(1, 64),
            heads=st.sampled_from((1, 2, 4, 8, 64)),
            elements=st.integers(1, 1024),
            window=st.none() | st.integers(1, 10_000),
        ),
        max_size=3,
    ).map(tuple),
    recurrent=st.lists(
        st.builds(Recurrent, layers=st.integers(1, 64), state_bytes=st.integers(0, 10**7)), max_size=2
    ).map(tuple),
)


@given(SHAPES, st.integers(1, 100_000), st.integers(1, 100_000), st.sampled_from((1, 2, 4, 8)))
def test_a_longer_request_never_keeps_less_and_more_cards_never_keep_more_each(
    shape: Architecture, context: int, more: int, cards: int
) -> None:
    one = cache_bytes(shape, context=context, element=TWO)
    assert cache_bytes(shape, context=context + more, element=TWO) >= one
    assert one / cards <= cache_bytes(shape, context=context, element=TWO, cards=cards) <= one
