"""What does a model server see of a request?

The body, its content type and what the client accepts; the model's own key; one plain browser-like user agent,
because the provider's proxy refuses robots (RP-8). No header of the client's goes further, and no key of one side
reaches the other: not in a refusal that quotes it either.
"""

import json
import math
from datetime import timedelta
from typing import Final

from controller.gateway.admission import Wish
from controller.gateway.config import GatewayConfig
from controller.gateway.routes import Route
from controller.gateway.wires import Shape
from controller.http1 import Incoming, Keeping, Outgoing

USER_AGENT: Final = b"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0 Safari/537.36"
KEY_AGE_S: Final = 5.0
"""Reading it may mean reading a file, which no request should pay for."""
MADE_MOST: Final = 256
"""What a client accepts is its own words."""
PLAIN: Final = Wish(b"application/json", b"application/json", None)
BLANK: Final = b"[redacted]"


class Upstream:
    def __init__(self, wire: Keeping, config: GatewayConfig) -> None:
        self._wire = wire
        self._config = config
        self._keys: dict[str, tuple[str, float]] = {}
        self._made: dict[tuple[str, str, str, bytes, bytes], tuple[Outgoing, float]] = {}
        self.proof_limit: timedelta = config.proof_limit
        self.kept = wire.kept
        """A connection to that address which stands already; whoever gets it closes it."""

    async def send(self, request: Outgoing) -> Incoming:
        """Raises `WireError`. Whoever gets the answer closes it."""
        return await self._wire.send(request)

    def request(self, alias: str, route: Route, shape: Shape, *, now: float, wish: Wish = PLAIN) -> Outgoing:
        """Without a body. The same for all who ask alike, for as long as the model's key is taken for the same."""
        asked = (alias, route.endpoint, shape.path, wish.kind, wish.accept)
        request, until = self._made.get(asked, (None, 0.0))
        if request is None or now > until:
            if len(self._made) >= MADE_MOST:
                self._made.clear()
            request = self._request(alias, route, shape, wish, now)
            self._made[asked] = request, self._keys[alias][1] + KEY_AGE_S  # as long as its key
        return request

    def _request(self, alias: str, route: Route, shape: Shape, wish: Wish, now: float) -> Outgoing:
        key = self._key(alias, now)
        headers = [
            (b"content-type", wish.kind),
            (b"accept", wish.accept),
            (b"accept-encoding", b"identity"),
            (b"user-agent", USER_AGENT),
        ]
        if key:
            headers.append((b"authorization", b"Bearer " + key.encode()))
        return Outgoing(
            method="POST",
            url=route.endpoint + shape.path,
            headers=tuple(headers),
            head_limit=self._config.head_limit,
            silence_limit=self._config.silence_limit,
        )

    def forget_key(self, alias: str) -> None:
        """A model server refused it: read it anew for the next request."""
        self._keys.pop(alias, None)
        self._made.clear()

    def without_key(self, alias: str, words: bytes) -> bytes:
        """What a model server says of a request that it refuses, less the key that came with it: some quote it."""
        key, _ = self._keys.get(alias, ("", 0.0))
        for form in {key, json.dumps(key)[1:-1], key.replace("/", "\\/")} if key else ():
            words = words.replace(form.encode(), BLANK)
        return words

    def _key(self, alias: str, now: float) -> str:
        key, read_at = self._keys.get(alias, ("", -math.inf))
        if now - read_at > KEY_AGE_S:
            key = self._config.models[alias]()
            self._keys[alias] = (key, now)
        return key
