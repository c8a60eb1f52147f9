"""Do the further arguments of a vLLM model break the rules that its keys keep (MS-4)?

`extra_args` come last on the command line, and the last of two arguments counts. So what is written there is held
against the rules together with the keys that it leaves: a piece of a prompt is no longer than the context, and a batch
has room for a token of each sequence. What cannot be read as a number is left to vLLM.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import zip_longest
from typing import Final

from controller.settings.models import ModelSection

CONTEXT: Final = "--max-model-len"
SEQUENCES: Final = "--max-num-seqs"
BATCH: Final = "--max-num-batched-tokens"
PIECE: Final = "--long-prefill-token-threshold"

_ARGUMENTS: Final = (CONTEXT, SEQUENCES, BATCH, PIECE)
_SHORTEST: Final = len("--max-m")
_NUMBER: Final = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)([kKmMgG]?)", re.ASCII)
_TIMES: Final = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """One rule that does not hold; `argument` is the one to change, as it is written."""

    argument: str
    why: str
    mend: str


def broken(section: ModelSection) -> Iterator[Broken]:
    """By arguments alone, or by them beside the model's keys; what keys alone break is told there."""
    given = _given(section.extra_args)
    context, sequences = given.get(CONTEXT, section.context), given.get(SEQUENCES, section.max_num_seqs)
    batch, piece = (
        given.get(BATCH, section.max_num_batched_tokens),
        given.get(PIECE, section.long_prefill_token_threshold),
    )
    if batch is not None and batch < sequences and not given.keys().isdisjoint({BATCH, SEQUENCES}):
        told = BATCH if BATCH in given else SEQUENCES
        why = f"a batch of {batch} tokens is less than {sequences} sequences"
        mend = f"at least {sequences}" if told == BATCH else f"at most {batch}"
        yield Broken(argument=f"{told} {given[told]}", why=why, mend=f"write {mend}, or remove it")
    if piece is not None and piece > context and not given.keys().isdisjoint({PIECE, CONTEXT}):
        told = PIECE if PIECE in given else CONTEXT
        why = f"a piece of {piece} tokens is more than the context of {context}"
        mend = f"at most {context}" if told == PIECE else f"at least {piece}"
        yield Broken(argument=f"{told} {given[told]}", why=why, mend=f"write {mend}, or remove it")
    if piece is None and context < section.context:
        why = f"less than context = {section.context}, from which the rest is derived"
        yield Broken(argument=f"{CONTEXT} {context}", why=why, mend=f"remove it, and write context = {context}")


def _given(words: Sequence[str]) -> dict[str, int]:
    """The last readable number of each of our arguments."""
    found: dict[str, int] = {}
    for word, following in zip_longest(words, words[1:], fillvalue=""):
        name, joined, value = word.partition("=")
        argument, number = _argument(name), _number(value if joined else following)
        if argument is not None and number is not None:
            found[argument] = number
    return found


def _argument(name: str) -> str | None:
    """vLLM takes _ for -, and the begin of a name for all of it where no other begins so."""
    written = name.replace("_", "-")
    meant = [argument for argument in _ARGUMENTS if argument.startswith(written)]
    return meant[0] if len(meant) == 1 and len(written) >= _SHORTEST else None


def _number(text: str) -> int | None:
    """As vLLM reads it: 4k is 4000, 4K is 4096."""
    found = _NUMBER.fullmatch(text)
    return None if found is None else int(Decimal(found[1]) * _TIMES[found[2]])
