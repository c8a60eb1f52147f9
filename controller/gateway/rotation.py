"""In which order are several machines of one model tried for a request?

Those that did not fail lately first. Of these the one that the conversation's beginning points to, because what it once
computed for these words it need not compute again; but not when it has clearly more to do than another: a queue costs
more than what is remembered saves. Else the one with the least to do. The beginning points to the same machine from
every gateway and worker, and when a machine comes or goes only the conversations that were its own, or become its own,
move (rendezvous hashing). Rules only.
"""

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

from controller.gateway.routes import Key
from controller.gateway.wires import Shape

BEGINNING_CHARACTERS: Final = 4096
"""Longer ones differ further on, if at all; hashing them whole would cost each request."""
PATIENCE_LEAST: Final = 2
"""So many requests more than another a machine may have and still be preferred, or half as many again."""


def beginning(shape: Shape, members: Mapping[str, Any]) -> bytes | None:
    """What requests of one conversation, or with one system prompt, have in common; None where nothing is remembered.

    The system's words, and what follows them first: that one is kept apart, as agents with one long prompt shall
    spread when there are many of them.
    """
    if shape.signs is None:
        return None  # an embedding is computed anew each time
    entries = members.get(shape.conversation) if shape.conversation else members.get("prompt")
    if isinstance(entries, list):
        entries = entries[: 1 + next((at for at, entry in enumerate(entries) if not _of_system(entry)), len(entries))]
    standing = members.get(shape.standing) if shape.standing else None
    if not entries and not standing:
        return None
    text = json.dumps([_short(standing), _short(entries)], separators=(",", ":"), default=str)
    return text.encode()


def in_order(
    keys: Sequence[Key], *, open_requests: Mapping[Key, int], failed: frozenset[Key], begins: bytes | None
) -> list[Key]:
    """All of them, the best first."""
    left = sorted(keys, key=lambda key: (key in failed, open_requests.get(key, 0)))
    if begins is None or len(left) < 2:
        return left
    sound = [key for key in left if key not in failed] or left
    favourite = max(sound, key=lambda key: _pull(begins, key))
    least = open_requests.get(sound[0], 0)
    if open_requests.get(favourite, 0) <= least + max(PATIENCE_LEAST, least // 2):
        left.remove(favourite)
        left.insert(0, favourite)
    return left


def _of_system(entry: object) -> bool:
    return isinstance(entry, dict) and entry.get("role") in ("system", "developer")


def _short(value: object) -> object:
    """Cut where it is long; what is nested is written out first."""
    if isinstance(value, str):
        return value[:BEGINNING_CHARACTERS]
    return None if value is None else json.dumps(value, separators=(",", ":"), default=str)[:BEGINNING_CHARACTERS]


def _pull(begins: bytes, key: Key) -> bytes:
    return blake2b(begins, key=f"{key[0]}/{key[1]}".encode()[:64], digest_size=8).digest()
