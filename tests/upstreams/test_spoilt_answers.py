"""Does nothing that a model server may answer raise, hang us, or make it look ready or unfit?"""

import json
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.readiness import Verdict
from controller.transport import MIB
from controller.upstreams.probe import Probe, Server
from controller.upstreams.stats import samples_in, served_names, stats_in
from tests.support.mangling import json_values, mangled, torn, written
from tests.support.virtual_time import run_virtual
from tests.upstreams.test_probe import KEY, METRICS, MODELS, REFERENCE, Upstream, on
from tests.upstreams.test_stats import LLAMA, VLLM

bodies = mangled(MODELS).map(written) | torn(written(MODELS)) | json_values.map(written) | st.binary(max_size=40)
codes = st.sampled_from([200, 204, 301, 400, 401, 403, 404, 429, 500, 503, 520, 530])


def probed(path: str, reply: httpx.Response, *, key: Any = ..., server: Server = "vllm", credential: bool) -> Probe:
    upstream = Upstream(on(path, reply, key=key))
    return run_virtual(lambda: upstream.probed(credential=KEY if credential else None, server=server))


@given(bodies, codes, st.sampled_from(["vllm", "llama_cpp"]))
def test_a_spoilt_list_of_models_is_judged_by_what_is_certain(body: bytes, code: int, server: Server) -> None:
    found = probed("/v1/models", httpx.Response(code, content=body), key=KEY, server=server, credential=True)
    assert found.verdict is not Verdict.UNPROTECTED
    assert found.verdict is not Verdict.READY or code == 200
    for name in found.served or ():
        name.encode()


@given(bodies, codes, st.sampled_from([None, REFERENCE]))
def test_without_the_right_key_only_a_list_of_models_opens_the_server(body: bytes, code: int, key: str | None) -> None:
    found = probed("/v1/models", httpx.Response(code, content=body), key=key, credential=False)
    if found.verdict in {Verdict.UNPROTECTED, Verdict.SECRET_UNSUBSTITUTED}:
        assert code == 200
        assert isinstance(json.loads(body)["data"], list)
    assert found.verdict is not Verdict.READY or code in {401, 403}


PIECES = ["vllm:a", "{", "}", 'model_name="', '"', "\\", ",", " ", "1", "1e999", "NaN", "\n", "x="]
torn_texts = st.sampled_from([VLLM, LLAMA, METRICS]).flatmap(lambda text: torn(text.encode()))
spoilt_texts = st.one_of(
    torn_texts.map(lambda body: body.decode("utf-8", "replace")),
    st.text(max_size=200),
    st.lists(st.sampled_from(PIECES), max_size=30).map("".join),
)
LONG = ["a" * MIB, 'a="' * (MIB // 3), "a=" * (MIB // 2), '\\"' * (MIB // 2), "} " * (MIB // 2), 'a="\\' * (MIB // 4)]


@given(spoilt_texts)
def test_metrics_of_any_kind_are_numbers_or_unknown(text: str) -> None:
    stats = stats_in(text)
    for number in (stats.running, stats.waiting, stats.cache_use, stats.prompt_tokens, stats.answer_tokens):
        assert number is None or isinstance(number, float | int)
    assert served_names(text) is None or all(served_names(text) or ())


@pytest.mark.parametrize("labels", LONG, ids=range(6))
def test_metrics_of_a_whole_answers_length_are_read_in_a_moment(labels: str) -> None:
    """A word of 16,000 letters took seconds once, one of a whole answer hours: the daemon stood still."""
    assert len(list(samples_in(f"vllm:a{{{labels}}} 1\n"))) <= 1


@pytest.mark.parametrize("name", ["\ud800", "a\ud800b"])
def test_a_served_name_with_half_a_character_can_be_told(name: str) -> None:
    models = {"data": [{"id": name}]}
    found = probed("/v1/models", httpx.Response(200, content=json.dumps(models).encode()), key=KEY, credential=True)
    assert found.served == (name.replace("\ud800", "?"),)
