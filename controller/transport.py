"""What do we know for sure about a call that we made?

Three things can be known: the answer was read whole (`Answer`, whatever its number says), no byte of the request left
(`NotSent`), or anything else (`OutcomeUnknown`): once sending began, a timeout, a reset or a torn body says nothing
about what was done over there. A create depends on telling these apart, so nothing here repeats a call, follows a
redirect or takes an answer in part, and a call asked to be fresh never leaves on a connection that the other side may
have closed.

The only place where httpx is known. Texts for people pass through `redacted`; no answer's body goes into one whole.
"""

import re
import ssl
import zlib
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache, lru_cache
from types import TracebackType
from typing import Final, Self

import anyio
import httpx

AsyncTransport = httpx.AsyncBaseTransport
"""The seam: real sockets, or in process to an app."""

MIB: Final = 1024 * 1024
CONNECT_LIMIT: Final = timedelta(seconds=10)
# A connection idle for longer may be dead without saying so; one that answered a moment ago rarely is (RP-7).
KEEPALIVE_LIMIT: Final = timedelta(seconds=5)
CONNECTIONS_MAX: Final = 64
HOSTS_KEPT: Final = 256
DETAIL_LENGTH_MAX: Final = 512
SECRET_LENGTH_MIN: Final = 4


class TransportError(Exception):
    """The call brought no answer. The text is ours or redacted."""


class NotSent(TransportError):
    """No byte of the request left: nothing was done there, for certain."""


class OutcomeUnknown(TransportError):
    """The request left, in part or whole, and no whole answer came back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A whole answer. A 3xx is an answer like any other."""

    code: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes = field(repr=False)
    """Never logged: providers echo environments in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLimits:
    """How long one call may take in all, and how much of an answer is read."""

    whole: timedelta = timedelta(seconds=30)
    body_bytes: int = 16 * MIB

    def phases(self) -> httpx.Timeout:
        whole = self.whole.total_seconds()
        connect = min(CONNECT_LIMIT.total_seconds(), whole)
        return httpx.Timeout(connect=connect, pool=connect, read=whole, write=whole)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sip:
    """How much of a stream without an end is taken: until it is silent for `quiet` after it said something, or to one
    of the limits."""

    whole: timedelta
    quiet: timedelta
    body_bytes: int


class Http:
    """One party that we speak to, with the headers that it alone gets.

    `bearer` goes with every call and nowhere else: paths are appended to `address`, redirects are answers, and proxies
    named in the environment are not used. What httpx's client would add (redirects, cookies, authentication, hooks) is
    what we never want, so its transports are spoken to directly, at half the cost a call. With an empty `address` each
    call gives a full URL, and there is no bearer.
    """

    def __init__(
        self,
        address: str,
        *,
        user_agent: str,
        bearer: str | None = None,
        limits: CallLimits | None = None,
        transport: AsyncTransport | None = None,
    ) -> None:
        if bearer is not None and not address:
            raise ValueError("a credential needs the one address that it is for")
        self._address = address.rstrip("/")
        self._bearer = bearer
        self._limits = limits or CallLimits()
        headers = {"user-agent": user_agent, "accept": "*/*", "accept-encoding": "identity"}
        if bearer is not None:
            headers["authorization"] = f"Bearer {bearer}"
        self._headers = headers
        self._usual: dict[bytes, httpx.Headers] = {}
        """By host, what goes with a call that has nothing of its own to say: most are such."""
        self._extensions = {"timeout": self._limits.phases().as_dict()}
        if transport is None:
            self._pooled, self._single = _sockets(kept=CONNECTIONS_MAX), _sockets(kept=0)
        else:
            self._pooled = self._single = transport

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        fresh: bool = False,
    ) -> Answer:
        """One attempt. Raises NotSent or OutcomeUnknown, chained from what httpx raised; cancellation passes through.

        `fresh` uses a new connection and closes it after: only then does a reset mean that the request had left.
        """
        transport = self._single if fresh else self._pooled
        with _ToldApart(self):
            request = self._request(method, path, headers=headers, body=body)
            with anyio.move_on_after(self.call_limit.total_seconds()):
                return await self._attempt(transport, request)
            raise TimeoutError

    async def open(self, path: str) -> Answer:
        """Ask for what may be a stream without an end, and leave once it begins: the answer, and no more of its body
        than a refusal needs. Raises as `call` does."""
        with _ToldApart(self):
            request = self._request("GET", path)
            with anyio.move_on_after(self.call_limit.total_seconds()):
                return await self._attempt(self._single, request, streams=True)
            raise TimeoutError

    async def sip(self, path: str, limit: Sip) -> tuple[Answer, bool]:
        """Take what a stream without an end has to say now, and leave it; whether it was we who left, and not for its
        size. Raises as `call` does, where no answer began."""
        with _ToldApart(self):
            request = self._request("GET", path)
            with anyio.fail_after(limit.whole.total_seconds()):
                response = await self._single.handle_async_request(request)
            try:
                body, left = await _taken(response, limit)
            finally:
                await response.aclose()
        return Answer(code=response.status_code, headers=_read(response.headers), body=body), left

    @property
    def call_limit(self) -> timedelta:
        """How long one call may take in all."""
        return self._limits.whole

    def _request(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None, body: bytes | None = None
    ) -> httpx.Request:
        """Given a stream, httpx takes the headers as they are: what it would find out for each call anew is known."""
        url, own = _parsed(f"{self._address}{path}"), dict(headers or {})
        sent = self._with_host(url.netloc)
        if body is not None:
            own |= {"content-type": "application/json", "content-length": str(len(body))}
        elif method in {"POST", "PUT", "PATCH"}:
            own["content-length"] = "0"
        if own:
            sent = httpx.Headers({**sent, **own})
        stream = httpx.ByteStream(body or b"")
        return httpx.Request(method, url, headers=sent, stream=stream, extensions=self._extensions)

    def _with_host(self, host: bytes) -> httpx.Headers:
        known = self._usual.get(host)
        if known is None:
            if len(self._usual) >= HOSTS_KEPT:
                self._usual.clear()
            known = self._usual[host] = httpx.Headers({"host": host.decode("ascii"), **self._headers})
        return known

    async def _attempt(self, transport: AsyncTransport, request: httpx.Request, *, streams: bool = False) -> Answer:
        response = await transport.handle_async_request(request)
        begun = streams and response.status_code == 200
        try:
            headers = _read(response.headers)
            body = b"" if begun else await self._bounded(response, headers.get("content-encoding", ""))
            return Answer(code=response.status_code, headers=headers, body=body)
        finally:
            await response.aclose()

    async def _bounded(self, response: httpx.Response, coding: str) -> bytes:
        read = bytearray()
        async for chunk in _pieces(response):
            read += chunk
            if len(read) > self._limits.body_bytes:
                raise OutcomeUnknown(f"the answer is larger than {self._limits.body_bytes} bytes")
        return _unpacked(bytes(read), coding, most=self._limits.body_bytes)

    def said(self, error: BaseException) -> str:
        """What went wrong, for people."""
        return self.redacted(f"{type(error).__name__}: {error}")

    def redacted(self, text: str, *, secrets: Iterable[str] = ()) -> str:
        """`text` for people, without our own key and the given `secrets`."""
        return redacted(text, secrets=(*secrets, self._bearer or ""))

    def carries_key(self, text: str) -> bool:
        """Is our own key anywhere in this text? Asked before something is sent that others can read."""
        return self._bearer is not None and self._bearer in text

    async def aclose(self) -> None:
        # A connection that cannot even be closed politely is gone: nothing is owed to it.
        with suppress(httpx.HTTPError, OSError):
            await self._pooled.aclose()
        with suppress(httpx.HTTPError, OSError):
            await self._single.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class _ToldApart:
    """While inside, what httpx raises becomes what is known for sure."""

    __slots__ = ("_http",)

    def __init__(self, http: Http) -> None:
        self._http = http

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        match error:
            case httpx.ConnectError() | httpx.ConnectTimeout() | httpx.PoolTimeout():
                raise NotSent(self._http.said(error)) from error
            case httpx.UnsupportedProtocol() | httpx.InvalidURL():
                raise NotSent(self._http.said(error)) from error
            case TimeoutError():
                whole = self._http.call_limit.total_seconds()
                raise OutcomeUnknown(f"no whole answer within {whole:g} s") from error
            case httpx.HTTPError():
                raise OutcomeUnknown(self._http.said(error)) from error
            case _:
                return


def _read(headers: httpx.Headers) -> dict[str, str]:
    """By name in lower case; what came several times is one list, as HTTP has it."""
    found: dict[str, str] = {}
    for raw_name, raw_value in headers.raw:
        name, value = _text(raw_name).lower(), _text(raw_value)
        found[name] = f"{found[name]}, {value}" if name in found else value
    return found


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


async def _pieces(response: httpx.Response) -> AsyncIterator[bytes]:
    """As they came: httpx would unpack each without a bound."""
    assert isinstance(response.stream, httpx.AsyncByteStream)  # noqa: S101 - each transport here is asynchronous
    async for piece in response.stream:
        yield piece


def _unpacked(body: bytes, coding: str, *, most: int) -> bytes:
    """What was packed though we asked for it plain: a thousand bytes may hold more than this machine has. Raises
    OutcomeUnknown for more than `most`, and for what cannot be unpacked."""
    coding = coding.strip().lower()
    if not body or coding in {"", "identity"}:
        return body
    if coding != "gzip":
        raise OutcomeUnknown("the answer is packed in a way that was not asked for")
    packed = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        plain = packed.decompress(body, most + 1)
    except zlib.error as error:
        raise OutcomeUnknown("the answer cannot be unpacked") from error
    if len(plain) > most:
        raise OutcomeUnknown(f"the answer is larger than {most} bytes")
    if not packed.eof:
        raise OutcomeUnknown("the answer is torn")
    return plain


async def _taken(response: httpx.Response, limit: Sip) -> tuple[bytes, bool]:
    taken, pieces = bytearray(), _pieces(response)
    ends_at = anyio.current_time() + limit.whole.total_seconds()
    while len(taken) <= limit.body_bytes and anyio.current_time() < ends_at:
        left, quiet = ends_at - anyio.current_time(), limit.quiet.total_seconds()
        try:
            with anyio.fail_after(min(quiet, left) if taken else left):
                taken += await anext(pieces)
        except StopAsyncIteration:
            return bytes(taken), False
        except TimeoutError:
            return bytes(taken), not taken or quiet <= left
    return bytes(taken[: limit.body_bytes]), False


@lru_cache(maxsize=256)
def _parsed(url: str) -> httpx.URL:
    """Raises httpx.InvalidURL. The same few addresses are asked for ever, and parsing one costs as much as the rest."""
    return httpx.URL(url)


@cache
def trusted() -> ssl.SSLContext:
    """By whose word a party is believed. Read once, as the certificates come with a package: each reading takes
    a thirtieth of a second, and a daemon speaks to half a dozen."""
    return httpx.create_ssl_context(trust_env=False)


def _sockets(*, kept: int) -> AsyncTransport:
    limits = httpx.Limits(
        max_connections=CONNECTIONS_MAX,
        max_keepalive_connections=kept,
        keepalive_expiry=KEEPALIVE_LIMIT.total_seconds(),
    )
    return httpx.AsyncHTTPTransport(verify=trusted(), trust_env=False, limits=limits)


HIDDEN: Final = "[hidden]"
# Shapes that are never anything but a key, whoever's it is: one's own may be met in another's words. The one name that
# looks alike is a key of the config.
KEY_SHAPES: Final = re.compile(
    r"(?i)(?<=bearer )\S+|(?<=bearer%20)\S+|(?<=api_key=)[^\s&\"']+"
    r"|\b(?!hf_token_secret\b)(?:rpa|hf|sk)[_-][A-Za-z0-9_-]{8,}"
)


def redacted(text: str, *, secrets: Iterable[str] = ()) -> str:
    """`text` on one printable line of at most 512 characters, with keys and the given secrets taken out."""
    for secret in sorted({secret for secret in secrets if len(secret) >= SECRET_LENGTH_MIN}, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    text = KEY_SHAPES.sub(HIDDEN, text)
    line = "".join(char if char.isprintable() else " " for char in text[: DETAIL_LENGTH_MAX * 4])
    return " ".join(line.split())[:DETAIL_LENGTH_MAX]
