"""What is read from a model server's metrics, and that what is missing is unknown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.upstreams.stats import Stats, served_names, stats_in

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
LLAMA = """\
llamacpp:prompt_tokens_total 33
llamacpp:tokens_predicted_total 8
llamacpp:requests_processing 1
llamacpp:requests_deferred 0
"""


def test_counts_of_several_engines_add_up_and_the_fullest_cache_counts() -> None:
    assert stats_in(VLLM) == Stats(running=3, waiting=0, cache_use=0.5, prompt_tokens=74, answer_tokens=28)


def test_llama_cpp_tells_the_same_but_its_cache() -> None:
    assert stats_in(LLAMA) == Stats(running=1, waiting=0, cache_use=None, prompt_tokens=33, answer_tokens=8)


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
