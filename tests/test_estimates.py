"""Does an estimate join config and files rightly, and does it say what is not known instead of guessing?"""

from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from controller.core.architecture import read_architecture
from controller.core.layers import CannotSize
from controller.core.sizing import Room
from controller.core.storage import standard_usd_per_month
from controller.emulators.runpod.catalog import GPUS
from controller.settings import load
from controller.settings.cache_numbers import number_bytes
from controller.settings.cards import CARD_GB
from controller.settings.estimates import Estimate, Fit, estimate, gigabytes
from controller.settings.model_files import ModelFiles
from controller.settings.sizes import volume_gb
from tests.core import model_samples as samples
from tests.test_settings import SHORT

QWEN3_WEIGHTS = 16_381_470_720
SIZED = "model_size_gb = 16.4\n"
LLAMA = 'server = "llama_cpp"\n'


def estimated(tmp_path: Path, more: str = "", *, config: object = None, weights: int | None = None) -> Estimate:
    """Of the short config's model with further keys, and with files if any are given."""
    file = tmp_path / "config.toml"
    file.write_text(SHORT + more)
    file.chmod(0o600)
    files = ModelFiles(place=tmp_path, config=config, weights_bytes=weights)
    return estimate(load(file, {}), "qwen", None if config is None and weights is None else files)


def number(tmp_path: Path, more: str, sample: samples.Json = samples.QWEN3_8B) -> Fraction:
    file = tmp_path / "config.toml"
    file.write_text(SHORT + more)
    file.chmod(0o600)
    return number_bytes(load(file, {}).models["qwen"], read_architecture(sample))


def cannot(tmp_path: Path, more: str, sample: samples.Json = samples.QWEN3_8B) -> str:
    with pytest.raises(CannotSize) as unknown:
        number(tmp_path, more, sample)
    return unknown.value.why


def test_a_sized_model_on_known_cards_is_told_with_its_room(tmp_path: Path) -> None:
    found = estimated(tmp_path, SIZED, config=samples.QWEN3_8B)
    # 36 layers × 8 heads × 256 × 2 bytes × 32,768 tokens; 43.2 GB less 16.4 GB and 2 GiB hold it five times.
    room = Room(left_bytes=19_820_678_144, contexts=5)
    assert (found.weights_bytes, found.cache_bytes, found.cannot_size) == (16_400_000_000, 4_831_838_208, None)
    assert found.fits == tuple(Fit(offer=gpu, card_gb=48, room=room) for gpu in ("NVIDIA L40S", "NVIDIA A40"))
    assert (found.fit, found.faults) == (True, ())


def test_without_files_nothing_is_sized_and_the_mend_is_told(tmp_path: Path) -> None:
    found = estimated(tmp_path)
    assert (found.weights_bytes, found.cache_bytes, found.fit) == (None, None, None)
    assert (found.disk_gb, found.startup_deadline) == (80, timedelta(minutes=30))
    assert f"no config.json of the model; put it into {tmp_path}/models/qwen, or" in str(found.cannot_size)
    assert any("write model_size_gb, or let --online ask" in note for note in found.notes)


def test_an_unknown_architecture_has_weights_and_no_room(tmp_path: Path) -> None:
    found = estimated(tmp_path, SIZED, config={"model_type": "hyena_ssm"})
    assert (found.weights_bytes, found.cache_bytes) == (16_400_000_000, None)
    assert found.cannot_size == "the architecture hyena_ssm is not known"
    assert (found.fit, [one.room for one in found.fits]) == (None, [None, None])
    assert "cannot size its cache: the architecture hyena_ssm is not known" in found.notes


def test_an_unknown_card_is_told_and_takes_nothing_from_the_known_one(tmp_path: Path) -> None:
    found = estimated(tmp_path, SIZED, config=samples.QWEN3_8B)
    text = (tmp_path / "config.toml").read_text().replace("NVIDIA A40", "NVIDIA X9000")
    (tmp_path / "config.toml").write_text(text)
    again = estimate(load(tmp_path / "config.toml", {}), "qwen", ModelFiles(place=tmp_path, config=samples.QWEN3_8B))
    assert again.fits == (found.fits[0], Fit(offer="NVIDIA X9000", card_gb=None, room=None))
    assert again.fit is None
    assert "the memory of NVIDIA X9000 is not known here" in again.notes


def test_what_does_not_fit_says_how_much_is_missing(tmp_path: Path) -> None:
    found = estimated(tmp_path, "model_size_gb = 40\n", config=samples.QWEN3_8B)
    # 43.2 GB less 40 GB, 2 GiB and 4,831,838,208 bytes.
    assert {one.room for one in found.fits} == {Room(left_bytes=-3_779_321_856, contexts=0)}
    assert found.fit is False
    assert any("does not fit 1 × NVIDIA A40: 3.8 GB a card are missing; take a larger" in note for note in found.notes)


def test_what_is_not_counted_is_told(tmp_path: Path) -> None:
    uncounted = "what it takes while it reads pictures or sound is not counted"
    assert uncounted in estimated(tmp_path, config=samples.GEMMA3_27B).notes
    assert uncounted not in estimated(tmp_path, config=samples.QWEN3_8B).notes


def test_two_cards_share_weights_and_heads(tmp_path: Path) -> None:
    found = estimated(tmp_path, "model_size_gb = 40\ngpu_count = 2\n", config=samples.QWEN3_8B)
    # 43.2 GB less 20 GB and 2 GiB hold half a cache, 2,415,919,104 bytes, eight times.
    assert found.fits[0].room == Room(left_bytes=18_636_597_248, contexts=8)


def test_a_larger_step_on_a_larger_card_keeps_more_beside_a_window(tmp_path: Path) -> None:
    def left(gpu: str, more: str = "") -> int:
        file = tmp_path / "config.toml"
        file.write_text(SHORT.replace("NVIDIA L40S", gpu) + "model_size_gb = 54\n" + more)
        file.chmod(0o600)
        room = estimate(load(file, {}), "qwen", ModelFiles(place=tmp_path, config=samples.GEMMA3_27B)).fits[0].room
        assert room is not None
        return room.left_bytes

    step = 52 * 8_192
    assert left("NVIDIA A100 80GB PCIe") - left("NVIDIA H100 PCIe") == (8_192 - 2_048) * step
    assert left("NVIDIA H100 PCIe", "max_num_batched_tokens = 4096\n") - left("NVIDIA H100 PCIe") == 4_096 * step


def test_llama_cpp_lays_out_every_slot_at_once_and_takes_the_whole_card(tmp_path: Path) -> None:
    found = estimated(tmp_path, f"{LLAMA}{SIZED}max_num_seqs = 4\n", config=samples.QWEN3_8B)
    # 48 GB less 16.4 GB, 2 GiB and four caches.
    assert found.fits[0].room == Room(left_bytes=10_125_163_520, contexts=4)
    assert estimated(tmp_path, f"{LLAMA}{SIZED}", config=samples.QWEN3_8B).fit is False


def test_adapters_are_told_not_to_be_counted(tmp_path: Path) -> None:
    uncounted = "what its adapters take on the card is not counted"
    assert uncounted in estimated(tmp_path, 'adapters = { a = "org/a" }\n').notes
    assert uncounted not in estimated(tmp_path).notes


def test_the_size_that_the_files_tell_is_used_and_to_be_written_down(tmp_path: Path) -> None:
    found = estimated(tmp_path, weights=QWEN3_WEIGHTS)
    assert found.weights_bytes == QWEN3_WEIGHTS
    assert any(note.startswith("write model_size_gb = 16.4, as its files say") for note in found.notes)
    assert not any("model_size_gb" in note for note in estimated(tmp_path, SIZED, weights=QWEN3_WEIGHTS).notes)
    assert (
        "model_size_gb = 8, but its files say 16.4"
        in estimated(tmp_path, "model_size_gb = 8\n", weights=QWEN3_WEIGHTS).notes
    )


def test_weights_that_the_default_disk_cannot_hold_are_a_fault(tmp_path: Path) -> None:
    assert estimated(tmp_path, weights=60_000_000_000).faults == ()
    (fault,) = estimated(tmp_path, weights=60_000_000_001).faults
    assert str(fault) == (
        f"{tmp_path}/config.toml: models.qwen.model_size_gb: missing: weights of 60.1 GB do not fit on the container"
        " disk of 80 GB that an unknown size gets; write 60.1"
    )
    (fault,) = estimated(tmp_path, "disk_gb = 90\n", weights=80_000_000_000).faults
    assert "models.qwen.disk_gb = 90: weights of 80.0 GB do not fit" in str(fault)
    assert estimated(tmp_path, 'volumes = { "EU-RO-1" = "v1" }\n', weights=80_000_000_000).faults == ()


def test_heads_that_the_cards_cannot_share_are_a_fault_with_the_counts_that_can(tmp_path: Path) -> None:
    (fault,) = estimated(tmp_path, "gpu_count = 3\n", config=samples.QWEN25_7B).faults
    assert str(fault) == (
        f"{tmp_path}/config.toml: models.qwen.gpu_count = 3: the model's 28 attention heads cannot be shared equally by"
        " 3 cards; write one of 1, 2, 4"
    )
    assert estimated(tmp_path, f"{LLAMA}gpu_count = 3\n", config=samples.QWEN25_7B).faults == ()


def test_a_context_beyond_the_model_is_a_fault_unless_the_server_is_told_to_allow_it(tmp_path: Path) -> None:
    short = samples.QWEN3_8B | {"max_position_embeddings": 32767}
    (fault,) = estimated(tmp_path, config=short).faults
    assert "models.qwen.context = 32768: the model takes at most 32767 tokens; write at most 32767" in str(fault)
    allowed = 'environment = { VLLM_ALLOW_LONG_MAX_MODEL_LEN = "1" }\n'
    assert estimated(tmp_path, allowed, config=short).faults == ()
    assert estimated(tmp_path, config=short | {"max_position_embeddings": 32768}).faults == ()


def test_a_start_costs_at_worst_its_ceiling_for_twice_its_deadline(tmp_path: Path) -> None:
    found = estimated(tmp_path, f'{SIZED}max_usd_per_hour = 0.99\nhf_token_secret = "hf"\n')
    # 300 s + 16.4 × 20 s = 628 s; twice that at 0.99 an hour is 0.3454 USD.
    assert (found.startup_deadline, found.startup_longest) == (timedelta(seconds=628), timedelta(seconds=1256))
    assert found.cold_start_usd == Decimal("0.35")
    assert not any("price" in note or "hf_token" in note for note in found.notes)


def test_without_a_ceiling_the_cost_is_not_known_and_the_day_bounds_it(tmp_path: Path) -> None:
    found = estimated(tmp_path, SIZED)
    assert (found.usd_per_hour, found.cold_start_usd) == (None, None)
    assert any(note.startswith("no max_usd_per_hour") for note in found.notes)


def test_a_start_that_the_day_cannot_hold_is_told_with_the_hour_from_which_it_can(tmp_path: Path) -> None:
    def told(more: str) -> list[str]:
        return [note for note in estimated(tmp_path, more).notes if "midnight" in note]

    assert told("max_usd_per_hour = 1.66\n") == []
    (note,) = told("max_usd_per_hour = 5\n")
    assert "up to 120.00 USD: with usd_per_day = 40 it is refused before 16:00 UTC" in note
    assert told('max_usd_per_hour = 5\nmax_lifetime = "8h"\n') == []


def test_a_volume_holds_the_weights_twice() -> None:
    assert [volume_gb(Decimal(size)) for size in ("55", "7.6", "7.7")] == [120, 20, 21]


def test_the_volume_is_told_only_where_there_is_one(tmp_path: Path) -> None:
    assert estimated(tmp_path, "model_size_gb = 55\n").volume_gb is None
    found = estimated(tmp_path, 'model_size_gb = 55\nvolumes = { "EU-RO-1" = "v1" }\n')
    assert (found.disk_gb, found.volume_gb) == (30, 120)


@pytest.mark.parametrize(("size_gb", "usd"), [(120, "8.40"), (1000, "70.00"), (1001, "70.05"), (3000, "170.00")])
def test_a_volume_is_cheaper_beyond_its_first_thousand_gb(size_gb: int, usd: str) -> None:
    assert standard_usd_per_month(size_gb) == Decimal(usd)


def test_what_volumes_bill_beside_every_estimate_is_told(tmp_path: Path) -> None:
    def told(more: str) -> list[str]:
        return [note for note in estimated(tmp_path, more).notes if "day and night" in note]

    beside = "which neither usd_per_day nor any estimate here counts"
    one, two = 'volumes = { "EU-RO-1" = "v1" }\n', 'volumes = { "EU-RO-1" = "v1", "EU-SE-1" = "v2" }\n'
    assert told("model_size_gb = 55\n") == []
    assert told(f"model_size_gb = 55\n{one}") == [
        f"its volume bills day and night, {beside}: about $8.40 a month at 120 GB of the standard kind"
    ]
    assert told(two) == [f"each of its 2 volumes bills day and night, {beside}"]


@pytest.mark.parametrize(
    ("more", "number_of_bytes"),
    [
        ("", Fraction(2)),
        ('extra_args = ["--kv-cache-dtype", "fp8"]\n', Fraction(1)),
        ('extra_args = ["--kv_cache_dtype=fp8_e5m2"]\n', Fraction(1)),
        ('extra_args = ["--kv-cache-dtype", "fp8", "--kv-cache-dtype", "auto"]\n', Fraction(2)),
        ('extra_args = ["--dtype", "float32"]\n', Fraction(4)),
        ('extra_args = ["--dtype", "float32", "--kv-cache-dtype", "bfloat16"]\n', Fraction(2)),
        (LLAMA, Fraction(2)),
        (f'{LLAMA}extra_args = ["-ctk", "q8_0", "-ctv", "q8_0"]\n', Fraction(34, 32)),
        (f'{LLAMA}extra_args = ["--cache-type-k", "q4_0"]\n', Fraction(41, 32)),
    ],
)
def test_the_servers_own_arguments_say_what_a_number_takes(
    tmp_path: Path, more: str, number_of_bytes: Fraction
) -> None:
    assert number(tmp_path, more) == number_of_bytes


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ('extra_args = ["--kv-cache-dtype", "nvfp4"]\n', "extra_args sets --kv-cache-dtype to what is not known here"),
        ('extra_args = ["--kv-cache-dtype"]\n', "extra_args sets --kv-cache-dtype to what is not known here"),
        ('extra_args = ["--speculative-config", "{}"]\n', "extra_args sets --speculative-config, and what is kept"),
        (
            'extra_args = ["--max_model_len=40000"]\n',
            "extra_args sets --max-model-len, and what is kept then is not known",
        ),
        ('extra_args = ["-tp", "4"]\n', "extra_args sets -tp, and what is kept then is not known"),
        (f'{LLAMA}extra_args = ["-ngl", "10"]\n', "extra_args sets -ngl, and what is kept then is not known"),
        (f'{LLAMA}extra_args = ["-ctk", "q9"]\n', "extra_args sets --cache-type-k to what is not known here"),
    ],
)
def test_arguments_that_are_not_counted_make_the_size_unknown(tmp_path: Path, more: str, why: str) -> None:
    assert cannot(tmp_path, more).startswith(why)


def test_what_llama_cpp_keeps_for_compressed_and_recurrent_layers_is_not_known(tmp_path: Path) -> None:
    assert cannot(tmp_path, LLAMA, samples.DEEPSEEK_V3) == "what llama.cpp keeps for deepseek_v3 is not known"
    assert cannot(tmp_path, LLAMA, samples.QWEN3_NEXT_80B) == "what llama.cpp keeps for qwen3_next is not known"


def test_a_switched_off_latent_cache_makes_the_size_unknown(tmp_path: Path) -> None:
    off = 'environment = { VLLM_MLA_DISABLE = "1" }\n'
    assert "VLLM_MLA_DISABLE" in cannot(tmp_path, off, samples.DEEPSEEK_V3)
    assert number(tmp_path, off) == 2


def test_every_card_of_the_example_and_of_the_emulated_catalog_has_its_memory() -> None:
    assert {gpu.id: gpu.memory for gpu in GPUS} == {gpu.id: CARD_GB[gpu.id] for gpu in GPUS}


def test_gigabytes_are_rounded_up_where_they_are_needed() -> None:
    assert [str(gigabytes(amount)) for amount in (0, 1, 16_381_470_720, 16_400_000_000)] == [
        "0.0",
        "0.1",
        "16.4",
        "16.4",
    ]
