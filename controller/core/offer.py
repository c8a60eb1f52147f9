"""What is one offer of a provider called?

An offer is what one create asks for: a type of card, and where the machine must stand if that matters (a volume is in
one place). Both are words of the provider, and so is what they make: it is compared, shown and stored, never taken
apart.
"""

_AT = " @ "


def offer_of(card: str, place: str | None = None) -> str:
    """The word for this card, in this place or wherever there is one."""
    return card if place is None else f"{card}{_AT}{place}"
