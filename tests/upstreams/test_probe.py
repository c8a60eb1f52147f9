"""What a probe concludes from the answers of a model server, and from those of the proxy before it."""

from collections.abc import Callable
from typing import Any

import anyio
import httpx
import pytest

from controller.core.readiness import Verdict
from controller.core.runtime import Scrape
from controller.transport import MIB
from controller.upstreams.probe import Probe, ProbeTarget, Server, open_prober
from tests.support.asgi_transport import AsgiTransport, Receive, Scope, Send
from tests.support.loop_clock import BEGIN, HandClock, LoopClock
from tests.support.virtual_time import run_virtual

KEY = "KEY_CANARY_3"
REFERENCE = "{{ RUNPOD_SECRET_vllm_qwen }}"
ENDPOINT = "https://abc-8000.proxy.example/v1/"
MODELS = {"object": "list", "data": [{"id": "Qwen/Qwen3-8B"}, {"id": "lora"}]}
METRICS = 'vllm:num_requests_running{engine="0",model_name="Qwen/Qwen3-8B"} 0.0\n'
PAGE = httpx.Response(403, html="<!DOCTYPE html><title>Just a moment</title>")

Answers = Callable[[str, str | None], httpx.Response | None]


def serving(path: str, key: str | None) -> httpx.Response:
    """vLLM with its key."""
    if path == "/health":
        return httpx.Response(200)
    if path == "/metrics":
        return httpx.Response(200, text=METRICS)
    if path == "/v1/models":
        return httpx.Response(200, json=MODELS) if key == KEY else httpx.Response(401, json={"error": "Unauthorized"})
    return httpx.Response(404)


class Upstream:
    def __init__(self, otherwise: Answers = lambda path, key: None) -> None:
        self._otherwise = otherwise
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        key = request.headers.get("authorization", "").removeprefix("Bearer ") or None
        return self._otherwise(request.url.path, key) or serving(request.url.path, key)

    async def probed(
        self,
        *,
        credential: str | None = None,
        reference: str | None = REFERENCE,
        server: Server = "vllm",
        ask_version: bool = False,
        proven: bool = False,
    ) -> Probe:
        prober = open_prober(clock=HandClock(), transport=httpx.MockTransport(self))
        return await prober.probe(
            ProbeTarget(
                endpoint=ENDPOINT,
                server=server,
                secret_reference=reference,
                credential=credential,
                ask_version=ask_version,
                proven=proven,
            )
        )


def on(path: str, reply: httpx.Response, *, key: Any = ...) -> Answers:
    """This answer there, for this key only if one is given; else as it should be."""
    return lambda asked, given: reply if asked == path and key in {..., given} else None


async def test_a_server_that_keeps_its_key_is_ready_and_its_name_is_known_from_its_metrics() -> None:
    probe = await Upstream().probed()
    assert (probe.verdict, probe.served, probe.observed_at) == (Verdict.READY, ("Qwen/Qwen3-8B",), BEGIN)


async def test_with_a_credential_every_served_name_is_known() -> None:
    probe = await Upstream().probed(credential=KEY)
    assert (probe.verdict, probe.served) == (Verdict.READY, ("Qwen/Qwen3-8B", "lora"))


@pytest.mark.parametrize("reply", [httpx.Response(404), httpx.Response(200, text="nothing"), PAGE])
async def test_a_name_that_is_not_told_is_unknown_and_does_not_block(reply: httpx.Response) -> None:
    probe = await Upstream(on("/metrics", reply)).probed()
    assert (probe.verdict, probe.served) == (Verdict.READY, None)


async def test_what_was_proven_lately_is_asked_only_whether_it_serves_and_counts() -> None:
    upstream = Upstream()
    probe = await upstream.probed(credential=KEY, ask_version=True, proven=True)
    assert (probe.verdict, probe.served, probe.version, probe.whole) == (Verdict.READY, None, None, False)
    assert probe.scrape == Scrape(running=0.0)
    assert [request.url.path for request in upstream.requests] == ["/health", "/metrics"]


@pytest.mark.parametrize("reply", [httpx.Response(404), httpx.Response(200, text="nothing"), PAGE])
async def test_what_does_not_tell_its_numbers_shows_all_of_it_each_time(reply: httpx.Response) -> None:
    upstream = Upstream(on("/metrics", reply))
    probe = await upstream.probed(proven=True)
    assert (probe.verdict, probe.whole) == (Verdict.READY, True)
    assert [request.url.path for request in upstream.requests].count("/v1/models") == 2


async def test_what_was_proven_lately_and_does_not_serve_now_is_not_ready() -> None:
    upstream = Upstream(on("/health", httpx.Response(503)))
    assert (await upstream.probed(proven=True)).verdict is Verdict.NOT_READY


@pytest.mark.parametrize("code", [404, 502, 503, 500, 401, 301, 204])
async def test_a_server_that_is_not_healthy_yet_is_not_ready(code: int) -> None:
    assert (await Upstream(on("/health", httpx.Response(code))).probed()).verdict is Verdict.NOT_READY


@pytest.mark.parametrize("code", [404, 502, 503, 500])
async def test_a_server_whose_models_do_not_answer_is_not_ready(code: int) -> None:
    assert (await Upstream(on("/v1/models", httpx.Response(code))).probed()).verdict is Verdict.NOT_READY


async def test_a_server_that_answers_without_a_key_is_unprotected() -> None:
    assert (await Upstream(on("/v1/models", httpx.Response(200, json=MODELS))).probed()).verdict is Verdict.UNPROTECTED


@pytest.mark.parametrize("reply", [httpx.Response(200, html="<html>"), httpx.Response(200, json={"ok": True})])
async def test_a_200_that_lists_no_models_shows_nothing_unprotected(reply: httpx.Response) -> None:
    assert (await Upstream(on("/v1/models", reply)).probed()).verdict is Verdict.NOT_READY


async def test_a_server_that_takes_the_literal_reference_as_its_key_is_told() -> None:
    upstream = Upstream(on("/v1/models", httpx.Response(200, json=MODELS), key=REFERENCE))
    assert (await upstream.probed()).verdict is Verdict.SECRET_UNSUBSTITUTED


async def test_a_server_that_fails_at_the_literal_reference_has_not_refused_it() -> None:
    upstream = Upstream(on("/v1/models", httpx.Response(502), key=REFERENCE))
    assert (await upstream.probed()).verdict is Verdict.NOT_READY


async def test_without_a_reference_none_is_tried() -> None:
    upstream = Upstream()
    await upstream.probed(reference=None)
    assert all("authorization" not in request.headers for request in upstream.requests)


@pytest.mark.parametrize("code", [401, 403])
async def test_a_refused_credential_is_told(code: int) -> None:
    upstream = Upstream(on("/v1/models", httpx.Response(code, json={"error": "Unauthorized"}), key=KEY))
    assert (await upstream.probed(credential=KEY)).verdict is Verdict.REFUSED


@pytest.mark.parametrize("reply", [PAGE, httpx.Response(403, text="error code: 1010")])
@pytest.mark.parametrize("path", ["/health", "/v1/models"])
@pytest.mark.parametrize("key", [None, KEY])
async def test_a_refusal_of_the_proxys_is_no_refused_key(reply: httpx.Response, path: str, key: str | None) -> None:
    if path == "/health" and key is not None:
        key = None
    upstream = Upstream(on(path, reply, key=key))
    assert (await upstream.probed(credential=KEY)).verdict is Verdict.PROXY_REFUSED


@pytest.mark.parametrize(
    "error",
    [httpx.ConnectError("DNS"), httpx.ConnectTimeout("x"), httpx.ReadTimeout("x"), httpx.RemoteProtocolError("cut")],
)
@pytest.mark.parametrize("path", ["/health", "/v1/models"])
async def test_no_answer_is_unknown(error: Exception, path: str) -> None:
    def failing(asked: str, _: str | None) -> None:
        if asked == path:
            raise error

    probe = await Upstream(failing).probed()
    assert (probe.verdict, probe.answered) == (Verdict.UNREACHABLE, False)


@pytest.mark.parametrize("code", [520, 522, 524, 525, 530])
async def test_a_proxy_that_got_no_answer_is_unknown(code: int) -> None:
    probe = await Upstream(on("/v1/models", httpx.Response(code))).probed()
    assert (probe.verdict, probe.answered) == (Verdict.UNREACHABLE, True)


async def test_an_answer_larger_than_a_mebibyte_is_unknown_and_not_ready() -> None:
    large = httpx.Response(200, content=b"x" * (1024 * 1024 + 1))
    assert (await Upstream(on("/health", large)).probed()).verdict is Verdict.UNREACHABLE


async def test_a_redirect_is_not_followed() -> None:
    upstream = Upstream(on("/health", httpx.Response(302, headers={"location": "https://elsewhere.example/"})))
    assert (await upstream.probed()).verdict is Verdict.NOT_READY
    assert {request.url.host for request in upstream.requests} == {"abc-8000.proxy.example"}


@pytest.mark.parametrize(
    ("reply", "verdict", "version"),
    [
        (httpx.Response(200, json={"version": "0.33.0"}), Verdict.READY, "0.33.0"),
        (httpx.Response(200, json={"version": "0.22.0rc1+cu128"}), Verdict.READY, "0.22.0rc1+cu128"),
        (httpx.Response(200, json={"version": "0.21.9"}), Verdict.UNPROTECTED, None),
        (httpx.Response(200, json={"version": "0.9"}), Verdict.UNPROTECTED, None),
        (httpx.Response(200, json={"version": "dev"}), Verdict.READY, None),
        (httpx.Response(200, json={"version": "0.33.0 <b>" + "x" * 99}), Verdict.READY, None),
        (httpx.Response(200, json={"version": 33}), Verdict.READY, None),
        (httpx.Response(200, json=[]), Verdict.READY, None),
        (httpx.Response(200, text="0.33.0"), Verdict.READY, None),
        (httpx.Response(404), Verdict.READY, None),
    ],
)
async def test_what_the_image_does_not_say_is_asked_of_the_server_and_an_open_one_does_not_serve(
    reply: httpx.Response, verdict: Verdict, version: str | None
) -> None:
    probe = await Upstream(on("/version", reply)).probed(ask_version=True)
    assert (probe.verdict, probe.version) == (verdict, version)


async def test_nobody_asks_a_pinned_server_for_its_version() -> None:
    upstream = Upstream()
    await upstream.probed()
    assert "/version" not in {request.url.path for request in upstream.requests}


async def test_every_call_looks_like_a_browsers() -> None:
    upstream = Upstream()
    await upstream.probed(credential=KEY)
    assert {request.headers["user-agent"].partition("/")[0] for request in upstream.requests} == {"Mozilla"}
    assert {request.method for request in upstream.requests} == {"GET"}


async def test_no_detail_tells_the_credential() -> None:
    def failing(_: str, key: str | None) -> None:
        if key == KEY:
            raise httpx.ReadError(f"cut while sending {KEY}")

    probe = await Upstream(failing).probed(credential=KEY)
    assert probe.verdict is Verdict.UNREACHABLE
    assert KEY not in repr(probe)
    assert KEY not in repr(ProbeTarget(endpoint=ENDPOINT, server="vllm", credential=KEY))


LOADING = httpx.Response(503, json={"error": {"message": "Loading model", "code": 503}})


async def test_llama_cpp_is_not_ready_while_it_loads() -> None:
    upstream = Upstream(lambda path, key: LOADING)
    assert (await upstream.probed(server="llama_cpp")).verdict is Verdict.NOT_READY


async def test_llama_cpp_is_ready_without_a_name_where_no_credential_is_given() -> None:
    probe = await Upstream().probed(server="llama_cpp")
    assert (probe.verdict, probe.served) == (Verdict.READY, None)


def open_models(path: str, key: str | None) -> httpx.Response | None:
    """An older llama.cpp: everybody sees the models, the rest needs the key."""
    if path == "/v1/models":
        return httpx.Response(200, json=MODELS)
    if path == "/props":
        return httpx.Response(200, json={}) if key == KEY else httpx.Response(401)
    return None


async def test_an_older_llama_cpp_that_shows_its_models_to_all_is_protected_by_what_it_guards() -> None:
    assert (await Upstream(open_models).probed(server="llama_cpp")).verdict is Verdict.READY
    assert (await Upstream(open_models).probed(server="llama_cpp", credential=KEY)).verdict is Verdict.READY
    assert (await Upstream(open_models).probed(server="llama_cpp", credential="x")).verdict is Verdict.REFUSED


async def test_a_llama_cpp_that_guards_nothing_is_unprotected() -> None:
    upstream = Upstream(lambda path, key: httpx.Response(200, json=MODELS))
    assert (await upstream.probed(server="llama_cpp")).verdict is Verdict.UNPROTECTED


def test_a_silent_server_costs_ten_seconds() -> None:
    async def silent(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await receive()

    async def probe() -> tuple[Probe, float]:
        clock = LoopClock()
        prober = open_prober(clock=clock, transport=AsgiTransport(silent))
        return await prober.probe(ProbeTarget(endpoint=ENDPOINT, server="vllm")), clock.boot().total_seconds()

    found, seconds = run_virtual(probe)
    assert found.verdict is Verdict.UNREACHABLE
    assert seconds == pytest.approx(10)


async def test_a_ready_server_is_asked_what_it_counts_in_the_call_that_tells_its_name() -> None:
    upstream = Upstream()
    probe = await upstream.probed()
    assert probe.scrape == Scrape(running=0.0)
    assert [request.url.path for request in upstream.requests].count("/metrics") == 1


async def test_a_server_that_is_not_ready_is_not_asked_what_it_counts() -> None:
    upstream = Upstream(on("/health", httpx.Response(503)))
    assert (await upstream.probed()).scrape is None
    assert [request.url.path for request in upstream.requests] == ["/health"]


@pytest.mark.parametrize("reply", [httpx.Response(404), httpx.Response(200, text="other:thing 1"), PAGE])
async def test_numbers_that_are_not_told_are_unknown(reply: httpx.Response) -> None:
    assert (await Upstream(on("/metrics", reply)).probed()).scrape is None


def llama(path: str, key: str | None) -> httpx.Response | None:
    """A llama.cpp whose numbers need the key, like all else."""
    bodies = {"/metrics": "llamacpp:requests_processing 2", "/slots": '[{"n_ctx": 100, "n_past": 25}]'}
    if path not in bodies:
        return None
    return httpx.Response(200, text=bodies[path]) if key == KEY else httpx.Response(401)


async def test_llama_cpp_tells_its_numbers_and_slots_to_whoever_has_its_key() -> None:
    assert (await Upstream(llama).probed(server="llama_cpp", credential=KEY)).scrape == Scrape(
        running=2.0, cache_use=0.25
    )
    without = Upstream(llama)
    assert (await without.probed(server="llama_cpp")).scrape is None
    assert not {"/metrics", "/slots"} & {request.url.path for request in without.requests}


async def test_vllm_with_a_credential_tells_its_numbers_without_being_sent_it() -> None:
    upstream = Upstream()
    assert (await upstream.probed(credential=KEY)).scrape == Scrape(running=0.0)
    (asked,) = [request for request in upstream.requests if request.url.path == "/metrics"]
    assert "authorization" not in asked.headers


@pytest.mark.parametrize(("takes_s", "told"), [(1.999, True), (2.001, False)])
def test_numbers_that_take_longer_than_two_seconds_are_unknown_and_the_server_is_ready(
    takes_s: float, told: bool
) -> None:
    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/metrics":
            await anyio.sleep(takes_s)
        reply = serving(scope["path"], None)
        await send({"type": "http.response.start", "status": reply.status_code, "headers": []})
        await send({"type": "http.response.body", "body": reply.content})

    async def probe() -> Probe:
        prober = open_prober(clock=LoopClock(), transport=AsgiTransport(slow))
        return await prober.probe(ProbeTarget(endpoint=ENDPOINT, server="vllm"))

    found = run_virtual(probe)
    assert (found.verdict, found.scrape is not None) == (Verdict.READY, told)


@pytest.mark.parametrize(("size", "told"), [(MIB, True), (MIB + 1, False)])
async def test_more_than_a_mebibyte_of_numbers_is_not_read(size: int, told: bool) -> None:
    page = METRICS.encode() + b"#" * (size - len(METRICS))
    probe = await Upstream(on("/metrics", httpx.Response(200, content=page))).probed()
    assert (probe.verdict, probe.scrape is not None) == (Verdict.READY, told)
