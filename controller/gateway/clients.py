"""Who may use this address?

Whoever sends a key whose SHA-256 is configured, as a bearer or as `x-api-key`. The hash is compared without an early
end, with every configured one, so that the time taken tells nothing.
"""

import hashlib
import hmac
from collections.abc import Mapping

Headers = Mapping[bytes, bytes]


def may_use(headers: Headers, client_keys: frozenset[str]) -> bool:
    if not client_keys:
        return True
    key = _key(headers)
    if key is None:
        return False
    digest = hashlib.sha256(key).hexdigest()
    found = False
    for known in client_keys:
        found |= hmac.compare_digest(digest, known)
    return found


def _key(headers: Headers) -> bytes | None:
    scheme, _, key = headers.get(b"authorization", b"").partition(b" ")
    if scheme.lower() == b"bearer" and key.strip():
        return key.strip()
    return headers.get(b"x-api-key")
