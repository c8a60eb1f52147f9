"""Which secrets are planted, and where is one of them found that ought to be nowhere?

Each is looked for as it is, in base64 at any offset, as an address would quote it, as JSON would, and in pieces: words
for people are cut somewhere, and half a key is a leak, too.
"""

import base64
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote

ACCOUNT: Final = "rpa_Kq7CANARY+account/Zx81mWv0pLrT3hDfG5sJ9bN2c="
SERVER: Final = "sk-vCANARY+server/7yQm2XkR9tWzB4nLh6FdS8jP1g5aC="
HUB: Final = "hf_CANARY+hub/pQ8sVn3YwMz6KtRj1LxDc9BfHg4T7uA2eI="
CLIENT: Final = "gw-CANARY+client/mN5bXc8VzKq2WrTy7PdLj4HsGf1Q9oU="
WEBHOOK: Final = "https://hooks.example/CANARY+webhook/eR6tYu3IoPa8SdFg1HjKl5ZxCv="
PROMPT: Final = "CANARY-prompt-the-quick-brown-fox-tells-nobody-what-it-was-asked"
PLANTED: Final[Mapping[str, str]] = {
    "account key": ACCOUNT,
    "model server key": SERVER,
    "Hugging Face token": HUB,
    "client key": CLIENT,
    "webhook address": WEBHOOK,
    "prompt": PROMPT,
}
PIECE: Final = 16
"""Nothing so long comes by chance, and whoever has so much of a key has half of it."""


def _pieces(secret: str) -> Iterator[str]:
    yield from (secret[at : at + PIECE] for at in range(len(secret) - PIECE + 1))


def _in_radix_64(secret: str) -> Iterator[str]:
    """What stands in base64 of any text that holds the secret, whatever came before it."""
    for before in range(3):
        coded = base64.b64encode(b"x" * before + secret.encode()).decode()
        kept = coded[4 if before else 0 : -4]
        yield kept
        yield kept.translate(str.maketrans("+/", "-_"))


def _forms(secret: str) -> frozenset[bytes]:
    texts = {*_pieces(secret), *_pieces(quote(secret, safe="")), *_pieces(secret.replace("/", "\\/"))}
    texts |= {piece for coded in _in_radix_64(secret) for piece in _pieces(coded)}
    return frozenset(text.encode() for text in texts)


_NAMES: Final = {form: name for name, secret in PLANTED.items() for form in _forms(secret)}


def found_in(content: bytes, *, but: tuple[str, ...] = ()) -> dict[str, str]:
    """Which are in there, each with what stands around it; `but`: those that may be.

    Every form is as long as the others, so one look at each place does: a pattern of so many words takes minutes.
    """
    found: dict[str, str] = {}
    for at in range(len(content) - PIECE + 1):
        name = _NAMES.get(content[at : at + PIECE])
        if name is not None and name not in but and name not in found:
            found[name] = content[max(0, at - 80) : at + PIECE + 40].decode(errors="replace")
    return found


def found_below(folder: Path, *, but: frozenset[Path]) -> dict[str, dict[str, str]]:
    """In every file, by its name; `but`: files and folders where they belong."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and but.isdisjoint((path, *path.parents)) and (leaks := found_in(path.read_bytes())):
            found[str(path.relative_to(folder))] = leaks
    return found
