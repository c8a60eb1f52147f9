"""What is read from a model server's metrics, and that what is missing is unknown."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.runtime import Scrape
from controller.upstreams.stats import served_names, stats_in, with_slots

VLLM = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="tiny"} 2.0
vllm:num_requests_running{engine="1",model_name="tiny"} 1.0
vllm:num_requests_waiting{engine="0",model_name="tiny"} 0.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="tiny",reason="capacity"} 5.0
vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="tiny"} 0.5
vllm:prompt_tokens_total{engine="0",model_name="tiny"} 74.0
vllm:prompt_tokens_created{engine="0",model_name="tiny"} 1.7959671219019673e+09
vllm:generation_tokens_total{engine="0",model_name="tiny"} 28.0
"""
PROCESSING = {
    "n_ctx": 1024,
    "is_processing": True,
    "n_prompt_tokens_processed": 440,
    "n_prompt_tokens_cache": 64,
    "next_token": [{"n_decoded": 8}],
}
REAL_SLOTS = b"""[{"id":0,"n_ctx":1024,"speculative":false,"is_processing":false},
 {"id":3,"n_ctx":1024,"speculative":false,"is_processing":false,"id_task":3,"n_prompt_tokens":40,
  "n_prompt_tokens_processed":0,"n_prompt_tokens_cache":0,"next_token":[{"has_next_token":false,"n_decoded":0}]}]"""
LLAMA = """\
llamacpp:prompt_tokens_total 33
llamacpp:tokens_predicted_total 8
llamacpp:requests_processing 1
llamacpp:requests_deferred 0
"""


def test_counts_of_several_engines_add_up_and_the_fullest_cache_counts() -> None:
    assert stats_in(VLLM) == Scrape(running=3, waiting=0, cache_use=0.5, prompt_tokens=74, answer_tokens=28, steps=28)


def test_llama_cpp_tells_the_same_but_its_cache() -> None:
    assert stats_in(LLAMA) == Scrape(running=1, waiting=0, cache_use=None, prompt_tokens=33, answer_tokens=8)


def test_the_older_name_of_a_number_is_read_where_the_newer_is_missing() -> None:
    assert stats_in("vllm:gpu_cache_usage_perc 0.5\n").cache_use == 0.5
    assert stats_in("vllm:gpu_cache_usage_perc 0.5\nvllm:kv_cache_usage_perc 0.1\n").cache_use == 0.1


@pytest.mark.parametrize("value", ["NaN", "+Inf", "", "x", "1 2 3"])
def test_a_number_that_is_none_is_unknown_and_not_zero(value: str) -> None:
    assert stats_in(f"vllm:num_requests_running {value}\n").running is None


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (VLLM, ("tiny",)),
        (LLAMA, None),
        ("", None),
        ('other:thing{model_name="x"} 1\n', None),
        ('vllm:a{model_name="a\\"b\\\\c"} 1\n', ('a"b\\c',)),
        ('vllm:a{model_name="b"} 1\nvllm:a{model_name="a"} 1\n', ("a", "b")),
    ],
)
def test_the_served_names_are_those_in_vllms_labels(text: str, names: tuple[str, ...] | None) -> None:
    assert served_names(text) == names


@given(st.text())
def test_any_text_is_read_without_an_error(text: str) -> None:
    stats_in(text)
    served_names(text)


def told(*slots: object) -> float | None:
    return with_slots(Scrape(running=1.0), json.dumps(slots).encode()).cache_use


@pytest.mark.parametrize(
    ("slots", "use"),
    [
        ([{"n_ctx": 1000, "n_past": 250}], 0.25),
        ([{"n_ctx": 1000, "n_past": 0}], 0.0),
        ([{"n_ctx": 1000, "n_past": 250}, {"n_ctx": 1000, "n_past": 500}], 0.5),
        ([{"n_ctx": 1000, "n_past": 2000}], 1.0),
        ([{"n_ctx": 1024, "is_processing": False}], 0.0),
        ([PROCESSING], 0.5),
        ([PROCESSING | {"n_prompt_tokens_cache": None}], 0.4375),
        ([PROCESSING | {"next_token": []}], None),
        ([{"n_ctx": 0, "n_past": 5}], None),
        ([{"n_ctx": 1000, "n_past": True}], None),
        ([{"n_ctx": 1000}], None),
        (["slot"], None),
        ([], None),
    ],
)
def test_llama_cpps_cache_is_as_full_as_its_fullest_slot_and_unknown_where_none_tells(
    slots: list[object], use: float | None
) -> None:
    assert told(*slots) == use


@pytest.mark.parametrize("body", [b"", b"{}", b"null", b"[[1]]", b"[" * 100_000, b"\xff"])
def test_slots_that_cannot_be_read_leave_everything_as_it_was(body: bytes) -> None:
    assert with_slots(Scrape(running=1.0), body) == Scrape(running=1.0)


def test_the_slots_of_a_real_server_are_read() -> None:
    assert with_slots(Scrape(), REAL_SLOTS) == Scrape(cache_use=0.0)


def test_the_start_of_the_servers_own_process_is_read() -> None:
    found = stats_in("process_start_time_seconds 1.79596685145e+09\n")
    assert found.process_started_at == datetime(2026, 11, 29, 15, 40, 51, 450000, tzinfo=UTC)
    assert not found.known


@pytest.mark.parametrize("seconds", ["0", "-1", "1e12", "NaN"])
def test_a_start_that_can_be_none_is_unknown(seconds: str) -> None:
    assert stats_in(f"process_start_time_seconds {seconds}\n").process_started_at is None


@pytest.mark.parametrize(("text", "use"), [("1", 1.0), ("1.001", 1.0), ("-0.1", None), ("0", 0.0)])
def test_a_usage_is_a_share(text: str, use: float | None) -> None:
    assert stats_in(f"vllm:kv_cache_usage_perc {text}\n").cache_use == use
