"""Where do the system's words stand in a conversation for llama.cpp?

In front, both orders kept. Its chat templates refuse or drop a system message that is not the first, and some take no
second one: then all of them are made one (MS-12). On the wires where such words have a member of their own
(`instructions`, Anthropic's `system`) llama.cpp makes the first message of it, so that the one is made there.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

SYSTEM_ROLES: Final = ("system", "developer")
"""llama.cpp reads the second as the first (seen in b11434)."""
TEXT_PARTS: Final = ("text", "input_text")


def rearranged(members: Mapping[str, Any], *, conversation: str, standing: str, merge: bool) -> dict[str, Any]:
    """The members of a request that have to change, with their new values."""
    entries = members.get(conversation)
    if not isinstance(entries, list):
        return {}
    if not standing:
        moved = system_first(entries, merge=merge)
        return {} if moved is None else {conversation: moved}
    if merge and (one := _standing(members.get(standing), entries)) is not None:
        return {standing: one, conversation: [entry for entry in entries if not is_systems(entry)]}
    moved = system_first(entries)
    return {} if moved is None else {conversation: moved}


def system_first(messages: object, *, merge: bool = False) -> list[Any] | None:
    """The messages with those of the system in front, both orders kept; None where nothing has to move."""
    if not isinstance(messages, list):
        return None
    system = [entry for entry in messages if is_systems(entry)]
    others = [entry for entry in messages if not is_systems(entry)]
    if merge and len(system) > 1 and (one := _as_one(system)) is not None:
        return [one, *others]
    moved = system + others
    return moved if any(new is not old for new, old in zip(moved, messages, strict=True)) else None


def is_systems(entry: object) -> bool:
    return isinstance(entry, dict) and entry.get("role") in SYSTEM_ROLES


def _standing(stands: object, entries: Sequence[Any]) -> str | None:
    """All that the system says, as one text; None where it says it once at most, or in a form that is not known."""
    said = [entry.get("content") for entry in entries if is_systems(entry)]
    if not said or (len(said) == 1 and not stands):
        return None
    texts = [_text(content) for content in ([stands, *said] if stands else said)]
    return None if None in texts else "\n\n".join(map(str, texts))


def _text(content: object) -> str | None:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return None
    parts = [
        part.get("text") if isinstance(part, dict) and part.get("type") in TEXT_PARTS else None for part in content
    ]
    return "".join(map(str, parts)) if all(isinstance(part, str) for part in parts) else None


def _as_one(system: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The first with what all of them say; None where one says it in a form that is not known here."""
    contents = [entry.get("content") for entry in system]
    if all(isinstance(content, str) for content in contents):
        return {**system[0], "content": "\n\n".join(map(str, contents))}
    parts: list[Any] = []
    for content in contents:
        if not isinstance(content, str | list):
            return None
        parts += [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {**system[0], "content": parts}
