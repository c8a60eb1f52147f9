"""What do the words of an option mean?

What typer cannot read by itself; a word that means nothing ends the command as wrongly used.
"""

from datetime import timedelta
from pathlib import Path

from controller.cli.exits import Exit, Failure


def places_of(given: list[str]) -> dict[str, Path]:
    found = {alias: Path(place) for alias, _, place in (text.partition("=") for text in given) if alias and place}
    if len(found) != len(given):
        raise Failure(Exit.USAGE, "write --model-files as ALIAS=PATH, once for each model")
    return found


def span_of(text: str | None) -> timedelta | None:
    from controller.settings.values import parse_span

    if text is None:
        return None
    if not (found := parse_span(text)):
        raise Failure(Exit.USAGE, f'not a duration: {text}; write it as in "90s" or "10m"')
    return found
