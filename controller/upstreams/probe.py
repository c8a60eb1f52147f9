"""Does the model server at this address serve, and only to those who hold its key?

Asked from outside, as a client would reach it. A machine is ready when it answers its health path, turns away a
caller without a key, turns away the literal text of the secret reference (a provider that did not replace it would
have made that the key, and everybody can read it), and tells no wrong name. Names are known from vLLM's open metrics
or with a probe credential; else they are unknown, which blocks nothing here.

What the provider's proxy says of itself is kept apart from what the server says: a proxy that turns away our kind of
client (403 with its code 1010, or a page) says nothing about a key. Silence, and the proxy's own 52x, are unknown.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Literal

import anyio

from controller.clock import Clock
from controller.core.readiness import Verdict
from controller.core.runtime import Scrape
from controller.transport import MIB, Answer, AsyncTransport, CallLimits, Http, TransportError, redacted
from controller.upstreams.stats import stats_in, told_in, with_slots
from controller.upstreams.vllm import OLDEST

USER_AGENT: Final = (
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36"
)
"""The pod proxy turns common libraries away (403, code 1010); browsers pass (seen 2026-10)."""
PROBE_LIMITS: Final = CallLimits(whole=timedelta(seconds=10), body_bytes=MIB)
SCRAPE_LIMIT: Final = timedelta(seconds=2)
"""What a server counts about itself is worth no more patience (LS-12)."""
NAMES_MAX: Final = 64
VERSION: Final = re.compile(r"(\d{1,4})\.(\d{1,4})[0-9A-Za-z.+_-]{0,50}", re.ASCII)
PROXY_CODE: Final = re.compile(rb"\b1010\b")

Server = Literal["vllm", "llama_cpp"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeTarget:
    """One model server. `endpoint` ends in `/v1/`."""

    endpoint: str
    server: Server
    secret_reference: str | None = None
    """The literal text that the provider should have replaced with the key."""
    credential: str | None = field(default=None, repr=False)
    """The server's key, if the operator lets us hold it."""
    ask_version: bool = False
    """Its image does not say which vLLM it holds."""
    proven: bool = False
    """It showed all of it lately: that it serves and counts is enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """What one probe came to."""

    verdict: Verdict
    served: tuple[str, ...] | None
    """The names it serves by; None: it did not tell."""
    detail: str
    observed_at: datetime
    answered: bool = True
    """Did anything answer at all? If not, this machine's network may be what is wrong."""
    scrape: Scrape | None = None
    """What it counts about itself; None: it did not tell, or is not ready."""
    version: str | None = None
    """Of vLLM, where it was asked for and told."""
    whole: bool = True
    """Was all of it asked for? Else neither names nor version are told."""


def open_prober(
    *, clock: Clock, transport: AsyncTransport | None = None, limits: CallLimits = PROBE_LIMITS
) -> "HttpProber":
    return HttpProber(Http("", user_agent=USER_AGENT, limits=limits, transport=transport), clock=clock)


class HttpProber:
    """Probes any number of model servers. Allocates nothing and costs no tokens."""

    def __init__(self, http: Http, *, clock: Clock) -> None:
        self._http = http
        self._clock = clock

    async def probe(self, target: ProbeTarget) -> Probe:
        """Never raises for what the server does; each call has its own limit."""
        answered, served, scrape, version, whole = True, None, None, None, True
        try:
            await self._healthy(_root(target))
            if target.proven:
                scrape = await self._numbers(_root(target), target)
                whole = scrape is None or not scrape.known
            if whole:
                served, scrape = await self._serves(target)
                version = await self._version(target) if target.ask_version else None
            verdict, detail = Verdict.READY, "serves"
        except _Ended as ended:
            verdict, detail = ended.verdict, ended.detail
        except TransportError as error:
            verdict, detail, answered = Verdict.UNREACHABLE, str(error), False
        secrets = () if target.credential is None else (target.credential,)
        return Probe(
            verdict=verdict,
            served=served,
            detail=redacted(detail, secrets=secrets),
            observed_at=self._clock.now(),
            answered=answered,
            scrape=scrape if scrape is not None and scrape.known else None,
            version=version,
            whole=whole,
        )

    async def aclose(self) -> None:
        await self._http.aclose()

    async def _serves(self, target: ProbeTarget) -> tuple[tuple[str, ...] | None, Scrape | None]:
        """The names it serves by, and its own numbers. Raises _Ended with the first thing that is not as it must be."""
        root = _root(target)
        guarded = await self._guarded(root, target.server)
        if target.secret_reference is not None:
            answer = await self._get(guarded, bearer=target.secret_reference)
            if _opens(guarded, answer):
                raise _Ended(Verdict.SECRET_UNSUBSTITUTED, "the literal secret reference opens it")
            _must_refuse(answer)
        if target.credential is not None:
            names = await self._names_by_key(root, guarded, target.credential)
            return names, await self._numbers(root, target)
        if target.server != "vllm":
            return None, None  # llama.cpp tells nothing to whoever has no key (MS-11)
        text = await self._told(f"{root}/metrics")
        return (None, None) if text is None else told_in(text.decode("utf-8", errors="replace"))

    async def _version(self, target: ProbeTarget) -> str | None:
        """Unknown rather than an end, but for one that anybody may use: a pinned one of that age is never ordered."""
        body = await self._told(f"{_root(target)}/version")
        said = None if body is None else _json(body)
        version = said.get("version") if isinstance(said, dict) else None
        if not isinstance(version, str) or (number := VERSION.fullmatch(version)) is None:
            return None
        if (int(number[1]), int(number[2])) < OLDEST:
            raise _Ended(Verdict.UNPROTECTED, f"vLLM {version} can be used without its key (CVE-2026-48746)")
        return version

    async def _healthy(self, root: str) -> None:
        answer = await self._get(f"{root}/health")
        if answer.code != 200:
            raise _Ended(Verdict.NOT_READY, f"/health answered {answer.code}")

    async def _guarded(self, root: str, server: Server) -> str:
        """A path that turns away callers without a key; older llama.cpp shows its models to all and guards the rest."""
        paths = (f"{root}/v1/models", f"{root}/props") if server == "llama_cpp" else (f"{root}/v1/models",)
        for path in paths:
            answer = await self._get(path)
            if not _opens(path, answer):
                _must_refuse(answer)
                return path
        raise _Ended(Verdict.UNPROTECTED, "it answers a caller without a key")

    async def _names_by_key(self, root: str, guarded: str, credential: str) -> tuple[str, ...] | None:
        path = f"{root}/v1/models"
        if guarded != path:
            _must_accept(await self._get(guarded, bearer=credential))
        answer = await self._get(path, bearer=credential)
        _must_accept(answer)
        return _listed(answer.body)

    async def _numbers(self, root: str, target: ProbeTarget) -> Scrape | None:
        bearer = target.credential if target.server == "llama_cpp" else None
        text = await self._told(f"{root}/metrics", bearer=bearer)
        scrape = None if text is None else stats_in(text.decode("utf-8", errors="replace"))
        if target.server == "llama_cpp" and (slots := await self._told(f"{root}/slots", bearer=bearer)) is not None:
            scrape = with_slots(scrape or Scrape(), slots)
        return scrape

    async def _told(self, url: str, *, bearer: str | None = None) -> bytes | None:
        """Unknown rather than an end: a server may hide its numbers, or be too busy to tell them, and serve well."""
        with anyio.move_on_after(SCRAPE_LIMIT.total_seconds()):
            try:
                answer = await self._get(url, bearer=bearer)
            except (TransportError, _Ended):
                return None
            return answer.body if answer.code == 200 else None
        return None

    async def _get(self, url: str, *, bearer: str | None = None) -> Answer:
        """An answer of the server's own. Raises _Ended for one of the proxy's."""
        headers = {} if bearer is None else {"authorization": f"Bearer {bearer}"}
        answer = await self._http.call("GET", url, headers=headers)
        if answer.code == 403 and _is_of_proxy(answer):
            raise _Ended(Verdict.PROXY_REFUSED, "the proxy turns this client away")
        if 520 <= answer.code <= 530:
            raise _Ended(Verdict.UNREACHABLE, f"the proxy got no answer ({answer.code})")
        return answer


def _root(target: ProbeTarget) -> str:
    return target.endpoint.removesuffix("/").removesuffix("/v1")


class _Ended(Exception):
    """The probe's way out; no failure of ours."""

    def __init__(self, verdict: Verdict, detail: str) -> None:
        super().__init__(detail)
        self.verdict = verdict
        self.detail = detail


def _must_refuse(answer: Answer) -> None:
    if answer.code not in {401, 403}:
        raise _Ended(Verdict.NOT_READY, f"a call that must be refused was answered {answer.code}")


def _must_accept(answer: Answer) -> None:
    if answer.code in {401, 403}:
        raise _Ended(Verdict.REFUSED, "the probe credential is refused")
    if answer.code != 200:
        raise _Ended(Verdict.NOT_READY, f"a call with the credential was answered {answer.code}")


def _opens(url: str, answer: Answer) -> bool:
    """The server's own 200, with what is asked for in it: a page that somebody else put there opens nothing."""
    content = _json(answer.body) if answer.code == 200 else None
    if url.endswith("/models"):
        return isinstance(content, dict) and isinstance(content.get("data"), list)
    return isinstance(content, dict)


def _is_of_proxy(answer: Answer) -> bool:
    kind = answer.headers.get("content-type", "").lower()
    start = answer.body[:4096].lower()
    return "html" in kind or b"<html" in start or b"<!doctype" in start or PROXY_CODE.search(start) is not None


def _listed(body: bytes) -> tuple[str, ...] | None:
    listed = _json(body)
    entries = listed.get("data") if isinstance(listed, dict) else None
    if not isinstance(entries, list):
        return None
    return tuple(_ids(entries)) or None


def _ids(entries: list[Any]) -> Iterator[str]:
    for entry in entries[:NAMES_MAX]:
        if isinstance(entry, dict) and isinstance(entry.get("id"), str):
            # Half a character can be in a JSON text and in no answer of ours.
            yield entry["id"].encode("utf-8", "replace").decode()


def _json(body: bytes) -> Any:
    """None for anything that is no JSON object or list."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None
