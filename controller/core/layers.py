"""What does each layer of a model do with what a request told it, as the model's config.json says?

It attends to all tokens or to those inside a window, it keeps one state, or it keeps nothing. Newer files list a word
for each layer; for older ones the architecture's own rule stands. A word that is not known, or a number that is missing
or odd is `CannotSize`, never a guess.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

LAYERS_MOST: Final = 1024


class CannotSize(Exception):
    """What this model keeps in memory is not known; `why` is for operators."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class Kind(StrEnum):
    """What a layer does, in the words of `layer_types`."""

    FULL = "full_attention"
    SLIDING = "sliding_attention"
    STATE = "linear_attention"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Part:
    """The part of a config.json that describes the language model."""

    content: Mapping[str, Any]

    @property
    def model_type(self) -> str:
        return str(self.content["model_type"])

    @property
    def layers(self) -> int:
        return self.whole("num_hidden_layers", most=LAYERS_MOST)

    def whole(self, key: str, *, most: int, usual: int | None = None) -> int:
        """A whole number from 1 to `most`; where it is missing, what the architecture's own code takes."""
        value = self.content.get(key)
        if value is None and usual is not None:
            return usual
        if value is None:
            raise CannotSize(f"its config.json has no {key}")
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            raise CannotSize(f"{key} in its config.json is no whole number from 1 to {most}")
        return value


Rule = Callable[[Part], Sequence[Kind]]


def full(part: Part) -> Sequence[Kind]:
    return _listed(part, lambda part: [Kind.FULL] * part.layers)


def only_listed(part: Part) -> Sequence[Kind]:
    """No rule is behind it: each size of the model has layers of its own."""
    if _words(part) is None:
        raise CannotSize("its config.json has no layer_types")
    return full(part)


def windowed(part: Part) -> Sequence[Kind]:
    """Every layer has the window, if there is one."""
    kind = Kind.FULL if part.content.get("sliding_window") is None else Kind.SLIDING
    return _listed(part, lambda part: [kind] * part.layers)


def windowed_from(part: Part) -> Sequence[Kind]:
    """Only where it is switched on, and in the layers behind `max_window_layers`."""

    def rule(part: Part) -> Sequence[Kind]:
        if part.content.get("use_sliding_window") is not True or part.content.get("sliding_window") is None:
            return [Kind.FULL] * part.layers
        first = min(part.whole("max_window_layers", most=LAYERS_MOST), part.layers)
        return [Kind.FULL] * first + [Kind.SLIDING] * (part.layers - first)

    return _listed(part, rule)


def full_every(part: Part, *, key: str, usual: int, between: Kind = Kind.SLIDING) -> Sequence[Kind]:
    """One full layer closes each round of as many layers as `key` says."""

    def rule(part: Part) -> Sequence[Kind]:
        period = part.whole(key, most=LAYERS_MOST, usual=usual)
        return [Kind.FULL if number % period == 0 else between for number in range(1, part.layers + 1)]

    return _listed(part, rule)


def by_pattern(part: Part) -> Sequence[Kind]:
    """One letter a layer in older files: M keeps a state, * attends, the others keep nothing."""
    if _words(part) is not None:
        return only_listed(part)
    letters = part.content.get("hybrid_override_pattern")
    kinds = {"M": Kind.STATE, "*": Kind.FULL, "-": Kind.NONE, "E": Kind.NONE}
    if not isinstance(letters, str) or len(letters) != part.layers or set(letters) - set(kinds):
        raise CannotSize("hybrid_override_pattern in its config.json is not one letter of M * - E a layer")
    return [kinds[letter] for letter in letters]


def encoding(part: Part) -> Sequence[Kind]:
    """Reads a text at once and keeps nothing."""
    return [Kind.NONE] * part.layers


_KINDS: Final[Mapping[str, Kind]] = {
    **{kind.value: kind for kind in (Kind.FULL, Kind.SLIDING, Kind.STATE)},
    **{"attention": Kind.FULL, "mamba": Kind.STATE, "mlp": Kind.NONE, "moe": Kind.NONE},
}
"""Words of `layer_types`, of older files too."""


def _listed(part: Part, otherwise: Rule) -> Sequence[Kind]:
    """What `layer_types` says of each layer; newer files have it, for older ones the architecture's rule stands."""
    listed = _words(part)
    if listed is None:
        return otherwise(part)
    if not isinstance(listed, list) or len(listed) != part.layers:
        raise CannotSize("layer_types in its config.json is no list of one word a layer")
    return [_kind(word) for word in listed]


def _kind(word: object) -> Kind:
    kind = _KINDS.get(word) if isinstance(word, str) else None
    if kind is not None:
        return kind
    raise CannotSize("layer_types in its config.json has a word that is not known")


def _words(part: Part) -> object:
    content = part.content
    return content.get("layer_types") if content.get("layer_types") is not None else content.get("layers_block_type")
